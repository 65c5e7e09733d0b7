package supervise

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/evtlog/evtlog"
)

// slot is what the incarnations of one component share. Its child actor, of
// which there is one instance per incarnation, uses it; the branch's actor reads
// final once the child has terminated.
type slot struct {
	branch *Branch
	spec   Spec
	index  int
	parent *actor.PID
	gen    uint64
	final  final
}

// final is how a component ended for good.
type final struct {
	// err is what the last incarnation ended with, nil for a clean end.
	err error
	// finished: it ended by itself, and that was fine.
	finished bool
	// abandoned: it was still running when the stop went on without it.
	abandoned bool
}

// child is the actor in front of one incarnation. The work runs in the pump, a
// goroutine of its own, so that Receive never waits.
type child struct {
	slot     *slot
	gen      uint64
	cancel   context.CancelCauseFunc
	stopping bool
	overdue  *time.Timer
}

// Receive implements actor.Actor.
func (c *child) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		c.start(ctx)
	case pumpEnded:
		c.ended(ctx, m)
	case stopChild:
		c.stop(ctx, m.within)
	case stopOverdue:
		if m.gen == c.gen {
			c.slot.final.abandoned = true
			ctx.Stop(ctx.Self())
		}
	case *actor.Stopping, *actor.Restarting:
		// The library sends one or the other, never both.
		c.release()
	}
}

func (c *child) start(ctx actor.Context) {
	c.slot.gen++
	c.gen = c.slot.gen
	pump := &pump{slot: c.slot, gen: c.gen, root: ctx.ActorSystem().Root, self: ctx.Self()}
	work, cancel := context.WithCancelCause(context.WithValue(context.Background(), reportKey{}, pump.report))
	c.cancel = cancel
	c.slot.branch.enter()
	go pump.run(work)
}

func (c *child) stop(ctx actor.Context, within time.Duration) {
	c.stopping = true
	c.cancel(evtlog.ErrStopped)
	root, self, overdue := ctx.ActorSystem().Root, ctx.Self(), stopOverdue{gen: c.gen}
	c.overdue = time.AfterFunc(within, func() { root.Send(self, overdue) })
}

// ended is told that the pump has returned. Failing with the outcome puts it
// before the branch's strategy, whatever it is; the mailbox catches the panic.
func (c *child) ended(ctx actor.Context, m pumpEnded) {
	switch {
	case m.gen != c.gen:
	case c.stopping:
		c.slot.final.err = m.outcome.err
		ctx.Stop(ctx.Self())
	default:
		panic(failure{gen: m.gen, outcome: m.outcome})
	}
}

func (c *child) release() {
	if c.cancel != nil {
		c.cancel(evtlog.ErrStopped)
	}
	if c.overdue != nil {
		c.overdue.Stop()
	}
}

// pump is the goroutine that does the work of one incarnation.
type pump struct {
	slot  *slot
	gen   uint64
	root  *actor.RootContext
	self  *actor.PID
	ready atomic.Pointer[time.Time]
}

var errGoexit = errors.New("runtime.Goexit in the component")

func (p *pump) run(ctx context.Context) {
	err := errGoexit
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
		out := p.outcome(ctx, err)
		p.slot.branch.leave()
		p.root.Send(p.self, pumpEnded{gen: p.gen, outcome: out})
	}()
	err = p.work(ctx)
}

func (p *pump) work(ctx context.Context) error {
	runner, err := p.slot.spec.New()
	if err != nil {
		return fmt.Errorf("build: %w", err)
	}
	if runner == nil {
		return Terminal(errors.New("build: Spec.New returned no Runner and no error"))
	}
	if ctx.Err() != nil {
		return nil
	}
	return runner.Run(ctx, p.callReady)
}

func (p *pump) callReady() {
	now := time.Now()
	if p.ready.CompareAndSwap(nil, &now) {
		p.root.Send(p.slot.parent, memberReady{index: p.slot.index, gen: p.gen})
	}
}

func (p *pump) report(err error) {
	p.root.Send(p.slot.parent, memberReport{index: p.slot.index, gen: p.gen, err: err})
}

func (p *pump) outcome(ctx context.Context, err error) outcome {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, evtlog.ErrStopped)) {
		err = nil
	}
	o := outcome{err: err}
	if at := p.ready.Load(); at != nil {
		o.ready, o.readyFor = true, time.Since(*at)
	}
	return o
}
