package streamconsumer

import (
	"slices"
	"testing"

	"github.com/evtlog/evtlog/evtid"
)

// tid returns the n-th id of a row.
func tid(n int) evtid.ID {
	id, err := evtid.Make(evtid.EpochMillis+int64(n), 1, 0)
	if err != nil {
		panic(err)
	}
	return id
}

func tids(ns ...int) (ids []evtid.ID) {
	for _, n := range ns {
		ids = append(ids, tid(n))
	}
	return ids
}

func TestAlone(t *testing.T) {
	for _, tc := range []struct {
		attempts, max int
		want          bool
	}{
		{1, 10, false}, {2, 10, true}, {9, 10, true}, {50, 10, true},
		{1, 3, false}, {2, 3, true},
		// With two attempts, the redelivery is the last one.
		{1, 2, true},
		{1, 1, true},
		{1, -1, false}, {2, -1, true},
	} {
		if got := alone(tc.attempts, tc.max); got != tc.want {
			t.Errorf("alone(%d, %d) = %v, want %v", tc.attempts, tc.max, got, tc.want)
		}
	}
}

// A deadly entry at the head of a batch must not use up the attempts of the
// entries behind it, whatever the limit is.
func TestNeighboursOfADeadlyEntryKeepAnAttempt(t *testing.T) {
	for limit := 2; limit <= 12; limit++ {
		page := []listed{{id: tid(1), attempts: 1}, {id: tid(2), attempts: 1}, {id: tid(3), attempts: 1}}
		for range 20 {
			run := planPage(evtid.ID{}, page, limit)[0]
			if page[0].attempts >= limit {
				break // it becomes a dead letter now
			}
			for i := range run.n {
				page[run.first+i].attempts++
			}
		}
		for _, e := range page[1:] {
			f := entryFacts{attempts: e.attempts + 1, max: limit}
			if decideEntry(f) != verdictHandle {
				t.Errorf("limit %d: entry behind the deadly one has used up %d attempts without a turn", limit, e.attempts)
			}
		}
	}
}

func TestPlanPage(t *testing.T) {
	fresh := func(n int) listed { return listed{id: tid(n), attempts: 1} }
	old := func(n int) listed { return listed{id: tid(n), attempts: 2} }
	wait := func(n int) listed { return listed{id: tid(n), attempts: 2, waiting: true} }
	foreign := listed{raw: "5-0", attempts: 1}
	for name, tc := range map[string]struct {
		page []listed
		want []run
	}{
		"empty":          {nil, nil},
		"one read":       {[]listed{fresh(1), fresh(2), fresh(3)}, []run{{tid(0), 3, 0}}},
		"old ones alone": {[]listed{old(1), old(2)}, []run{{tid(0), 1, 0}, {tid(1), 1, 1}}},
		"old between": {
			[]listed{fresh(1), old(2), fresh(3), fresh(4)},
			[]run{{tid(0), 1, 0}, {tid(1), 1, 1}, {tid(2), 2, 2}},
		},
		"waiting ones are not read": {
			[]listed{wait(1), fresh(2), wait(3), wait(4), fresh(5)},
			[]run{{tid(1), 1, 1}, {tid(4), 1, 4}},
		},
		"all waiting":             {[]listed{wait(1), wait(2)}, nil},
		"foreign ones have no id": {[]listed{foreign, fresh(1), foreign, fresh(2)}, []run{{tid(0), 4, 0}}},
		"foreign ones after an old one": {
			[]listed{old(1), foreign, foreign, fresh(2)},
			[]run{{tid(0), 1, 0}, {tid(1), 3, 1}},
		},
	} {
		if got := planPage(tid(0), tc.page, 10); !slices.Equal(got, tc.want) {
			t.Errorf("%s: planPage = %v, want %v", name, got, tc.want)
		}
	}
}

func TestLastOf(t *testing.T) {
	foreign := listed{raw: "5-0"}
	for name, tc := range map[string]struct {
		page []listed
		want evtid.ID
	}{
		"empty":          {nil, evtid.ID{}},
		"foreign only":   {[]listed{foreign}, evtid.ID{}},
		"last":           {[]listed{{id: tid(1)}, {id: tid(2)}}, tid(2)},
		"before foreign": {[]listed{{id: tid(1)}, foreign}, tid(1)},
	} {
		if got := lastOf(tc.page); got != tc.want {
			t.Errorf("%s: lastOf = %s, want %s", name, got, tc.want)
		}
	}
}

func TestSplitOverdue(t *testing.T) {
	page := []listed{{id: tid(1)}, {id: tid(3)}, {raw: "5-0"}, {id: tid(5)}}
	for name, tc := range map[string]struct {
		page       []listed
		size       int
		gone, rest []evtid.ID
	}{
		"a short page says everything":     {page, 5, tids(2, 7, 9), nil},
		"a full page ends somewhere":       {page, 4, tids(2), tids(7, 9)},
		"an empty page: all are gone":      {nil, 4, tids(1, 2, 5, 7, 9), nil},
		"a page of foreign entries, as is": {[]listed{{raw: "5-0"}}, 1, tids(1, 2, 5, 7, 9), nil},
	} {
		gone, rest := splitOverdue(tids(1, 2, 5, 7, 9), tc.page, tc.size)
		if !slices.Equal(gone, tc.gone) || !slices.Equal(rest, tc.rest) {
			t.Errorf("%s: splitOverdue = %v, %v, want %v, %v", name, gone, rest, tc.gone, tc.rest)
		}
	}
}

func TestBatchCount(t *testing.T) {
	for max, want := range map[int]int{1: 1, 2: 100, 10: 100, -1: 100} {
		if got := batchCount(100, max); got != want {
			t.Errorf("batchCount(100, %d) = %d, want %d", max, got, want)
		}
	}
}
