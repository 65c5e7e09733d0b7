package supervise

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// late is embedded in every message: each may meet an actor that has just ended,
// which is no news, so the actor library is told not to log it.
type late struct{}

// IgnoreDeadLetterLogging implements the actor library's marker interface.
func (late) IgnoreDeadLetterLogging() {}

var _ actor.IgnoreDeadLetterLogging = late{}

type (
	// To the root: every message about a branch takes this way, so that a stop
	// cannot overtake the start.
	spawnBranch struct {
		late
		branch *Branch
	}
	stopBranch struct {
		late
		branch   *Branch
		deadline time.Time
	}

	// To a branch.

	memberReady struct {
		late
		index int
		gen   uint64
	}
	memberReport struct {
		late
		index int
		gen   uint64
		err   error
	}
	pauseOver struct {
		late
		index int
		gen   uint64
	}

	// To a child.

	stopChild struct {
		late
		within time.Duration
	}
	pumpEnded struct {
		late
		gen     uint64
		outcome outcome
	}
	stopOverdue struct {
		late
		gen uint64
	}
)

// failure is the reason with which a child's actor fails.
type failure struct {
	gen     uint64
	outcome outcome
}
