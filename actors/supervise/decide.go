package supervise

import (
	"time"

	"github.com/evtlog/evtlog"
)

// outcome is how one incarnation ended. None is reported for an incarnation
// that was asked to stop.
type outcome struct {
	// err is nil when Run returned nil.
	err error
	// ready is true when the incarnation had called ready, readyFor how long
	// before its end that was.
	ready    bool
	readyFor time.Duration
}

// history is what a supervisor remembers of a component.
type history struct {
	// attempts counts restarts since the last healthy period.
	attempts int
	// recent holds the times of those restarts that are inside Policy.Within,
	// oldest first.
	recent []time.Time
}

type action uint8

const (
	// finish: the component is done, and that is fine.
	finish action = iota
	// restart: a new incarnation after verdict.delay.
	restart
	// giveUp: no further incarnation; the branch has failed.
	giveUp
)

type verdict struct {
	action action
	// delay is set for restart.
	delay time.Duration
	// reason is why, for restart and giveUp; for finish it may be the error that
	// ended a temporary component.
	reason error
	// next replaces the history.
	next history
}

// decide is the restart rule. p has its defaults, rnd is in [0, 1).
func decide(p Policy, kind Restart, o outcome, h history, now time.Time, rnd float64) verdict {
	reason := o.err
	if reason == nil && kind == Permanent {
		reason = ErrEnded
	}
	switch {
	case IsTerminal(reason):
		return verdict{action: giveUp, reason: reason, next: h}
	case reason == nil, kind == Temporary && o.ready:
		return verdict{action: finish, reason: reason, next: h}
	case kind == Temporary:
		return verdict{action: giveUp, reason: reason, next: h}
	}
	if o.ready && o.readyFor >= p.Healthy {
		h = history{}
	}
	recent := since(h.recent, now.Add(-p.Within))
	if len(recent) >= p.MaxRestarts {
		return verdict{action: giveUp, reason: reason, next: history{attempts: h.attempts, recent: recent}}
	}
	return verdict{
		action: restart,
		delay:  Backoff{Min: p.Min, Max: p.Max}.Delay(h.attempts, rnd),
		reason: reason,
		next:   history{attempts: h.attempts + 1, recent: append(recent, now)},
	}
}

// since returns a copy of the times after from.
func since(times []time.Time, from time.Time) []time.Time {
	var out []time.Time
	for _, t := range times {
		if t.After(from) {
			out = append(out, t)
		}
	}
	return out
}

// branchState derives the state of a branch from those of its components.
// stopped says that the branch itself has been told to stop and all components
// have ended.
func branchState(components []evtlog.State, stopped bool) evtlog.State {
	counts := [evtlog.Stopped + 1]int{}
	for _, s := range components {
		counts[s]++
	}
	switch {
	case stopped:
		return evtlog.Stopped
	case counts[evtlog.Failed] > 0:
		return evtlog.Failed
	case counts[evtlog.Degraded] > 0:
		return evtlog.Degraded
	case counts[evtlog.Starting] > 0:
		return evtlog.Starting
	}
	return evtlog.Ready
}
