package evtlog

import (
	"errors"
	"fmt"

	"github.com/evtlog/evtlog/evtid"
)

// Refused before anything was sent: correct the input.
var (
	// ErrBadField is wrapped by every *FieldError.
	ErrBadField = errors.New("bad field")
	// ErrTooLarge is wrapped by every *TooLargeError.
	ErrTooLarge = errors.New("record too large")
	// ErrBadWindow is wrapped by every *WindowError.
	ErrBadWindow = errors.New("bad window")
	// ErrBadKeep is wrapped by every *KeepError.
	ErrBadKeep = errors.New("bad retention policy")
	// ErrStopped: the component has been stopped, or is stopping. Nothing was
	// done. Start a new runtime to go on.
	ErrStopped = errors.New("stopped")
	// ErrOverloaded: the bounded queue in front of the writer had no room before
	// the caller's deadline, or so many callers wait for room already that this one
	// was refused at once. Nothing was written; slow down and try again.
	ErrOverloaded = errors.New("overloaded")
)

// Refused by the server. Nothing was written by the refused command.
var (
	// ErrNonMonotonic: the stream already holds this position or a later one.
	// Another writer is at work; see *NonMonotonicError. Never retry.
	ErrNonMonotonic = errors.New("id is not above the top of the stream")
	// ErrOutOfMemory: Redis is at its memory limit. Back off; retention goes on.
	ErrOutOfMemory = errors.New("redis is out of memory")
	// ErrWrongType: the key holds something that is not a stream. Remove it or
	// choose another name.
	ErrWrongType = errors.New("key holds another type")
	// ErrReadOnly: the server is a replica. The connection is dropped and the
	// address looked up anew.
	ErrReadOnly = errors.New("server is read-only")
	// ErrDenied: wrong password, or the user lacks a right. Correct the URL or
	// the ACL.
	ErrDenied = errors.New("access denied")
	// ErrNoGroup: the consumer group does not exist.
	ErrNoGroup = errors.New("no such group")
	// ErrNotPersisting: Redis refuses writes because it cannot save to disk.
	ErrNotPersisting = errors.New("redis cannot persist")
	// ErrUnavailable: Redis did not answer, or said it cannot serve now. The
	// component reconnects by itself; try again later.
	ErrUnavailable = errors.New("redis is unavailable")
	// ErrServer: Redis refused the command for a reason that is none of the above.
	ErrServer = errors.New("redis refused the command")
	// ErrNotReplicated is wrapped by every *NotReplicatedError.
	ErrNotReplicated = errors.New("committed, but on too few replicas")
	// ErrForeignFormat: the fence key names another wire format. Point the
	// program at a server of this format.
	ErrForeignFormat = errors.New("foreign wire format")
	// ErrForeignEntry: an entry stands at a position that no EVT id can have.
	ErrForeignEntry = errors.New("foreign entry")
)

// FieldError says which field was refused.
type FieldError struct {
	// Index counts from 0 in the order given.
	Index  int
	Name   string
	Reason string
}

// Error implements error.
func (e *FieldError) Error() string {
	return fmt.Sprintf("evtlog: field %d %q refused: %s", e.Index, e.Name, e.Reason)
}

// Unwrap returns ErrBadField.
func (e *FieldError) Unwrap() error { return ErrBadField }

// TooLargeError says that a record passes the size limit. Store the body
// elsewhere and append a reference, or raise the limit.
type TooLargeError struct {
	Size, Limit int
	// Batch is true when each record may be appended, but all of them together
	// are more than the writer's queue takes. Append them in smaller batches.
	Batch bool
}

// Error implements error.
func (e *TooLargeError) Error() string {
	if e.Batch {
		return fmt.Sprintf("evtlog: batch of %d bytes refused: the writer queues %d at most; append it in smaller batches", e.Size, e.Limit)
	}
	return fmt.Sprintf("evtlog: record of %d bytes refused: the limit is %d; store the body elsewhere, or raise MaxRecordBytes", e.Size, e.Limit)
}

// Unwrap returns ErrTooLarge.
func (e *TooLargeError) Unwrap() error { return ErrTooLarge }

