package streamconsumer

import (
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// stone is an id n milliseconds after a base.
func stone(t *testing.T, n int64) evtid.ID {
	t.Helper()
	id, err := evtid.Make(1746090000000+n, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestShelf(t *testing.T) {
	at := func(n int64) evtid.ID { return stone(t, n) }
	s := shelf{after: at(10), to: at(40)}
	for _, n := range []int64{11, 15, 20, 25, 40} {
		s.records = append(s.records, evtlog.Record{ID: at(n)})
	}
	for _, c := range []struct {
		after, to int64
		n         int
		covered   bool
		want      []int64
		end       int64
	}{
		{9, 12, 9, false, nil, 0},
		{40, 50, 9, false, nil, 0},
		{10, 15, 9, true, []int64{11, 15}, 15},
		{15, 18, 9, true, nil, 18},
		{18, 30, 1, true, []int64{20}, 20},
		{20, 30, 9, true, []int64{25}, 30},
		{11, 30, 9, false, nil, 0}, // has been taken off
		{30, 60, 9, true, []int64{40}, 40},
	} {
		if s.covers(at(c.after)) != c.covered {
			t.Errorf("behind %d it is covered: %v", c.after, !c.covered)
		}
		if !c.covered {
			continue
		}
		records, end := s.take(redislog.SkippedRange{After: at(c.after), To: at(c.to)}, c.n)
		if end != at(c.end) || len(records) != len(c.want) {
			t.Fatalf("(%d, %d] gives %v up to %v", c.after, c.to, records, end)
		}
		for i, n := range c.want {
			if records[i].ID != at(n) {
				t.Errorf("(%d, %d] gives %v", c.after, c.to, records)
			}
		}
	}
	if new(shelf).covers(at(1)) || new(shelf).covers(evtid.ID{}) {
		t.Error("an empty shelf covers something")
	}
}

func TestReach(t *testing.T) {
	rg := func(after, to int64) redislog.SkippedRange {
		return redislog.SkippedRange{After: stone(t, after), To: stone(t, to)}
	}
	for _, c := range []struct {
		open []redislog.SkippedRange
		want int64
	}{
		{[]redislog.SkippedRange{rg(1, 2)}, 2},
		{[]redislog.SkippedRange{rg(1, 9), rg(3, 4), rg(9+shelfGap, 5000), rg(7000, 7001)}, 5000},
		{[]redislog.SkippedRange{rg(1, 9), rg(10+shelfGap, 5000)}, 9},
	} {
		if got := reach(c.open); got != stone(t, c.want) {
			t.Errorf("%v reaches to %v, want %v", c.open, got, stone(t, c.want))
		}
	}
}
