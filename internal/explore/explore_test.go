package explore

import (
	"slices"
	"strings"
	"testing"
)

// counter is two processes that each read a number and write it back plus one.
type counter struct {
	n    int
	pc   [2]int
	read [2]int
}

func counting(atomic bool, goal int) Model[counter] {
	return Model[counter]{
		Init: []counter{{}},
		Next: func(s counter, step Step[counter]) {
			for i := range s.pc {
				next := s
				switch {
				case s.pc[i] == 0 && atomic:
					next.n, next.pc[i] = s.n+1, 2
					step(next, i, "adds")
				case s.pc[i] == 0:
					next.read[i], next.pc[i] = s.n, 1
					step(next, i, "reads")
				case s.pc[i] == 1:
					next.n, next.pc[i] = s.read[i]+1, 2
					step(next, i, "writes")
				}
			}
		},
		Broken: func(s counter) string {
			if s.pc == [2]int{2, 2} && s.n != goal {
				return "an addition was lost"
			}
			return ""
		},
		Ended: func(s counter) bool { return s.pc == [2]int{2, 2} },
	}
}

func TestExploreFindsTheShortestHistory(t *testing.T) {
	if got := Explore(counting(true, 2)); got.Broken != "" || got.States != 4 || got.Depth != 2 {
		t.Errorf("atomic additions: %s, want 4 states, 2 steps deep", got)
	}
	got := Explore(counting(false, 2))
	if got.Broken != "an addition was lost" || len(got.Trace) != 4 {
		t.Fatalf("additions in two steps: %s", got)
	}
	reads := slices.Sorted(slices.Values(got.Trace[:2]))
	if !slices.Equal(reads, []string{"0 reads", "1 reads"}) || !strings.Contains(got.String(), "4. ") {
		t.Errorf("the history is not the shortest:\n%s", got)
	}
}

func TestExploreFindsAStandstill(t *testing.T) {
	m := counting(true, 2)
	m.Ended = func(counter) bool { return false }
	if got := Explore(m); !strings.Contains(got.Broken, "nobody can take a step") || len(got.Trace) != 2 {
		t.Errorf("got %s, want a standstill after two steps", got)
	}
}
