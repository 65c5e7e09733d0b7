package api

import (
	"errors"
	"fmt"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
)

// Nothing was done: the call may be repeated as it is, now or on another node.
var (
	// ErrNotLeader is wrapped by every *NotLeaderError.
	ErrNotLeader = errors.New("node is not the leader")
	// ErrNoLeader: no node could be found that leads the cluster before the
	// caller's deadline. Look at the status of the nodes.
	ErrNoLeader = errors.New("archive cluster has no leader")
	// ErrNotReady: the node is starting, stepping aside, or stopping.
	ErrNotReady = errors.New("archive node is not ready")
)

// Refused for good.
var (
	// ErrForeignCluster is wrapped by every *ForeignClusterError.
	ErrForeignCluster = errors.New("foreign archive cluster")
	// ErrDenied: the bearer token is missing or wrong. Correct the token.
	ErrDenied = errors.New("access denied")
	// ErrBadRequest: the request breaks a rule that its message names.
	ErrBadRequest = errors.New("bad request")
	// ErrRemoved: the node is not a member any more. Set its directory aside, or
	// start it with Rejoin.
	ErrRemoved = errors.New("node was removed")
	// ErrMembership: the change of members was refused; the message says why and
	// what to do instead.
	ErrMembership = errors.New("membership change refused")
)

// ErrUncertain is wrapped by every *UncertainError.
var ErrUncertain = errors.New("outcome of the fold is unknown")

// NotLeaderError is the answer of a node that does not lead. Nothing was done.
type NotLeaderError struct {
	// LeaderID and LeaderAddress name the leader, when the node knows one.
	LeaderID, LeaderAddress string
}

// Error implements error.
func (e *NotLeaderError) Error() string {
	if e.LeaderID == "" {
		return "replica: not the leader, and no leader is known; ask again"
	}
	return fmt.Sprintf("replica: not the leader; ask %s at %s", e.LeaderID, e.LeaderAddress)
}

// Unwrap returns ErrNotLeader.
func (e *NotLeaderError) Unwrap() error { return ErrNotLeader }

// UncertainError is a fold whose outcome could not be learned: it may have been
// committed, now or a moment from now. Fold the same records with the same prev
// again: the answer is then certain, and nothing is archived twice.
type UncertainError struct {
	Stream     evtlog.StreamName
	Prev, Last evtid.ID
	// Err is what kept the outcome from being learned.
	Err error
}

// Error implements error.
func (e *UncertainError) Error() string {
	return fmt.Sprintf("replica: fold of (%q, %q] into %s is uncertain: %v; repeat the same fold to settle it", e.Prev, e.Last, e.Stream, e.Err)
}

// Unwrap returns ErrUncertain and the cause.
func (e *UncertainError) Unwrap() []error { return []error{ErrUncertain, e.Err} }

// ForeignClusterError is a handshake between two clusters. Correct the address
// or the directory; nodes of different clusters never exchange data.
type ForeignClusterError struct {
	// Ours and Theirs are "cluster" or "cluster/incarnation".
	Ours, Theirs string
}

// Error implements error.
func (e *ForeignClusterError) Error() string {
	return fmt.Sprintf("replica: %q does not belong to %q: correct the address, the cluster id or the directory", e.Theirs, e.Ours)
}

// Unwrap returns ErrForeignCluster.
func (e *ForeignClusterError) Unwrap() error { return ErrForeignCluster }

// TooLargeError is a fold that does not fit one entry of the replicated log.
// Fold fewer records at a time. It wraps archive.ErrRejected and
// evtlog.ErrTooLarge.
type TooLargeError struct {
	Stream      evtlog.StreamName
	Size, Limit int64
}

// Error implements error.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("replica: fold into %s of %d bytes refused: the limit is %d; fold fewer records at a time", e.Stream, e.Size, e.Limit)
}

// Unwrap returns the two classes.
func (e *TooLargeError) Unwrap() []error { return []error{archive.ErrRejected, evtlog.ErrTooLarge} }
