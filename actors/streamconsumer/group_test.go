package streamconsumer

import (
	"slices"
	"testing"

	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

func TestPosition(t *testing.T) {
	var p position
	if got := p.startAt(FromHead); got != redislog.Head() {
		t.Errorf("FromHead starts at %v", got)
	}
	if got := p.startAt(FromNew); got != redislog.New() {
		t.Errorf("FromNew starts at %v", got)
	}

	p = p.forward()
	if !p.existed || p.known {
		t.Errorf("an existing group: %+v", p)
	}
	if got := p.startAt(FromNew); got != redislog.New() {
		t.Errorf("nothing is known yet, and it starts at %v", got)
	}

	began := p.forward(evtid.ID{})
	if got := began.startAt(FromNew); got != redislog.Head() {
		t.Errorf("a group that began on an empty stream starts again at %v", got)
	}

	p = p.forward(tids(5, 9, 7)...)
	if got := p.startAt(FromNew); got != redislog.AfterID(tid(9)) {
		t.Errorf("after acknowledgements it starts at %v, want behind the highest", got)
	}
	if got := p.forward(tid(3)); got != p {
		t.Errorf("a lower acknowledgement moved it to %+v", got)
	}
}

func TestPositionGoesBackForWhatIsOwed(t *testing.T) {
	acked := position{existed: true}.forward(tid(9))
	for name, tc := range map[string]struct {
		from position
		owed evtid.ID
		want redislog.StartAt
	}{
		"nothing owed":                   {acked, evtid.ID{}, redislog.AfterID(tid(9))},
		"owed above":                     {acked, tid(12), redislog.AfterID(tid(9))},
		"owed below":                     {acked, tid(4), redislog.AfterID(tid(4).Prev())},
		"owed right behind":              {acked, tid(9).Next(), redislog.AfterID(tid(9))},
		"nothing acked, something owed":  {position{existed: true}, tid(4), redislog.AfterID(tid(4).Prev())},
		"nothing acked, nothing owed":    {position{existed: true}, evtid.ID{}, redislog.New()},
		"the very first id is owed":      {acked, evtid.ID{}.Next(), redislog.Head()},
		"where new was, something above": {position{existed: true}.forward(tid(2)), tid(4), redislog.AfterID(tid(2))},
	} {
		if got := tc.from.back(tc.owed).startAt(FromNew); got != tc.want {
			t.Errorf("%s: starts at %v, want %v", name, got, tc.want)
		}
	}
}

func TestUncovered(t *testing.T) {
	ranges := []redislog.SkippedRange{{After: tid(2), To: tid(5)}, {After: tid(8), To: tid(9)}}
	got := uncovered(tids(1, 2, 3, 5, 6, 9), ranges)
	want := []redislog.SkippedRange{singleRange(tid(1)), singleRange(tid(2)), singleRange(tid(6))}
	if !slices.Equal(got, want) {
		t.Errorf("uncovered = %v, want %v", got, want)
	}
	if got := uncovered(nil, ranges); got != nil {
		t.Errorf("uncovered of nothing = %v", got)
	}
}

func TestArchivedPart(t *testing.T) {
	rg := redislog.SkippedRange{After: tid(4), To: tid(8)}
	for w, want := range map[int]evtid.ID{3: {}, 4: {}, 5: tid(5), 8: tid(8), 20: tid(8)} {
		if got := archivedPart(rg, tid(w)); got != want {
			t.Errorf("with watermark %d: up to %s, want %s", w, got, want)
		}
	}
	if got := archivedPart(rg, evtid.ID{}); !got.IsZero() {
		t.Errorf("of an empty archive: up to %s", got)
	}
}

func TestIsSingle(t *testing.T) {
	if rg := singleRange(tid(4)); !isSingle(rg) || rg.To != tid(4) {
		t.Errorf("singleRange = %v", rg)
	}
	if isSingle(redislog.SkippedRange{After: tid(4), To: tid(5)}) {
		t.Error("a range of a whole millisecond is taken for one position")
	}
}
