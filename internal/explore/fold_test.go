package explore

import (
	"strings"
	"testing"
)

// holds explores a right order in full.
func holds[S comparable](t *testing.T, m Model[S]) {
	t.Helper()
	got := Explore(m)
	t.Log(got)
	if got.Broken != "" {
		t.Fail()
	}
}

// breaks explores a wrong order, which must break the promise that why begins
// with.
func breaks[S comparable](t *testing.T, m Model[S], why string) {
	t.Helper()
	got := Explore(m)
	t.Log("\n" + got.String())
	if !strings.HasPrefix(got.Broken, why) {
		t.Errorf("the wrong order does not break %q", why)
	}
}

func TestFoldThenFloorThenTrim(t *testing.T) { holds(t, Fold(FoldOrder{})) }

func TestWrongFolds(t *testing.T) {
	tests := map[string]struct {
		order FoldOrder
		why   string
	}{
		"trim by a length counted earlier: an append in between":   {FoldOrder{TrimByCount: true}, "lost"},
		"trim before fold: a crash in between":                     {FoldOrder{TrimFirst: true}, "lost"},
		"refused fold ignored: the other archiver has folded less": {FoldOrder{IgnoreRefusal: true}, "lost"},
		"no compare-and-set: both archivers fold":                  {FoldOrder{NoCompare: true}, "archived twice"},
		"clock as target: a record appended meanwhile":             {FoldOrder{ClockTarget: true}, "lost"},
		"plain SET as proof: a late one moves it back":             {FoldOrder{PlainFloor: true}, "unproved"},
		"floor after trim: a reader in between":                    {FoldOrder{FloorAfterTrim: true}, "unproved"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { breaks(t, Fold(tt.order), tt.why) })
	}
}
