// Package beat is the loop of a component that works on a tick, and at once when
// nudged.
package beat

import (
	"context"
	"time"

	"github.com/evtlog/evtlog/actors/supervise"
)

// Beat says when the work is called.
type Beat struct {
	// Every is the mean time between two ticks.
	Every time.Duration
	// MaxPause is the ceiling of the pause after a failure. Zero means 4 s, so that
	// everything is back within five seconds of the server.
	MaxPause time.Duration
	// Nudge calls the work out of turn. nil: never.
	Nudge <-chan struct{}
	// Gap is the least time from the end of a call to the next nudged one.
	Gap time.Duration
	// React decides about errors. It must be set; see the function React.
	React func(error) Reaction
	// Rand returns a random number in [0, 1). It must be set.
	Rand func() float64
}

// Run calls work at once and then on each beat until ctx ends, which is nil.
// tick is false for a nudged call. How the work goes is told to the supervisor.
// An error to give up at ends the loop; it is marked as terminal.
func (b Beat) Run(ctx context.Context, work func(ctx context.Context, tick bool) error) error {
	var p pace
	for tick := true; ; {
		err := work(ctx, tick)
		if ctx.Err() != nil {
			return nil
		}
		reaction := b.React(err)
		if reaction == GiveUp {
			return supervise.Terminal(err)
		}
		supervise.Report(ctx, err)
		p = p.after(b, time.Now(), tick, reaction, b.Rand())
		if tick = b.wait(ctx, p); ctx.Err() != nil {
			return nil
		}
	}
}

// wait returns when the next tick is due (true), when nudged (false), or when
// ctx ends.
func (b Beat) wait(ctx context.Context, p pace) (tick bool) {
	if quiet := min(time.Until(p.deaf), time.Until(p.tick)); quiet > 0 && supervise.Wait(ctx, quiet) != nil {
		return false
	}
	timer := time.NewTimer(time.Until(p.tick))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
		return true
	case <-b.Nudge:
		// A tick that is due as well goes first: it does all that a nudge does.
		return !time.Now().Before(p.tick)
	}
	return false
}
