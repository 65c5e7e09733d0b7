package supervise

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/evtlog/evtlog"
)

// Branch is a group of components that start, stop and fail together, apart from
// all other branches. Its methods are safe for concurrent use.
type Branch struct {
	system  *System
	node    component
	members []*member

	// started is closed when all components are up or the start has failed, done
	// when nothing runs any more but what was abandoned.
	started, done chan struct{}
	startOnce     sync.Once

	// System.mu guards what follows.

	// live counts the incarnations whose goroutine has not ended.
	live     int
	startErr error
	stopErrs []error
	// abandoned are the paths whose incarnation outlived its stop.
	abandoned []string
	isDone    bool
}

// member is one component. Its fields below node belong to the branch's actor.
type member struct {
	spec  Spec
	index int
	node  component

	pid    *actor.PID
	phase  phase
	beenUp bool
	// gone is the newest generation known to have ended; messages of it and
	// older ones are late and mean nothing.
	gone    uint64
	history history
	pause   *time.Timer
	slot    *slot
}

func newBranch(s *System, name string, order []Spec) *Branch {
	b := &Branch{
		system: s, node: component{path: name, since: time.Now()},
		started: make(chan struct{}), done: make(chan struct{}),
	}
	for i, spec := range order {
		spec = spec.withDefaults()
		node := component{path: name + "/" + spec.Name, since: time.Now(), depth: spec.Depth}
		b.members = append(b.members, &member{spec: spec, index: i, node: node})
	}
	return b
}

// Name returns the path of the branch.
func (b *Branch) Name() string { return b.node.path }

// Stop stops the components in the reverse of their start order and returns when
// the branch has ended and its name is free. Each component has its StopTimeout,
// or its share of the time until ctx's deadline when that is less, so that every
// one is asked to stop before the deadline. Further calls wait for the same end
// and return the same error.
//
// The error is a *StopError when incarnations did not end in time, joined with
// the errors of components that ended with one while stopping.
func (b *Branch) Stop(ctx context.Context) error {
	deadline, _ := ctx.Deadline()
	b.askStop(deadline)
	select {
	case <-b.done:
		return b.stopError()
	default:
	}
	select {
	case <-b.done:
		return b.stopError()
	case <-ctx.Done():
		return b.system.unfinished([]*Branch{b}, context.Cause(ctx))
	}
}

// Done is closed when the branch has ended.
func (b *Branch) Done() <-chan struct{} { return b.done }

func (b *Branch) askStop(deadline time.Time) {
	b.system.actors.Root.Send(b.system.root, stopBranch{branch: b, deadline: deadline})
}

// release lets the waiting Branch call go on. Only the first error counts.
func (b *Branch) release(err error) {
	b.startOnce.Do(func() {
		b.system.mu.Lock()
		b.startErr = err
		b.system.mu.Unlock()
		close(b.started)
	})
}

// finish is called once, when the branch's actor has ended.
func (b *Branch) finish() {
	b.release(b.wrap("start", evtlog.ErrStopped))
	b.system.mu.Lock()
	b.isDone = true
	b.system.forget(b)
	b.system.mu.Unlock()
	close(b.done)
}

// forget frees the name as soon as nothing of the branch runs. s.mu is held.
func (s *System) forget(b *Branch) {
	if b.isDone && b.live == 0 && !s.stopping {
		s.branches = slices.DeleteFunc(s.branches, func(o *Branch) bool { return o == b })
	}
}

// enter and leave bracket every incarnation's goroutine.
func (b *Branch) enter() {
	b.system.mu.Lock()
	b.live++
	b.system.mu.Unlock()
}

func (b *Branch) leave() {
	b.system.mu.Lock()
	b.live--
	b.system.forget(b)
	b.system.mu.Unlock()
}

func (b *Branch) startError() error {
	b.system.mu.Lock()
	defer b.system.mu.Unlock()
	return b.startErr
}

func (b *Branch) stopError() error {
	b.system.mu.Lock()
	defer b.system.mu.Unlock()
	errs := slices.Clone(b.stopErrs)
	if len(b.abandoned) > 0 {
		errs = append(errs, &StopError{Components: slices.Clone(b.abandoned), Err: errAbandoned})
	}
	return joinOne(errs)
}

// running names the components that have not ended, in stop order. s.mu is held.
func (b *Branch) running() []string {
	names := slices.Clone(b.abandoned)
	if b.isDone {
		return names
	}
	for _, m := range slices.Backward(b.members) {
		if m.node.announced && m.node.state != evtlog.Stopped && m.node.state != evtlog.Failed {
			names = append(names, m.node.path)
		}
	}
	return names
}

// notReady is the error of a start whose context ended.
func (b *Branch) notReady(cause error) error {
	b.system.mu.Lock()
	defer b.system.mu.Unlock()
	for _, m := range b.members {
		if m.node.state == evtlog.Ready || m.node.state == evtlog.Stopped {
			continue
		}
		if m.node.err != nil {
			return fmt.Errorf("supervise: start of %s: %s was not ready: %w (its last error: %w)", b.node.path, m.node.path, cause, m.node.err)
		}
		return fmt.Errorf("supervise: start of %s: %s was not ready: %w", b.node.path, m.node.path, cause)
	}
	return b.wrap("start", cause)
}

func (b *Branch) wrap(op string, err error) error {
	return fmt.Errorf("supervise: %s of %s: %w", op, b.node.path, err)
}

func (b *Branch) components() []*component {
	list := []*component{&b.node}
	for _, m := range b.members {
		list = append(list, &m.node)
	}
	return list
}
