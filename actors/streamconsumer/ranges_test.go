package streamconsumer

import "testing"

func TestDecideRange(t *testing.T) {
	for _, c := range []struct {
		name        string
		held, taken int
		wasHeld     bool
		want        rangeVerdict
	}{
		{"nothing of it is pending", 0, 0, false, rangeMine},
		{"its owner is dead", 0, 1, false, rangeMine},
		{"its owner worked on it and died", 0, 1, true, rangeMine},
		{"its owner works on it", 1, 0, false, rangeSplit},
		{"its owner works on it still", 1, 0, true, rangeSplit},
		{"somebody works on a part, another part is free", 1, 3, false, rangeSplit},
		{"its owner has just finished it", 0, 0, true, rangeLater},
	} {
		if got := decideRange(c.held, c.taken, c.wasHeld); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
