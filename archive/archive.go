// Package archive is the durable half of the log: what an archive promises,
// the rules of its watermark, and the reader that joins archive and live stream
// with no gap and no overlap.
//
// The package knows no store. archive/volume keeps an archive in a local file,
// archive/replica in a cluster.
package archive

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

// Archive keeps the records of streams for good. For each stream it has a
// watermark W, the id of the newest record it holds: exactly the records that
// were folded, all at or below W.
//
// All methods are safe for concurrent use.
type Archive interface {
	// Fold appends records and moves the watermark from prev to the id of the
	// last record, durably and in one step, then returns the new watermark.
	//
	// The records are in mint order and all above prev. Fold compares and sets:
	// when the watermark is not prev it is a *ConflictError, and nothing
	// changed, unless this very fold has been done before (same prev, same
	// records), in which case it answers as it did then. Any other error that
	// does not wrap ErrRejected leaves the outcome open: read Watermark, or fold
	// the same records again. The records are not modified or kept.
	Fold(ctx context.Context, stream evtlog.StreamName, prev evtid.ID, records []evtlog.Record) (evtid.ID, error)

	// Watermark returns W, the zero ID when nothing was archived. It is
	// linearizable: at least as new as every Fold that returned before the call.
	Watermark(ctx context.Context, stream evtlog.StreamName) (evtid.ID, error)

	// Read returns the records of r in mint order, or newest first. The
	// sequence ends after the first error. Records carry evtlog.Archived and
	// belong to the receiver. Breaking out releases what the read holds.
	Read(ctx context.Context, stream evtlog.StreamName, r Range) iter.Seq2[evtlog.Record, error]
}

// Range selects archived records with After < id <= To.
type Range struct {
	After evtid.ID
	// To is the inclusive upper bound; zero means the watermark at the start.
	To evtid.ID
	// AtLeast is a watermark that the state read from must have reached. A node
	// that is behind waits for it until the context ends, and then fails with
	// ErrBehind: jumping ahead would skip records. Zero accepts any state.
	AtLeast evtid.ID
	// Reverse reads newest first.
	Reverse bool
}

var (
	// ErrConflict is wrapped by every *ConflictError.
	ErrConflict = errors.New("archive watermark has moved")
	// ErrRejected: the fold was refused for good and nothing changed (records
	// out of order, or not above prev).
	ErrRejected = errors.New("fold rejected")
	// ErrBehind: this state has not reached the watermark asked for in time.
	ErrBehind = errors.New("archive state is behind")
	// ErrCorrupt: stored bytes do not match their checksum or chain. The volume
	// serves nothing until it was repaired from a copy.
	ErrCorrupt = errors.New("archive is corrupt")
	// ErrLocked: another process has the archive's file open.
	ErrLocked = errors.New("archive is locked by another process")
)

// ConflictError is a fold whose prev is not the watermark: someone else folded.
// Nothing changed. Read Watermark and fold what lies above it.
type ConflictError struct {
	Stream evtlog.StreamName
	// Prev is what the caller expected, Watermark what the archive has.
	Prev, Watermark evtid.ID
}

// Error implements error.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("archive: fold into %s refused: expected watermark %q but it is %q; fold what lies above it", e.Stream, e.Prev, e.Watermark)
}

// Unwrap returns ErrConflict.
func (e *ConflictError) Unwrap() error { return ErrConflict }

// CheckFold applies the rules that every archive's Fold shares: at least one
// record, strictly increasing ids, all above prev. The error wraps ErrRejected.
func CheckFold(stream evtlog.StreamName, prev evtid.ID, records []evtlog.Record) error {
	if len(records) == 0 {
		return fmt.Errorf("archive: fold into %s: %w: it has no records", stream, ErrRejected)
	}
	last := prev
	for i, r := range records {
		if !last.Less(r.ID) {
			return fmt.Errorf("archive: fold into %s: %w: record %d (%s) is not above %q", stream, ErrRejected, i, r.ID, last)
		}
		last = r.ID
	}
	return nil
}

// Limited is implemented by archives that take records up to a size only. A
// writer in front of such an archive must not accept larger ones: they could
// never be folded, and with them nothing behind them.
type Limited interface {
	// MaxRecordBytes is the largest record, names and values together.
	MaxRecordBytes() int
}
