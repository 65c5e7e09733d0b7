package runtime

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

// ErrBeyondEnd is wrapped by every *BeyondEndError.
var ErrBeyondEnd = errors.New("cursor is beyond the end of the log")

// BeyondEndError says that Follow was given, or had reached, a cursor that no
// record of the log has: neither the stream nor the archive has ever got so far.
// The stream was deleted and made anew, or Redis came back with less than it had
// acknowledged, or the cursor is one of another stream.
//
// Ranging on follows what is appended from now on, behind End. To be given what
// the log holds below the cursor as well, follow anew after the zero ID, or after
// an id that is known to be processed.
type BeyondEndError struct {
	Stream evtlog.StreamName
	// Cursor is the id that was to be followed.
	Cursor evtid.ID
	// Last is the stream's last-generated-id, zero when there is no stream;
	// Watermark the newest archived id, zero when nothing was archived or no archive
	// is known here.
	Last, Watermark evtid.ID
}

// End is the end of the log: the newest id that it has given out, as far as is
// known.
func (e *BeyondEndError) End() evtid.ID { return later(e.Last, e.Watermark) }

// Error implements error.
func (e *BeyondEndError) Error() string {
	return fmt.Sprintf("runtime: follow %s: the cursor %s is beyond the end of the log (the stream's last id is %q, the archive's watermark %q): the stream was deleted or set back, or the cursor is another stream's; range on for what comes from now on, or follow anew after the zero id", e.Stream, e.Cursor, e.Last, e.Watermark)
}

// Unwrap returns ErrBeyondEnd.
func (e *BeyondEndError) Unwrap() error { return ErrBeyondEnd }

// beyondEnd decides whether a cursor lies where the log has never been. The facts
// are read after the cursor was had: the last-generated-id is never below a record
// that was appended, trimmed or not, so the cursor of a record that another
// process has just appended is never taken for one.
func beyondEnd(cursor, last, watermark evtid.ID) bool {
	return later(last, watermark).Less(cursor)
}

// checkEnd returns a *BeyondEndError when the cursor is beyond the end. The archive
// is asked only when the stream alone does not reach the cursor.
func (f *follower) checkEnd(ctx context.Context) error {
	last, err := f.stream.Last(ctx)
	if err == nil {
		f.checked = time.Now()
	}
	if err != nil || !beyondEnd(f.cursor, last, evtid.ID{}) {
		return err
	}
	name := nameOf(f.stream.Stream())
	var watermark evtid.ID
	if f.arch != nil {
		if watermark, err = f.arch.Watermark(ctx, name); err != nil {
			return fmt.Errorf("runtime: follow %s: the stream ends at %q, below the cursor %s, and how far the archive reaches is not known: %w", name, last, f.cursor, err)
		}
	}
	if !beyondEnd(f.cursor, last, watermark) {
		return nil
	}
	return &BeyondEndError{Stream: name, Cursor: f.cursor, Last: last, Watermark: watermark}
}
