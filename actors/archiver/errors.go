package archiver

import (
	"fmt"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/internal/trimline"
	"github.com/evtlog/evtlog/evtid"
)

// FaultError is a trim that removed a record above its line. Trimming has
// stopped for as long as this Archiver lives; folding goes on.
type FaultError = trimline.FaultError

// StalledError is a stream that three trims in a row did not make shorter
// although entries are due. Trimming goes on.
type StalledError = trimline.StalledError

// ArchiveError is an archive that did not answer, or refused. Nothing is trimmed
// meanwhile; the archiver tries again by itself. Err says why.
type ArchiveError struct {
	Stream evtlog.StreamName
	// Op is what was asked of the archive: "watermark", "fold" or "read".
	Op  string
	Err error
}

// Error implements error.
func (e *ArchiveError) Error() string {
	return fmt.Sprintf("archiver: %s of %s failed: %v; nothing is trimmed until the archive answers", e.Op, e.Stream, e.Err)
}

// Unwrap returns the cause.
func (e *ArchiveError) Unwrap() error { return e.Err }

// RegressedError is a live stream whose newest position lies below the
// archive's watermark: it was deleted and made anew, restored from an old copy,
// or the archive belongs to another stream. Records appended now by a writer
// that does not know the watermark would never be archived. Nothing is trimmed.
// It ends by itself when the stream has passed the watermark, as evtlog's own
// writer makes it do with its first append.
type RegressedError struct {
	Stream evtlog.StreamName
	// Watermark is the archive's, Top the last generated id of the stream, zero
	// when there is no stream.
	Watermark, Top evtid.ID
}

// Error implements error.
func (e *RegressedError) Error() string {
	if e.Top.IsZero() {
		return fmt.Sprintf("archiver: %s does not exist in redis but was archived through %s; check that server and archive belong together", e.Stream, e.Watermark)
	}
	return fmt.Sprintf("archiver: %s ends at %s, below its archive's watermark %s: it was made anew or restored; nothing is trimmed until it has passed the watermark", e.Stream, e.Top, e.Watermark)
}

// SetBackError is an archive whose watermark is lower than one it had before: an
// older copy of it, another archive, or an empty one. Going on would leave a gap
// that nobody sees, so nothing is folded and nothing trimmed. Give the stream
// its archive back; the archiver then goes on by itself. If the records between
// are lost for good, delete the floor key (keyspace.Stream.Floor) and start the
// program anew: the archiver goes on above the gap.
type SetBackError struct {
	Stream evtlog.StreamName
	// Watermark is what the archive has now, Floor what it was proved to have.
	Watermark, Floor evtid.ID
}

// Error implements error.
func (e *SetBackError) Error() string {
	return fmt.Sprintf("archiver: archive of %s holds nothing above %q but was at %s before; nothing is folded or trimmed: connect the right archive, or delete the stream's floor key and start anew to go on without those records", e.Stream, e.Watermark, e.Floor)
}

// UnarchivedError is a live record at or below the watermark of which the
// archive has no copy, such as one appended to a stream that was made anew.
// Trimming is blocked while the record is there; folding goes on. Append its
// fields anew, which archives them under a new id, then remove it.
type UnarchivedError struct {
	Stream evtlog.StreamName
	// ID is the oldest such record, as far as was looked.
	ID evtid.ID
	// Watermark is the archive's.
	Watermark evtid.ID
}

// Error implements error.
func (e *UnarchivedError) Error() string {
	return fmt.Sprintf("archiver: record %s of %s lies below the watermark %s but is not in the archive; trimming is blocked: append its fields anew and remove it", e.ID, e.Stream, e.Watermark)
}
