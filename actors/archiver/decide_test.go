package archiver

import (
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/internal/fakelog"
	"github.com/evtlog/evtlog/evtid"
)

var (
	id   = fakelog.ID
	none = evtid.ID{}
)

func TestTarget(t *testing.T) {
	commit, window := Dial{Commit: true}, Dial{Window: 10}
	for _, c := range []struct {
		name string
		v    view
		d    Dial
		o    order
		line evtid.ID
		want evtid.ID
	}{
		{name: "empty", d: commit},
		{name: "all archived", v: view{w: id(9), last: id(9), length: 9}, d: commit},
		{name: "commit: one record", v: view{w: id(8), last: id(9), length: 1}, d: commit, want: id(9)},
		{name: "window: not full", v: view{last: id(9), length: 9}, d: window},
		{name: "window: full", v: view{last: id(10), length: 10}, d: window, want: id(10)},
		{name: "window: full, archived entries not counted", v: view{w: id(3), last: id(10), length: 12, below: 3}, d: window},
		{name: "window: perhaps full", v: view{w: id(3), last: id(10), length: 12}, d: window, want: id(10)},
		{name: "window: nothing above W", v: view{w: id(20), last: id(20), length: 50}, d: window},
		{name: "line above W", v: view{last: id(9), length: 9}, d: window, line: id(4), want: id(4)},
		{name: "line below W", v: view{w: id(5), last: id(9), length: 9, below: 5}, d: window, line: id(4)},
		{name: "line, window full", v: view{last: id(20), length: 20}, d: window, line: id(4), want: id(20)},
		{name: "asked", v: view{last: id(9), length: 9}, d: window, o: order{through: id(7)}, want: id(7)},
		{name: "asked for less than the line", v: view{last: id(9), length: 9}, d: window, o: order{through: id(2)}, line: id(4), want: id(4)},
		{name: "asked for more than there is", v: view{last: id(9), length: 9}, d: window, o: order{through: id(70)}, want: id(9)},
		{name: "asked for what is archived", v: view{w: id(8), last: id(9), length: 1}, d: window, o: order{through: id(7)}},
		{name: "asked for all", v: view{last: id(9), length: 9}, d: window, o: order{all: true}, want: id(9)},
		{name: "trimmed empty", v: view{w: id(9), last: id(9)}, d: commit, o: order{all: true}},
	} {
		if got := target(c.v, c.d, c.o.pinned(c.v), c.line); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestView(t *testing.T) {
	for _, c := range []struct {
		name           string
		v              view
		regressed      bool
		behind         int64
		oldest, newest evtid.ID
	}{
		{"nothing", view{}, false, 0, none, none},
		{"never archived", view{first: id(1), newest: id(4), last: id(4), length: 4}, false, 4, id(1), id(4)},
		{"all archived and live", view{w: id(4), first: id(1), newest: id(4), last: id(4), length: 4}, false, 0, none, none},
		{"some archived", view{w: id(2), first: id(1), newest: id(4), last: id(4), length: 4, below: 2}, false, 2, id(4), id(4)},
		{"trimmed at W", view{w: id(2), first: id(3), newest: id(4), last: id(4), length: 2}, false, 2, id(3), id(4)},
		{"made anew", view{w: id(9), first: id(3), newest: id(4), last: id(4), length: 2}, true, 0, none, none},
		{"gone", view{w: id(9)}, true, 0, none, none},
	} {
		if c.v.regressed() != c.regressed || c.v.behind() != c.behind {
			t.Errorf("%s: regressed %v, behind %d", c.name, c.v.regressed(), c.v.behind())
		}
		if oldest, newest := c.v.unarchived(); oldest != c.oldest || newest != c.newest {
			t.Errorf("%s: unarchived %q..%q", c.name, oldest, newest)
		}
	}
}

func TestBelowAfter(t *testing.T) {
	for _, c := range []struct {
		name   string
		v      view
		w      evtid.ID
		folded int64
		want   int64
	}{
		{"folded to the top", view{last: id(9), length: 9}, id(9), 9, 9},
		{"folded beyond by another", view{last: id(9), length: 9}, id(12), 0, 9},
		{"folded a part, none below before", view{first: id(1), last: id(9), length: 9}, id(4), 4, 4},
		{"folded a part, known before", view{w: id(4), first: id(1), last: id(9), length: 9, below: 4}, id(6), 2, 6},
		{"folded a part, unknown before", view{w: id(4), first: id(1), last: id(9), length: 9}, id(6), 2, 0},
	} {
		if got := belowAfter(c.v, c.w, c.folded); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestBelowNow(t *testing.T) {
	for _, c := range []struct {
		name           string
		mark, w, first evtid.ID
		want           int64
	}{
		{"unchanged", id(4), id(4), id(1), 4},
		{"W was moved by another", id(4), id(6), id(1), 0},
		{"all of them were trimmed", id(4), id(4), id(5), 0},
		{"empty", id(4), id(4), none, 4},
	} {
		if got := belowNow(c.mark, c.w, 4, c.first); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestHeadAbove(t *testing.T) {
	first := evtid.ID{}.Next()
	for _, c := range []struct{ w, head, want evtid.ID }{
		{none, none, none}, {id(4), none, none}, {none, id(1), id(1)},
		{id(4), id(5), id(5)}, {id(4), id(4), first}, {id(4), id(1), first},
	} {
		if got := headAbove(c.w, c.head); got != c.want {
			t.Errorf("headAbove(%q, %q) = %q", c.w, c.head, got)
		}
	}
}

func TestChunks(t *testing.T) {
	record := func(size int) evtlog.Record {
		return evtlog.Record{Fields: []evtlog.Field{{Name: "b", Value: string(make([]byte, size-recordBytes-fieldBytes-1))}}}
	}
	for _, c := range []struct {
		name  string
		sizes []int
		want  []int
	}{
		{"none", nil, nil},
		{"one", []int{100}, []int{1}},
		{"all fit", []int{500, 400, 100}, []int{3}},
		{"one byte too many", []int{500, 400, 101}, []int{2, 1}},
		{"a large one alone", []int{100, 5000, 100}, []int{1, 1, 1}},
		{"large ones", []int{5000, 5000}, []int{1, 1}},
	} {
		var page []evtlog.Record
		for _, size := range c.sizes {
			page = append(page, record(size))
		}
		var got []int
		for chunk := range chunks(page, 1000) {
			got = append(got, len(chunk))
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s: %v, want %v", c.name, got, c.want)
			}
		}
	}
}

func TestNextCount(t *testing.T) {
	page := func(n, size int) []evtlog.Record {
		out := make([]evtlog.Record, n)
		for i := range out {
			out[i].Fields = []evtlog.Field{{Value: string(make([]byte, size-recordBytes-fieldBytes))}}
		}
		return out
	}
	for _, c := range []struct {
		name string
		was  int
		page []evtlog.Record
		want int
	}{
		{"empty page", 64, nil, 64},
		{"small records: four times as many", 64, page(64, 200), 256},
		{"small records: at most", 1000, page(1000, 200), maxRecords},
		{"a short page says the same", 64, page(2, 200), 256},
		{"medium records: one fold", 1000, page(1000, 1024), 511},
		{"large records", 64, page(64, 128<<10), 3},
		{"larger than a fold", 64, page(3, 2<<20), 1},
	} {
		if got := nextCount(c.was, c.page); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
