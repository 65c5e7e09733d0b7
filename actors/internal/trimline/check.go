package trimline

import (
	"errors"
	"fmt"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// Judge takes in the answer of a trim through an id. A trim that removed records
// above its line is a fault; one that left some below it is not, as the next
// trim may do better: rest is then nil, and Stall counts. Any other error is
// the rest.
func Judge(stream evtlog.StreamName, through evtid.ID, err error) (fault *FaultError, rest error) {
	var effect *redislog.TrimEffectError
	if !errors.As(err, &effect) {
		return nil, err
	}
	if effect.Got != "" && !above(effect.Got, through) {
		return nil, nil
	}
	missing, _ := evtid.ParseEntry(effect.Want)
	return &FaultError{Stream: stream, Through: through, Missing: missing}, nil
}

// above reports whether an entry id as the server writes it lies above id. A
// position that no id can have is not above: foreign writers put those before
// the first id.
func above(entry string, id evtid.ID) bool {
	got, err := evtid.ParseEntry(entry)
	return err == nil && id.Less(got)
}

// FaultError is a trim that removed a record above its line, as a fault of the
// server would. No further trim is made until the component is built anew.
// Compare the server's version with its release notes and restore the missing
// records from a backup or from the archive.
type FaultError struct {
	Stream evtlog.StreamName
	// Through is the line: the newest id that the trim was allowed to remove.
	Through evtid.ID
	// Missing is the record above the line that is gone.
	Missing evtid.ID
}

// Error implements error.
func (e *FaultError) Error() string {
	return fmt.Sprintf("evtlog: trim of %s through %s also removed %s, which lies above: trimming is stopped; check the server's version and what else trims this stream", e.Stream, e.Through, e.Missing)
}

// StalledError is a stream that several trims in a row did not make shorter
// although entries are due. Trimming goes on; check the server's version and
// the rights of its user.
type StalledError struct {
	Stream evtlog.StreamName
	// Through is the newest id that should be gone.
	Through evtid.ID
	// Trims counts the trims without effect.
	Trims int
}

// Error implements error.
func (e *StalledError) Error() string {
	return fmt.Sprintf("evtlog: %d trims of %s in a row removed nothing although entries through %s are due; check the server's version and the rights of its user", e.Trims, e.Stream, e.Through)
}

// stallLimit is how many trims without effect are an alarm.
const stallLimit = 3

// Stall counts trims in a row that should have removed something and did not.
// The zero value is ready.
type Stall struct{ trims int }

// Note takes in one trim and returns the alarm once stallLimit is reached, for
// as long as it lasts. left says that entries at or below through are still
// there.
func (s *Stall) Note(stream evtlog.StreamName, through evtid.ID, removed int64, left bool) error {
	if removed > 0 || !left {
		s.trims = 0
		return nil
	}
	s.trims++
	if s.trims < stallLimit {
		return nil
	}
	return &StalledError{Stream: stream, Through: through, Trims: s.trims}
}
