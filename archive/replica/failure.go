package replica

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/archive/replica/command"
	"github.com/evtlog/evtlog/archive/volume"
)

// The kinds of failure that end an engine; they are the Kind of the alarm, too.
const (
	kindDisk    = "disk"
	kindWrite   = "write"
	kindLog     = "raft-log"
	kindPast    = "rewritten"
	kindStalled = "stalled"
	kindRemoved = "removed"
	// kindSnapshot does not end the engine.
	kindSnapshot = "snapshot"
)

var (
	errDiskFull = errors.New("the disk is nearly full")
	errStalled  = errors.New("no commit came through although work is in hand; the disk may hang")
	errRemoved  = fmt.Errorf("the node was removed from the cluster: %w", api.ErrRemoved)
	errDamaged  = errors.New("an entry of the replicated log is damaged")
)

// failure is what is done about the end of an engine.
type failure struct {
	kind string
	// fatal: a person must look; the node ends.
	fatal bool
}

// classifyFailure says what to do about the reason an engine ended for. A full
// disk and a failed write pass, and a damaged log is replaced by rejoining; a log
// that does not fit the volumes stays, and starting again would only go round in
// circles.
func classifyFailure(err error) failure {
	var bad *command.BadError
	switch {
	case errors.Is(err, errRewritten), errors.Is(err, api.ErrForeignCluster):
		return failure{kind: kindPast, fatal: true}
	case errors.Is(err, errDamaged):
		return failure{kind: kindLog}
	case errors.As(err, &bad):
		return failure{kind: kindLog, fatal: !bad.Damaged}
	case errors.Is(err, errStalled):
		return failure{kind: kindStalled, fatal: true}
	case errors.Is(err, errRemoved):
		return failure{kind: kindRemoved, fatal: true}
	case errors.Is(err, errDiskFull), errors.Is(err, volume.ErrFull), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return failure{kind: kindDisk}
	}
	return failure{kind: kindWrite}
}

// hopeless says whether the error of a start will not pass by itself.
func hopeless(err error) bool {
	for _, final := range []error{errDamaged, api.ErrMembership, api.ErrRemoved, api.ErrForeignCluster, api.ErrBadRequest} {
		if errors.Is(err, final) {
			return true
		}
	}
	return false
}

// pause is the wait before start number attempt, counted from 0.
func (f failure) pause(attempt int) time.Duration {
	if f.kind == kindDisk {
		return time.Second
	}
	return min(time.Second<<min(attempt, 5), 30*time.Second)
}

// faults let tests put a faulty network and disk under a node.
type faults struct {
	// dial replaces every outgoing connection.
	dial func(ctx context.Context, network, address string) (net.Conn, error)
	// free replaces the look at the free space.
	free func() (uint64, error)
	// restore is called at the begin of a pull inside raft's Restore.
	restore func(context.Context) error
	// write is asked before each batch is written.
	write func() error
	// stopGrace replaces the constant of that name.
	stopGrace time.Duration
	// lateStart leaves out the pull before raft starts, so that raft's own install
	// has to do it.
	lateStart bool
}
