package archiver

import (
	"errors"

	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
)

// outcome is what becomes of folds that did not all answer well.
type outcome uint8

const (
	// done: the watermark is the last record of the newest of them.
	done outcome = iota
	// again: the watermark is where the oldest open one begins; the same folds may
	// be repeated, for the archive compares and sets.
	again
	// moved: somebody else folded; go on from the watermark.
	moved
	// refused: repeating would not help.
	refused
)

// answer is a fold of (prev, last] that has ended.
type answer struct {
	prev, last evtid.ID
	// w is the watermark that the archive answered with, unless err is set.
	w   evtid.ID
	err error
}

// well reports whether the archive has said that it has the records.
func (a answer) well() bool { return a.err == nil && a.w == a.last }

// settle decides from the watermark w, read after all folds of a window had
// ended, not all of them well. They are in order, each on the last record of the
// one before, and w is not below the first. confirmed is how many, from the
// oldest, are in the archive; next is what becomes of the others.
//
// A fold that was taken proves those before it, whatever they answered: it was
// compared with their end.
func settle(window []answer, w evtid.ID) (confirmed int, next outcome) {
	at := window[0].prev
	for i, a := range window {
		if a.well() || a.last == w {
			confirmed, at = i+1, a.last
		}
	}
	switch open := window[confirmed:]; {
	case len(open) > 0 && errors.Is(open[0].err, archive.ErrRejected):
		// Those behind it failed because it did.
		return confirmed, refused
	case w != at:
		return confirmed, moved
	case len(open) == 0:
		return confirmed, done
	}
	return confirmed, again
}

// newestWell returns the end of the newest fold that was taken, zero for none.
func newestWell(window []answer) (last evtid.ID) {
	for _, a := range window {
		if a.well() {
			last = a.last
		}
	}
	return last
}
