package archiver

import (
	"errors"
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
)

func TestSettle(t *testing.T) {
	lost := errors.New("connection lost")
	conflict := &archive.ConflictError{}
	rejected := archive.CheckFold(evtlog.StreamName{}, none, nil)
	odd := errors.New("answered, but with another watermark")
	// A window of folds (4, 9], (9, 12], (12, 20], each with what it answered; nil
	// is well.
	ends := []int{9, 12, 20}
	for _, c := range []struct {
		name      string
		answers   []error
		w         evtid.ID
		confirmed int
		next      outcome
	}{
		{"the answer was lost, the fold was not", []error{lost}, id(9), 1, done},
		{"the fold was lost", []error{lost}, id(4), 0, again},
		{"somebody folded less", []error{conflict}, id(6), 0, moved},
		{"somebody folded as much", []error{conflict}, id(9), 1, done},
		{"somebody folded more", []error{conflict}, id(12), 0, moved},
		{"refused for good", []error{rejected}, id(4), 0, refused},
		{"answered with another watermark", []error{odd}, id(4), 0, again},

		{"all lost", []error{lost, lost, lost}, id(4), 0, again},
		{"all answers lost", []error{lost, lost, lost}, id(20), 3, done},
		{"the first lost, the others behind it", []error{lost, conflict, conflict}, id(4), 0, again},
		{"the first answer lost", []error{lost, nil, nil}, id(20), 3, done},
		{"two answers lost", []error{lost, lost, nil}, id(20), 3, done},
		{"the second lost", []error{nil, lost, conflict}, id(9), 1, again},
		{"the second lost, after an answer was", []error{lost, lost, conflict}, id(9), 1, again},
		{"the second refused", []error{lost, rejected, conflict}, id(9), 1, refused},
		{"the last refused", []error{lost, nil, rejected}, id(12), 2, refused},
		{"the first refused", []error{rejected, conflict, conflict}, id(4), 0, refused},
		{"somebody folded into the first", []error{conflict, conflict, conflict}, id(6), 0, moved},
		{"somebody folded behind the first", []error{lost, conflict, conflict}, id(10), 0, moved},
		{"somebody folded behind the second", []error{lost, nil, conflict}, id(15), 2, moved},
		{"somebody folded behind all", []error{lost, lost, nil}, id(30), 3, moved},
		{"somebody folded behind all, nothing is known", []error{lost, lost, lost}, id(30), 0, moved},
		{"somebody folded the same", []error{conflict, conflict, conflict}, id(12), 2, again},
		{"the archive was set back", []error{lost, nil, nil}, id(4), 3, moved},
	} {
		window, prev := make([]answer, len(c.answers)), id(4)
		for i, err := range c.answers {
			a := answer{prev: prev, last: id(ends[i]), w: id(ends[i]), err: err}
			if errors.Is(err, odd) {
				a.w, a.err = prev, nil
			}
			window[i], prev = a, a.last
		}
		if confirmed, next := settle(window, c.w); confirmed != c.confirmed || next != c.next {
			t.Errorf("%s: %d confirmed, next %v; want %d, %v", c.name, confirmed, next, c.confirmed, c.next)
		}
	}
}

func TestNewestWell(t *testing.T) {
	lost := errors.New("connection lost")
	window := []answer{{last: id(1), err: lost}, {last: id(2), w: id(2)}, {last: id(3), err: lost}}
	if got := newestWell(window); got != id(2) {
		t.Errorf("%q", got)
	}
	if got := newestWell(window[:1]); !got.IsZero() {
		t.Errorf("%q of none", got)
	}
}
