package evtlog

import (
	"strconv"
	"time"

	"github.com/evtlog/evtlog/evtid"
)

// Window selects the records of a stream with After < id <= To.
//
// The zero Window is the whole stream, oldest first.
type Window struct {
	// After is the exclusive lower bound; zero reads from the first record.
	After evtid.ID
	// To is the inclusive upper bound. Zero means the newest record at the
	// moment the read begins, so that every read ends.
	To evtid.ID
	// Limit is the largest number of records; 0 means all.
	Limit int
	// Reverse reads newest first. With a Limit it gives the newest records.
	Reverse bool
}

// Between returns the window of every record minted from the millisecond of
// from up to and including the millisecond of to. It is empty when all of it
// lies before 2024 or after 2093, where no id can. An instant before 1970 is
// evtid.ErrBeforeUnixEpoch; to before from is a *WindowError.
func Between(from, to time.Time) (Window, error) {
	if to.Before(from) {
		return Window{}, &WindowError{Field: "to", Value: to.Format(time.RFC3339Nano), Reason: "it is before from, " + from.Format(time.RFC3339Nano)}
	}
	w, err := Since(from)
	if err != nil {
		return Window{}, err
	}
	ceil, err := evtid.Ceil(to)
	if err != nil {
		return Window{}, err
	}
	w.To = ceil.Last()
	if w.To.IsZero() {
		// The whole window lies before the first id; (Max, Max] holds nothing.
		w.After, w.To = evtid.Max, evtid.Max
	}
	return w, nil
}

// Since returns the window of every record minted in the millisecond of from or
// later. An instant before 1970 is evtid.ErrBeforeUnixEpoch.
func Since(from time.Time) (Window, error) {
	floor, err := evtid.Floor(from)
	if err != nil {
		return Window{}, err
	}
	return Window{After: floor.Before()}, nil
}

// Check reports whether the window is one that can be read. The error is a
// *WindowError.
func (w Window) Check() error {
	if w.Limit < 0 {
		return &WindowError{Field: "limit", Value: strconv.Itoa(w.Limit), Reason: "it must not be negative; 0 means all"}
	}
	if !w.To.IsZero() && w.To.Less(w.After) {
		return &WindowError{Field: "to", Value: w.To.String(), Reason: "it is before the lower bound " + w.After.String()}
	}
	return nil
}