// WindowError says which bound of a window was refused.
type WindowError struct{ Field, Value, Reason string }

// Error implements error.
func (e *WindowError) Error() string {
	return fmt.Sprintf("evtlog: window %s %s refused: %s", e.Field, e.Value, e.Reason)
}

// Unwrap returns ErrBadWindow.
func (e *WindowError) Unwrap() error { return ErrBadWindow }

// NonMonotonicError is the refusal of an append because the stream's top is not
// below the id: a second writer works on the stream, perhaps under the same
// node number. The record was not written. Stop one of the writers; Top.Node
// says which minted the top.
type NonMonotonicError struct {
	Stream StreamName
	// ID is the refused id.
	ID evtid.ID
	// Top is the newest id of the stream when that could be read, else zero.
	Top evtid.ID
}

// Error implements error.
func (e *NonMonotonicError) Error() string {
	if e.Top.IsZero() {
		return fmt.Sprintf("evtlog: append of %s to %s refused: the top of the stream is not below it; another writer is at work", e.ID, e.Stream)
	}
	return fmt.Sprintf("evtlog: append of %s to %s refused: the top is %s, minted by node %d; stop the second writer", e.ID, e.Stream, e.Top, e.Top.Node())
}

// Unwrap returns ErrNonMonotonic.
func (e *NonMonotonicError) Unwrap() error { return ErrNonMonotonic }

// RejectedError is an append that was refused for good: the record is not in
// the log and will not be. Err says why; branch with errors.Is.
type RejectedError struct {
	Stream StreamName
	// ID is the id the record would have had.
	ID  evtid.ID
	Err error
}

// Error implements error.
func (e *RejectedError) Error() string {
	return fmt.Sprintf("evtlog: append of %s to %s rejected, nothing was written: %v", e.ID, e.Stream, e.Err)
}

// Unwrap returns the reason.
func (e *RejectedError) Unwrap() error { return e.Err }

// UncertainError is an append whose outcome could not be learned in time: the
// record may or may not be in the log. Do not append it anew. Ask later with
// Resolve and this ID; it answers committed or rejected.
type UncertainError struct {
	Stream StreamName
	ID     evtid.ID
	// Err is what kept the outcome from being learned.
	Err error
}

// Error implements error.
func (e *UncertainError) Error() string {
	return fmt.Sprintf("evtlog: append of %s to %s is uncertain: %v; settle it with Resolve before appending again", e.ID, e.Stream, e.Err)
}

// Unwrap returns the cause.
func (e *UncertainError) Unwrap() error { return e.Err }

// NotReplicatedError is an append that is committed on the primary but was not
// confirmed by as many replicas as asked for in time. The record is in the log:
// do not append it anew. It is lost only if the primary fails before a replica
// has it.
type NotReplicatedError struct {
	Stream StreamName
	// ID is the committed record.
	ID evtid.ID
	// Want is the number of replicas asked for; Got is how many confirmed, -1
	// when the connection was lost before the answer.
	Want, Got int
}

// Error implements error.
func (e *NotReplicatedError) Error() string {
	got := fmt.Sprint(e.Got)
	if e.Got < 0 {
		got = "an unknown number"
	}
	return fmt.Sprintf("evtlog: append of %s to %s is committed but confirmed by %s of %d replicas; do not append it again", e.ID, e.Stream, got, e.Want)
}

// Unwrap returns ErrNotReplicated.
func (e *NotReplicatedError) Unwrap() error { return ErrNotReplicated }

// ForeignEntryError names an entry at a position that no EVT id can have, put
// there by a writer that makes its own ids. It can be read with redis-cli but
// has no identity here; copy it under an id of its own if it is needed.
type ForeignEntryError struct {
	Stream StreamName
	// Entry is the entry id as the server gave it.
	Entry string
}

// Error implements error.
func (e *ForeignEntryError) Error() string {
	return fmt.Sprintf("evtlog: entry %s of %s stands where no EVT id can: a foreign writer put it there; append its fields anew and remove it", e.Entry, e.Stream)
}

// Unwrap returns ErrForeignEntry.
func (e *ForeignEntryError) Unwrap() error { return ErrForeignEntry }
