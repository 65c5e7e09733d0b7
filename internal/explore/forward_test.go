package explore

import (
	"testing"

	"github.com/evtlog/evtlog/archive"
)

func TestReadForward(t *testing.T) { holds(t, Forward(ForwardOrder{})) }

func TestWrongForwardReads(t *testing.T) {
	tests := map[string]struct {
		order ForwardOrder
		why   string
	}{
		"floor before the page: fold and trim in between":      {ForwardOrder{FloorFirst: true}, "missed"},
		"watermark before the page, with no floor":             {ForwardOrder{AskFirst: true}, "missed"},
		"going on above a node that is behind":                 {ForwardOrder{JumpAhead: true}, "missed"},
		"trying again on a node that is behind":                {ForwardOrder{ReadAgain: true}, "spinning"},
		"a floor that goes back (plain SET, executed late)":    {ForwardOrder{FloorGoesBack: true}, "missed"},
		"an open end that is not pinned":                       {ForwardOrder{NoPin: true}, "endless"},
		"a page taken without proof":                           {ForwardOrder{Decide: trusting}, "missed"},
		"an empty page taken for the end":                      {ForwardOrder{Decide: emptyEnds}, "missed"},
		"no floor taken for nothing archived":                  {ForwardOrder{Decide: noFloorIsProof}, "missed"},
		"a page that begins above the floor taken to be whole": {ForwardOrder{Decide: aboveFloor}, "missed"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { breaks(t, Forward(tt.order), tt.why) })
	}
}

// trusting yields every page.
func trusting(f archive.PageFacts) archive.Step {
	f.Proof = archive.Proof{Asked: true}
	return archive.DecidePage(f)
}

func emptyEnds(f archive.PageFacts) archive.Step {
	if f.Records == 0 {
		return archive.YieldLast
	}
	return archive.DecidePage(f)
}

func noFloorIsProof(f archive.PageFacts) archive.Step {
	f.Proof.Asked = true
	return archive.DecidePage(f)
}

// aboveFloor compares the floor with the page instead of the cursor.
func aboveFloor(f archive.PageFacts) archive.Step {
	if bound, _ := f.Proof.Bound(); f.Records > 0 && bound.Less(f.Last) {
		f.Proof = archive.Proof{Asked: true}
	}
	return archive.DecidePage(f)
}
