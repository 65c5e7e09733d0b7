package publisher

import (
	"github.com/evtlog/evtlog/evtid"
)

// The decision about an append whose answer was lost, without I/O. An append is
// identified by its id and its fields: sending both again can never write twice,
// because the server takes an id only above its top.

// answer is what the archive said about an id.
type answer uint8

const (
	// notAsked: the archive has not been asked since the look-up.
	notAsked answer = iota
	// missing: its watermark has passed the id, or not reached it, and the id is
	// not there.
	missing
	// same: it holds the id with the fields that were sent.
	same
	// different: it holds the id with other fields.
	different
	// noArchive: there is none.
	noArchive
)

// horizon says, for a stream without archive, whether a trim can have removed
// the id.
type horizon uint8

const (
	// notLooked: the oldest live entry has not been read since the look-up.
	notLooked horizon = iota
	// below: an entry older than the id is still live, so no trim reached the id.
	below
	// past: everything that is live is newer, or nothing is.
	past
)

// sight is what is known about an id whose append is in doubt. Found, Same and
// the stream's top come from one look-up on a fresh connection; Archive and
// Horizon from questions asked after it.
type sight struct {
	// Found: the stream holds an entry at the id. Same: with the fields sent.
	Found, Same bool
	// Passed: the stream's top is at or above the id, or the archive's watermark
	// is, which the stream ended above before it was deleted or set back. Sent again
	// there, the record would stand where nobody reads it.
	Passed  bool
	Archive answer
	Horizon horizon
}

// step is what to do next.
type step uint8

const (
	// commit: the record is in the log.
	commit step = iota
	// reject: it is not and will not be.
	reject
	// rejectOther: another record has its id.
	rejectOther
	// askArchive, askHorizon: ask that, then decide again.
	askArchive
	askHorizon
	// resend: send the same id and fields again, and look again when the server
	// says that it is equal or smaller. The absence alone proves nothing: a
	// command of the dead connection may still arrive.
	resend
	// unknowable: the record may have been committed and trimmed since.
	unknowable
)

// decide is the settlement of one append.
func decide(s sight) step {
	switch {
	case s.Found && s.Same:
		return commit
	case s.Found:
		return rejectOther
	case !s.Passed:
		return resend
	}
	// A later record stands above the id, or did, so no command can bring it any
	// more: it is in the archive, or it is nowhere.
	switch s.Archive {
	case notAsked:
		return askArchive
	case same:
		return commit
	case different:
		return rejectOther
	case missing:
		return reject
	}
	switch s.Horizon {
	case notLooked:
		return askHorizon
	case below:
		return reject
	}
	return unknowable
}

// arrival is what a writer knows when it has connected.
type arrival struct {
	// First: it has not been connected before.
	First bool
	// Top is the stream's top, Watermark the archive's, as far as it was read.
	Top, Watermark evtid.ID
	// Known is the newest id that this writer knows to have been in the log: one
	// that it appended, or one that it found. Minted is the newest that it made.
	Known, Minted evtid.ID
}

// bearing is what follows from it.
type bearing struct {
	// Seed is what every new id must be above.
	Seed evtid.ID
	// Known replaces arrival.Known.
	Known evtid.ID
	// Second: the stream holds an id that this writer has not minted.
	Second bool
	// Lost: what was in the log at Known < id <= arrival.Known is neither live
	// nor archived any more.
	Lost bool
}

// arrive compares the server with what this writer has seen and done.
func arrive(a arrival) bearing {
	base := later(a.Top, a.Watermark)
	switch {
	case a.First:
		return bearing{Seed: base, Known: base}
	case base.Less(a.Known):
		return bearing{Seed: base, Known: base, Lost: true}
	case later(a.Known, a.Minted).Less(base):
		return bearing{Seed: base, Known: base, Second: true}
	}
	// What lies between Known and the top are this writer's own appends whose
	// answers were lost; they are settled one by one.
	return bearing{Seed: base, Known: a.Known}
}

func later(a, b evtid.ID) evtid.ID {
	if a.Less(b) {
		return b
	}
	return a
}
