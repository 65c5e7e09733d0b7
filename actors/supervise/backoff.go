package supervise

import (
	"context"
	"time"
)

// Backoff is an exponential pause with full jitter. It is a plain value without
// state, for every loop that tries again: the supervisor's restarts as well as
// reconnects. The zero value means 100 ms to 10 s.
type Backoff struct {
	// Min is the ceiling of the first pause, Max the ceiling of all.
	Min, Max time.Duration
}

// Delay returns the pause before try number attempt, which counts from 0. rnd is
// a random number in [0, 1): the pause is that part of the ceiling, so that many
// clients of one failed server do not come back together.
func (b Backoff) Delay(attempt int, rnd float64) time.Duration {
	return time.Duration(rnd * float64(b.ceiling(attempt)))
}

func (b Backoff) ceiling(attempt int) time.Duration {
	c, limit := orDefault(b.Min, DefaultMin), orDefault(b.Max, DefaultMax)
	for ; attempt > 0 && c < limit; attempt-- {
		c *= 2
	}
	return min(c, limit)
}

// Wait returns nil after d, or the context's cause as soon as ctx ends.
func Wait(ctx context.Context, d time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
