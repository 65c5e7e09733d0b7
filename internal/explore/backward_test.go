package explore

import (
	"testing"

	"github.com/evtlog/evtlog/archive"
)

func TestReadBackward(t *testing.T) { holds(t, Backward(BackwardOrder{})) }

func TestWrongBackwardReads(t *testing.T) {
	tests := map[string]struct {
		order BackwardOrder
		why   string
	}{
		"archive before the last page: fold and trim in between": {BackwardOrder{ArchiveFirst: true}, "missed"},
		"floor before the last page: fold and trim in between":   {BackwardOrder{FloorFirst: true}, "missed"},
		"a node that has not applied the floor":                  {BackwardOrder{NoWait: true}, "missed"},
		"a short page taken for the end":                         {BackwardOrder{ShortEnds: true}, "missed"},
		"no floor taken for nothing archived":                    {BackwardOrder{Decide: noFloorIsEnd}, "missed"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { breaks(t, Backward(tt.order), tt.why) })
	}
}

func noFloorIsEnd(f archive.BelowFacts) archive.Step {
	f.Proof.Asked = true
	return archive.DecideBelow(f)
}
