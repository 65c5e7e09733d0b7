package archive

import (
	"errors"
	"fmt"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

// ErrGap is wrapped by every *GapError.
var ErrGap = errors.New("records are missing")

// GapError says that a read came to records which it cannot have: they left, or
// may have left, the live stream, and the reader has no archive that holds
// them. Everything on the near side of the gap was yielded and the read ended.
//
// To go on behind the gap of a forward read, read Window{After: e.To}; behind
// that of a backward read, unless e.After is zero, Window{To: e.After, Reverse:
// true}. To have the missing records, read with the archive that they were
// folded into.
type GapError struct {
	Stream evtlog.StreamName
	// The missing records have After < id <= To.
	After, To evtid.ID
	// Reason says how the gap was noticed.
	Reason string
}

// Error implements error.
func (e *GapError) Error() string {
	if e.After.IsZero() {
		return fmt.Sprintf("archive: %s: all records up to %s are missing: %s", e.Stream, e.To, e.Reason)
	}
	return fmt.Sprintf("archive: %s: records above %s up to %s are missing: %s", e.Stream, e.After, e.To, e.Reason)
}

// Unwrap returns ErrGap.
func (e *GapError) Unwrap() error { return ErrGap }
