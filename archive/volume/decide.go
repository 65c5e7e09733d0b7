package volume

import (
	"crypto/sha256"

	"github.com/evtlog/evtlog/evtid"
)

// Verdict is what became of a commit.
type Verdict uint8

// The verdicts. Only Applied changes a volume.
const (
	// Applied: the commit was appended.
	Applied Verdict = iota
	// Duplicate: this very commit is in the volume already. The answer is the
	// one it had then.
	Duplicate
	// Skipped: the volume has gone past this position of the replicated log. The
	// commit may have been applied or refused then; nobody may be told that it
	// was applied.
	Skipped
	// Conflict: the watermark is not the one the commit starts from.
	Conflict
	// Malformed: the bytes are no commit of this stream, or come with a position
	// that does not exist. Every node says so.
	Malformed
	// Corrupt: this volume's own rows do not match. Only this node is hurt.
	Corrupt
	// Rewritten: the replicated log has another past than the volume. Going on
	// would mix the two: stop the node.
	Rewritten
	// Diverged: the volume holds another history than the copy. Set it aside and
	// copy the whole.
	Diverged
	// Gap: the copied commit does not follow the head. Copy what lies between.
	Gap
)

// String returns the lower-case name.
func (v Verdict) String() string {
	return [...]string{"applied", "duplicate", "skipped", "conflict", "malformed", "corrupt", "rewritten", "diverged", "gap"}[v]
}

// Position is a place in the replicated log. The zero Position is a local
// archive, which has none.
type Position struct{ Index, Term uint64 }

// applyFacts are what decideApply looks at.
type applyFacts struct {
	// intact: the head of the volume could be read.
	intact bool
	// wellFormed: the commit's bytes hold what they say.
	wellFormed bool
	// at is where the commit stands in the log, own where the volume's last one stood.
	at, own Position
	// prev is what the commit starts from, watermark what the volume has.
	prev, watermark evtid.ID
	// repeated: the volume holds a commit with exactly these bytes. It is only
	// looked at when prev is not the watermark.
	repeated bool
}

// decideApply says what to do with a commit from the log, or from a caller.
func decideApply(f applyFacts) Verdict {
	switch {
	case !f.intact:
		return Corrupt
	case f.at != Position{} && f.rewritten():
		return Rewritten
	case f.at != Position{} && f.at.Index <= f.own.Index:
		return Skipped
	case !f.wellFormed:
		return Malformed
	case f.prev == f.watermark:
		return Applied
	case f.repeated:
		return Duplicate
	}
	return Conflict
}

// rewritten reports whether the position and the volume's own cannot be of one
// log: terms never fall along a log, and one index has one term.
func (f applyFacts) rewritten() bool {
	switch {
	case f.at.Index < f.own.Index:
		return f.at.Term > f.own.Term
	case f.at.Index == f.own.Index:
		return f.at.Term != f.own.Term
	}
	return f.at.Term < f.own.Term
}

// adoptFacts are what decideAdopt looks at.
type adoptFacts struct {
	intact, wellFormed bool
	// lsn is the copied commit's, head the volume's.
	lsn, head uint64
	// prev is what the commit starts from, watermark what the volume has.
	prev, watermark evtid.ID
	// chain is what the source has at lsn. own is what the volume has there, or,
	// when lsn is the next one, what it would have.
	chain, own [sha256.Size]byte
}

// decideAdopt says what to do with a commit copied from another volume.
func decideAdopt(f adoptFacts) Verdict {
	switch {
	case !f.intact:
		return Corrupt
	case !f.wellFormed || f.lsn == 0:
		return Malformed
	case f.lsn > f.head+1:
		return Gap
	case f.chain != f.own:
		return Diverged
	case f.lsn <= f.head:
		return Duplicate
	case f.prev != f.watermark:
		return Diverged
	}
	return Applied
}

// writeFate says what a failed commit of a transaction has left behind.
type writeFate uint8

const (
	// fateUnknown: the disk failed in the middle, or the commit is visible
	// although its fsync failed. Only a fresh look at the disk can tell.
	fateUnknown writeFate = iota
	// fateFull: there was no room, and the file is as it was.
	fateFull
)

// decideFate says what a failed commit has left behind. full: the error is a
// lack of room. visible: the transaction can be read in spite of the error.
func decideFate(full, visible bool) writeFate {
	if full && !visible {
		return fateFull
	}
	return fateUnknown
}
