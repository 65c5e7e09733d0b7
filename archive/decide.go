package archive

import "github.com/evtlog/evtlog/evtid"

// Step is what a merged read does next. DecidePage and DecideBelow choose it.
//
// They are exported because the exploration of the protocol drives the very
// functions that the Reader does; a program has no use for them.
type Step uint8

const (
	// AskWatermark: there is no floor key, so only the archive knows how far a
	// trim may have gone. Read its linearizable watermark, now that the live page
	// has been read, and decide again.
	AskWatermark Step = iota
	// YieldPage: the page is complete and more may lie beyond it.
	YieldPage
	// YieldLast: the page is complete and ends the read.
	YieldLast
	// ReadArchive: what lies beyond the cursor has been archived, so a trim may
	// have taken it out of the live stream. What the stream shows of it is
	// discarded and read from an archive state that has reached the proof.
	ReadArchive
	// End: nothing of the window is left.
	End
)

// String returns the name of the step.
func (s Step) String() string {
	return [...]string{"ask the watermark", "yield the page", "yield the last page", "read the archive", "end"}[s]
}

// Proof is how far records may have left the live stream, learned after the
// page it proves was read. No trim ever passes it: the archiver publishes the
// floor before it trims.
type Proof struct {
	// Floor is the stream's floor, the zero ID when it has none.
	Floor evtid.ID
	// Watermark is the archive's, when it was asked.
	Watermark evtid.ID
	// Asked says that the archive was asked, so that a zero Watermark means an
	// empty archive.
	Asked bool
}

// Bound returns the newest id that a trim may have taken. ok is false when
// neither the floor nor the archive has told.
func (p Proof) Bound() (bound evtid.ID, ok bool) {
	if !p.Floor.IsZero() {
		return p.Floor, true
	}
	return p.Watermark, p.Asked
}

// PageFacts is what a forward read knows when it has a live page in hand.
type PageFacts struct {
	// Cursor: the window was yielded up to and including this id.
	Cursor evtid.ID
	// To is the inclusive end of the window. It is never the zero ID.
	To evtid.ID
	// Records is the length of the page, Asked how many were asked for. Fewer
	// than asked for means that the stream showed nothing beyond them.
	Records, Asked int
	// Last is the id of the page's last record, zero when it is empty.
	Last evtid.ID
	// Proof was read after the page.
	Proof Proof
}

// DecidePage says whether a live page of a forward read is whole. A page above
// the floor is, and so is an empty one: a trim that took a record between the
// cursor and the page would have found the floor above the cursor.
func DecidePage(f PageFacts) Step {
	bound, ok := f.Proof.Bound()
	switch {
	case !ok:
		return AskWatermark
	case f.Cursor.Less(bound):
		return ReadArchive
	case f.Records < f.Asked || !f.Last.Less(f.To):
		return YieldLast
	}
	return YieldPage
}

// BelowFacts is what a backward read knows when the live stream has shown its
// oldest record of the window.
type BelowFacts struct {
	// After is the exclusive lower bound of the window.
	After evtid.ID
	// High: everything above this id was yielded.
	High evtid.ID
	// Proof was read after the last live page.
	Proof Proof
}

// DecideBelow says where the rest of a backward read is. A short page never
// ends it: the records below may have been trimmed, and are in the archive.
func DecideBelow(f BelowFacts) Step {
	bound, ok := f.Proof.Bound()
	switch {
	case !f.After.Less(f.High):
		return End
	case !ok:
		return AskWatermark
	case f.After.Less(bound):
		return ReadArchive
	}
	return End
}

// liveFacts is what a read without an archive knows when it has a page in hand.
type liveFacts struct {
	// cursor and to are those of PageFacts.
	cursor, to evtid.ID
	// first is the id of the page's first record above the cursor, zero when
	// there is none.
	first evtid.ID
	// floor was read after the page; zero when the stream has none.
	floor evtid.ID
	// anchored: the cursor is a record that this read has yielded, so the page
	// was asked for from that record on; seen says that it still was there.
	anchored, seen bool
}

// gapBefore tells which records a live page may be missing at its beginning:
// those above the cursor up to and including to.
//
// Trims take the oldest first, so when the record at the cursor is still in the
// stream then so is everything above it. When nothing was yielded yet, only a
// floor above the cursor says that records have left.
func gapBefore(f liveFacts) (to evtid.ID, gone bool) {
	if f.seen || !f.anchored && !f.cursor.Less(f.floor) {
		return evtid.ID{}, false
	}
	to = f.to
	if !f.first.IsZero() {
		to = f.first.Prev()
	}
	if !f.anchored {
		to = earlier(to, f.floor)
	}
	return to, f.cursor.Less(to)
}

// reached checks what an archive state with a watermark of at least known gave of
// a range that ends at to: since the watermark is the id of a record, the newest
// record given cannot lie below it, unless the range ends before it.
func reached(newest, known, to evtid.ID) bool {
	return to.Less(known) || !newest.Less(known)
}

func earlier(a, b evtid.ID) evtid.ID {
	if b.Less(a) {
		return b
	}
	return a
}

func later(a, b evtid.ID) evtid.ID {
	if a.Less(b) {
		return b
	}
	return a
}
