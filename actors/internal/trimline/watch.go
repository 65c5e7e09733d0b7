package trimline

import "github.com/evtlog/evtlog/evtid"

// Watch remembers which records were seen and should still be there, so that a
// stream that somebody else emptied, evicted or made anew is not taken for an
// idle one. The zero value has seen nothing.
type Watch struct {
	// oldest is the oldest record that should be there, newest the newest.
	oldest, newest evtid.ID
}

// Saw notes the oldest and newest record that should be there from now on. Zero
// ids forget.
func (w *Watch) Saw(oldest, newest evtid.ID) { *w = Watch{oldest: oldest, newest: newest} }

// Loss is a range of records that were seen and are gone.
type Loss struct {
	// The range is After < id <= To.
	After, To evtid.ID
	// Known is the newest record in it that is sure to have existed.
	Known evtid.ID
	// Top is true when the newest records of the stream are among them.
	Top bool
}

// Gone compares with the stream as it is now: its oldest record (zero when
// empty) and its last generated id. ok is false when nothing is missing.
func (w *Watch) Gone(first, last evtid.ID) (l Loss, ok bool) {
	below := w.oldest.Prev()
	switch {
	case w.oldest.IsZero():
		return Loss{}, false
	case last.Less(w.newest) && below.Less(last) && !w.oldest.Less(first):
		// The server came back with an older state: only the newest are gone.
		return Loss{After: last, To: w.newest, Known: w.newest, Top: true}, true
	case last.Less(w.newest), first.IsZero():
		return Loss{After: below, To: w.newest, Known: w.newest, Top: true}, true
	case w.oldest.Less(first):
		return Loss{After: below, To: first.Prev(), Known: w.oldest}, true
	}
	return Loss{}, false
}
