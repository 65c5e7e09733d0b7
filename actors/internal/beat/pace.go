package beat

import (
	"cmp"
	"errors"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/redislog"
)

// Reaction is what an error of the work means for the loop.
type Reaction uint8

const (
	// Steady: the next beat comes at its usual time.
	Steady Reaction = iota
	// BackOff: the next beat comes after a pause that grows with each failure.
	BackOff
	// GiveUp: no further beat would help.
	GiveUp
)

// React is the reaction to an error of Redis, or of a component's own. Refusals
// that need a person end the loop, lost connections slow it down. Back-pressure
// (out of memory, cannot persist) does not, for trimming is what relieves it;
// neither does an alarm about the stream, which keeps its place in the rhythm.
func React(err error) Reaction {
	var refusal *redislog.ServerError
	refused := errors.As(err, &refusal)
	switch class := redislog.Classify(err); {
	case class == redislog.Terminal && (refused || !errors.Is(err, evtlog.ErrForeignEntry)):
		return GiveUp
	case class == redislog.Topology,
		class == redislog.Transient && (refused || errors.Is(err, evtlog.ErrUnavailable)):
		return BackOff
	}
	return Steady
}

// spread returns a period that differs by up to a tenth in either direction, so
// that many streams do not beat together. rnd is in [0, 1).
func spread(every time.Duration, rnd float64) time.Duration {
	return every + time.Duration((rnd-0.5)*0.2*float64(every))
}

// pace is where the loop stands: when the next tick is due, and until when
// nudges are not looked at.
type pace struct {
	tick, deaf time.Time
	failures   int
}

// defaultMaxPause is the default of Beat.MaxPause.
const defaultMaxPause = 4 * time.Second

// after returns the pace after one call of the work that began at from. tick
// says that the call was a tick, r how it went.
func (p pace) after(b Beat, now time.Time, tick bool, r Reaction, rnd float64) pace {
	if r == BackOff {
		pause := supervise.Backoff{Max: cmp.Or(b.MaxPause, defaultMaxPause)}.Delay(p.failures, rnd)
		return pace{tick: now.Add(pause), deaf: now.Add(pause), failures: p.failures + 1}
	}
	next := pace{tick: p.tick, deaf: now.Add(b.Gap)}
	if tick || p.failures > 0 {
		next.tick = now.Add(spread(b.Every, rnd))
	}
	return next
}
