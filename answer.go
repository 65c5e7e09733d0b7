package evtlog

import (
	"fmt"
	"time"
)

// RetryError is a handler's answer that the entry is to be offered again after
// a pause of its own. Make one with RetryAfter.
type RetryError struct {
	// After is the pause, counted from the return of the handler. It is never
	// negative.
	After time.Duration
	// Err is why; nil when the handler gave no reason.
	Err error
}

// RetryAfter makes a handler's answer: the entry stays pending and is offered
// again d from now, whatever the consumer's back-off says. Return it, wrapped or
// not, when the handler knows better when another attempt makes sense, such as
// after a "too many requests". A d below zero means at once.
//
// The attempt counts: after the consumer's MaxDeliveries the entry is moved to
// the dead stream all the same. The pause is kept in memory only, so that a
// member that was restarted, or a peer that takes the entry over, may offer it
// earlier.
func RetryAfter(d time.Duration, err error) error {
	return &RetryError{After: max(d, 0), Err: err}
}

// Error implements error.
func (e *RetryError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("evtlog: the handler asked for another attempt in %s", e.After)
	}
	return e.Err.Error()
}

// Unwrap returns the reason.
func (e *RetryError) Unwrap() error { return e.Err }

// DeadError is a handler's answer that no further attempt can help. Make one
// with Dead.
type DeadError struct {
	// Reason is stored with the dead letter.
	Reason string
}

// Dead makes a handler's answer: the entry is moved to the dead stream at once,
// with this reason, whatever the consumer's MaxDeliveries says, and only then
// acknowledged. Return it, wrapped or not, for an entry that can never be
// handled, such as one that does not parse. When it is wrapped, the reason that
// is stored is the whole text of the error returned.
func Dead(reason string) error { return &DeadError{Reason: reason} }

// Error implements error.
func (e *DeadError) Error() string { return e.Reason }
