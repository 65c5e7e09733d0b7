package supervise

import (
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/evtlog/evtlog"
)

var errAbandoned = errors.New("still running after its stop time-out")

// branchActor starts, restarts and stops the components of one branch. It only
// receives: what takes time happens in the components' goroutines and in timers,
// which answer with messages.
type branchActor struct {
	branch *Branch
	system *System
	// keep is the number of components, from the first on, that shall go on.
	keep int
	// complete is true once all components have been up.
	complete bool
	stopping bool
	deadline time.Time
}

// Receive implements actor.Actor.
func (a *branchActor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		a.system.transition(&a.branch.node, evtlog.Starting, nil)
		a.advance(ctx)
	case memberReady:
		a.ready(ctx, a.branch.members[m.index], m.gen)
	case memberReport:
		a.report(ctx, a.branch.members[m.index], m.gen, m.err)
	case pauseOver:
		a.respawn(ctx, a.branch.members[m.index], m.gen)
	case stopBranch:
		a.stop(ctx, m.deadline)
	case *actor.Terminated:
		a.terminated(ctx, m.Who)
	}
}

func (a *branchActor) ready(ctx actor.Context, m *member, gen uint64) {
	if gen <= m.gone || m.phase != starting {
		return
	}
	m.phase, m.beenUp = up, true
	a.system.transition(&m.node, evtlog.Ready, nil)
	a.advance(ctx)
}

func (a *branchActor) report(ctx actor.Context, m *member, gen uint64, err error) {
	switch {
	case gen <= m.gone || m.phase != starting && m.phase != up:
	case err != nil:
		a.system.transition(&m.node, evtlog.Degraded, err)
	case m.phase == up:
		a.system.transition(&m.node, evtlog.Ready, nil)
	}
	a.advance(ctx)
}

func (a *branchActor) stop(ctx actor.Context, deadline time.Time) {
	if !a.stopping {
		a.stopping, a.keep, a.deadline = true, 0, deadline
	}
	a.advance(ctx)
}

// advance does the next step towards what shall run, and reports the branch's
// state. It is called after every change.
func (a *branchActor) advance(ctx actor.Context) {
	phases, beenUp := a.phases()
	if i, ok := nextStop(phases, a.keep); ok {
		a.stopMember(ctx, a.branch.members[i], aliveFrom(phases, a.keep))
	}
	if i, ok := nextStart(phases, beenUp, a.keep); ok {
		a.spawn(ctx, a.branch.members[i])
	}
	phases, beenUp = a.phases()
	stopped := a.stopping && aliveFrom(phases, 0) == 0
	a.reportBranch(stopped)
	if a.keep == len(phases) && allUp(phases, beenUp) {
		a.complete = true
		a.branch.release(nil)
	}
	if stopped {
		ctx.Stop(ctx.Self())
	}
}

func (a *branchActor) phases() (phases []phase, beenUp []bool) {
	for _, m := range a.branch.members {
		phases, beenUp = append(phases, m.phase), append(beenUp, m.beenUp)
	}
	return phases, beenUp
}

func (a *branchActor) reportBranch(stopped bool) {
	a.system.mu.Lock()
	var states []evtlog.State
	var cause error
	for _, m := range a.branch.members {
		states = append(states, m.node.state)
		if m.node.state == evtlog.Degraded || m.node.state == evtlog.Failed {
			cause = m.node.err
		}
	}
	a.system.mu.Unlock()
	state := branchState(states, stopped)
	if a.stopping && !stopped {
		// On the way down it keeps the state it had.
		return
	}
	if state != evtlog.Degraded && state != evtlog.Failed {
		cause = nil
	}
	a.system.transition(&a.branch.node, state, cause)
}

func (a *branchActor) spawn(ctx actor.Context, m *member) {
	m.slot = &slot{branch: a.branch, spec: m.spec, index: m.index, parent: ctx.Self()}
	props := actor.PropsFromProducer(func() actor.Actor { return &child{slot: m.slot} }, actor.WithMailbox(a.system.produce(&m.node)))
	m.phase = starting
	a.system.transition(&m.node, evtlog.Starting, nil)
	pid, err := ctx.SpawnNamed(props, m.spec.Name)
	if err != nil {
		m.phase = ended
		a.giveUp(m, err)
		a.advance(ctx)
		return
	}
	m.pid = pid
}

func (a *branchActor) stopMember(ctx actor.Context, m *member, left int) {
	if m.phase == pausing {
		// Its actor takes no messages now, and nothing runs behind it.
		m.pause.Stop()
		ctx.Stop(m.pid)
	} else {
		ctx.Send(m.pid, stopChild{within: stopShare(m.spec.StopTimeout, a.deadline, time.Now(), left)})
	}
	m.phase = stopping
}

// terminated is told about each child's actor once, after its last message.
func (a *branchActor) terminated(ctx actor.Context, who *actor.PID) {
	for _, m := range a.branch.members {
		if m.pid == nil || !m.pid.Equal(who) || m.phase == ended {
			continue
		}
		m.phase = ended
		a.recordEnd(m)
	}
	a.advance(ctx)
}

func (a *branchActor) recordEnd(m *member) {
	final := m.slot.final
	if final.abandoned || final.err != nil && !final.finished {
		a.system.mu.Lock()
		if final.abandoned {
			a.branch.abandoned = append(a.branch.abandoned, m.node.path)
		} else {
			a.branch.stopErrs = append(a.branch.stopErrs, fmt.Errorf("supervise: %s ended with an error while stopping: %w", m.node.path, final.err))
		}
		a.system.mu.Unlock()
	}
	if m.node.state != evtlog.Failed {
		a.system.transition(&m.node, evtlog.Stopped, final.err)
	}
}
