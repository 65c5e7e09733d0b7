package redislog

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/evtlog/evtlog/evtid"
)

func spans(ns ...int) (list []SkippedRange) {
	for i := 0; i < len(ns); i += 2 {
		list = append(list, SkippedRange{After: at(ns[i]), To: at(ns[i+1])})
	}
	return list
}

func TestPlanSeek(t *testing.T) {
	for name, tc := range map[string]struct {
		from, floor, target      int
		ranges                   []SkippedRange
		wantTarget, wantAt       int
		want, wantSkip, wantBack []SkippedRange
	}{
		"nowhere":                            {from: 50, floor: 10, target: 50, wantTarget: 50, wantAt: 50},
		"forward":                            {from: 50, floor: 10, target: 70, wantTarget: 70, wantAt: 70, wantSkip: spans(50, 70)},
		"back, in the live part":             {from: 50, floor: 10, target: 20, wantTarget: 20, wantAt: 20, wantBack: spans(20, 50)},
		"back, into the archive":             {from: 50, floor: 30, target: 20, wantTarget: 20, wantAt: 30, want: spans(20, 30), wantBack: spans(20, 50)},
		"above the top":                      {from: 50, floor: 10, target: 500, wantTarget: 100, wantAt: 100, wantSkip: spans(50, 100)},
		"forward, over a range":              {from: 50, floor: 50, target: 60, ranges: spans(20, 40), wantTarget: 60, wantAt: 60, wantSkip: spans(20, 40, 50, 60)},
		"forward, into a range":              {from: 50, floor: 50, target: 30, ranges: spans(20, 50), wantTarget: 30, wantAt: 50, want: spans(30, 50), wantSkip: spans(20, 30)},
		"back, below what is owed":           {from: 50, floor: 50, target: 10, ranges: spans(20, 40), wantTarget: 10, wantAt: 50, want: spans(10, 50), wantBack: spans(10, 20, 40, 50)},
		"back, and a range below is skipped": {from: 50, floor: 10, target: 30, ranges: spans(5, 8), wantTarget: 30, wantAt: 30, wantSkip: spans(5, 8), wantBack: spans(30, 50)},
		"a stalled group, below the floor":   {from: 10, floor: 40, target: 20, ranges: spans(10, 40), wantTarget: 20, wantAt: 40, want: spans(20, 40), wantSkip: spans(10, 20)},
		"ranges that overlap":                {from: 60, floor: 60, target: 20, ranges: spans(30, 50, 40, 60, 35, 36), wantTarget: 20, wantAt: 60, want: spans(20, 60), wantBack: spans(20, 30)},
	} {
		p := planSeek(seekFacts{
			group:  GroupInfo{Name: "g", LastDelivered: at(tc.from), Pending: 3},
			ranges: tc.ranges, floor: at(tc.floor), top: at(100),
		}, at(tc.target))
		if p.Target != at(tc.wantTarget) || p.At != at(tc.wantAt) || p.From != at(tc.from) || p.Pending != 3 {
			t.Errorf("%s: from %v target %v at %v", name, p.From, p.Target, p.At)
		}
		for what, pair := range map[string][2][]SkippedRange{"ranges": {p.Ranges, tc.want}, "skip": {p.Skipped, tc.wantSkip}, "repeat": {p.Repeated, tc.wantBack}} {
			if !slices.Equal(pair[0], pair[1]) {
				t.Errorf("%s: %s = %v, want %v", name, what, pair[0], pair[1])
			}
		}
	}
	if p := planSeek(seekFacts{group: GroupInfo{LastDelivered: at(5)}, top: at(9)}, evtid.ID{}); !p.At.IsZero() || !slices.Equal(p.Repeated, []SkippedRange{{To: at(5)}}) {
		t.Errorf("to the head: %+v", p)
	}
}

// For every id: after the move it is owed exactly when it lies above the target;
// it is skipped when it was owed and is not, and repeated when it is owed and was
// not.
func TestPlanSeekAccountsForEachID(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 2))
	holds := func(list []SkippedRange, id evtid.ID) bool {
		return slices.ContainsFunc(list, func(r SkippedRange) bool { return r.holds(id) })
	}
	for range 3000 {
		f := seekFacts{group: GroupInfo{LastDelivered: at(1 + rnd.IntN(40))}, floor: at(1 + rnd.IntN(40)), top: at(40)}
		for range rnd.IntN(4) {
			a := 1 + rnd.IntN(38)
			f.ranges = append(f.ranges, SkippedRange{After: at(a), To: at(a + 1 + rnd.IntN(40-a))})
		}
		p := planSeek(f, at(1+rnd.IntN(45)))
		for n := 1; n <= 45; n++ {
			id := at(n)
			before := f.group.LastDelivered.Less(id) || holds(f.ranges, id)
			after := p.At.Less(id) || holds(p.Ranges, id)
			if after != p.Target.Less(id) {
				t.Fatalf("seed %d: %d owed %v, target %v: %+v of %+v", seed, n, after, p.Target, p, f)
			}
			if holds(p.Skipped, id) != (before && !after) || holds(p.Repeated, id) != (after && !before) {
				t.Fatalf("seed %d: %d before %v after %v: %+v of %+v", seed, n, before, after, p, f)
			}
		}
		if what := seekBroken(p, GroupInfo{LastDelivered: p.At}, p.Ranges); what != "" {
			t.Fatalf("seed %d: a plan that was done is broken: %s", seed, what)
		}
	}
}

func TestSeekBroken(t *testing.T) {
	p := SeekPlan{At: at(50), Target: at(20), Ranges: spans(20, 50), Pending: 1}
	for name, tc := range map[string]struct {
		position int
		ranges   []SkippedRange
		broken   bool
	}{
		"as planned":             {50, spans(20, 50), false},
		"members have gone on":   {70, spans(40, 50), false},
		"a trim came":            {70, spans(40, 50, 60, 70), false},
		"below the position":     {49, spans(20, 50), true},
		"a range that was to go": {50, spans(10, 20, 20, 50), true},
		"the range is gone":      {50, nil, true},
	} {
		got := seekBroken(p, GroupInfo{LastDelivered: at(tc.position), Pending: 1}, tc.ranges)
		if (got != "") != tc.broken {
			t.Errorf("%s: %q", name, got)
		}
	}
}
