package publisher

import (
	"context"
	"errors"
	"fmt"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/redislog"
)

// Why an outcome is not, or not yet, a commit. They are wrapped by the typed
// errors of package evtlog.
var (
	errAbsent     = errors.New("it is neither in the stream nor in the archive, and a later record stands above it")
	errTrimmed    = errors.New("the stream was trimmed past it and there is no archive to ask")
	errNotYet     = errors.New("it is not in the stream, and nothing later is: a command on its way may still bring it; ask again after a later append")
	errStopping   = errors.New("the publisher stopped before the outcome was known")
	errTwoServers = errors.New("the server that refused the id as none above its top is not the one that was asked for the top: a failover is under way, or the address leads to several servers")
	errOtherBody  = errors.New("the stream holds another record at this id")
)

// BatchError is an AppendBatch of which not every record is committed. The
// receipts say which.
type BatchError struct {
	Stream evtlog.StreamName
	// Failed of Total records are not committed.
	Failed, Total int
	// Err is the error of the first of them.
	Err error
}

// Error implements error.
func (e *BatchError) Error() string {
	return fmt.Sprintf("publisher: %d of %d records for %s are not committed, see the receipts; the first: %v", e.Failed, e.Total, e.Stream, e.Err)
}

// Unwrap returns the first error.
func (e *BatchError) Unwrap() error { return e.Err }

// OverloadedError refuses a call at once: the queue is full, and as many callers
// wait for room as may. Nothing was written. Slow down and try again, append
// several records with one AppendBatch, or raise Config.MaxQueuedBytes, which
// bounds the callers as well.
type OverloadedError struct {
	Stream evtlog.StreamName
	// Waiting is how many callers wait for room.
	Waiting int
}

// Error implements error.
func (e *OverloadedError) Error() string {
	return fmt.Sprintf("publisher: append to %s: %v: nothing was written: the queue is full and %d callers wait for room, no more may; slow down and try again, or append several records with one AppendBatch", e.Stream, evtlog.ErrOverloaded, e.Waiting)
}

// Unwrap returns evtlog.ErrOverloaded.
func (e *OverloadedError) Unwrap() error { return evtlog.ErrOverloaded }

// overloaded is a request that was withdrawn before anything was written.
func overloaded(ctx context.Context, stream evtlog.StreamName) error {
	return fmt.Errorf("publisher: append to %s: %w: nothing was written before the caller's context ended: %w", stream, evtlog.ErrOverloaded, context.Cause(ctx))
}

// refused is a request that failed without an id: nothing was written.
func refused(stream evtlog.StreamName, err error) error {
	return fmt.Errorf("publisher: append to %s refused, nothing was written: %w", stream, err)
}

// isLost reports whether an answer leaves the outcome of an append open: all but
// a refusal by the server.
func isLost(err error) bool {
	var server *redislog.ServerError
	var conn *redislog.ConnError
	if errors.As(err, &conn) {
		return true
	}
	return !errors.As(err, &server) && !errors.Is(err, evtlog.ErrNonMonotonic)
}
