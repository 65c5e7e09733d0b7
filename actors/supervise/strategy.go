package supervise

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/evtlog/evtlog"
)

// HandleFailure implements actor.SupervisorStrategy for the components. The
// library's own strategies restart at once or after a pause that has no cap and
// no jitter, and end the process when a failure escalates past the root; this
// one asks decide. It runs in the branch actor's turn.
func (a *branchActor) HandleFailure(_ *actor.ActorSystem, supervisor actor.Supervisor, who *actor.PID, _ *actor.RestartStatistics, reason, _ any) {
	m := a.member(who)
	if m == nil {
		return
	}
	f, ok := reason.(failure)
	if !ok {
		// Not the component but its actor: whether the incarnation still runs is
		// unknown, so no second one is started.
		f = failure{outcome: outcome{err: Terminal(&PanicError{Value: reason})}}
	}
	m.gone = max(m.gone, f.gen)
	if m.phase == stopping {
		// The end and the request to stop crossed.
		m.slot.final.err = f.outcome.err
		supervisor.StopChildren(m.pid)
		return
	}
	if f.outcome.ready && m.phase == starting {
		// A failure is a system message and overtakes the news of being ready.
		m.phase, m.beenUp = up, true
		a.system.transition(&m.node, evtlog.Ready, nil)
	}
	a.apply(supervisor, m, decide(a.system.cfg.Policy, m.spec.Restart, f.outcome, m.history, time.Now(), a.system.cfg.Rand()))
	// The supervisor is this actor's own context, as Receive gets it.
	if ctx, ok := supervisor.(actor.Context); ok {
		a.advance(ctx)
	}
}

func (a *branchActor) member(who *actor.PID) *member {
	for _, m := range a.branch.members {
		if m.pid != nil && m.pid.Equal(who) {
			return m
		}
	}
	return nil
}

func (a *branchActor) apply(supervisor actor.Supervisor, m *member, v verdict) {
	m.history = v.next
	if v.action == restart {
		a.pauseThenRestart(m, v)
		return
	}
	m.phase = stopping
	supervisor.StopChildren(m.pid)
	if v.action == giveUp {
		a.giveUp(m, v.reason)
		return
	}
	m.slot.final = final{err: v.reason, finished: true}
}

func (a *branchActor) pauseThenRestart(m *member, v verdict) {
	m.phase = pausing
	a.system.mu.Lock()
	m.node.restarts++
	a.branch.node.restarts++
	a.system.mu.Unlock()
	a.system.transition(&m.node, evtlog.Degraded, v.reason)
	a.system.logger.Warn("component restarts", "component", m.node.path, "reason", v.reason, "restarts", v.next.attempts, "delay", v.delay)
	a.system.emit(evtlog.Restarted{Component: m.node.path, Reason: v.reason, Restarts: v.next.attempts, Delay: v.delay})
	root, self, over := a.system.actors.Root, m.slot.parent, pauseOver{index: m.index, gen: m.gone}
	m.pause = time.AfterFunc(v.delay, func() { root.Send(self, over) })
}

// respawn ends a pause. The former incarnation has ended: its end was the reason
// for the pause.
func (a *branchActor) respawn(ctx actor.Context, m *member, gen uint64) {
	supervisor, ok := ctx.(actor.Supervisor)
	if !ok || m.phase != pausing || gen != m.gone {
		return
	}
	m.phase = starting
	supervisor.RestartChildren(m.pid)
}

// giveUp reports a component as failed. What was started after it may depend on
// it and is stopped; what was started before it goes on. During the start the
// whole branch is stopped, and the caller waiting for it is told.
func (a *branchActor) giveUp(m *member, reason error) {
	err := &FailedError{Component: m.node.path, Restarts: m.history.attempts, Err: reason}
	a.system.transition(&m.node, evtlog.Failed, err)
	a.system.transition(&a.branch.node, evtlog.Failed, err)
	a.keep = min(a.keep, m.index)
	if !a.complete {
		a.stopping, a.keep = true, 0
		a.branch.release(err)
	}
}
