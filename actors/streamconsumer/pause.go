package streamconsumer

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/evtid"
)

// ErrPaused is why a paused consumer shows as evtlog.Degraded in the tree. Resume
// ends it.
var ErrPaused = errors.New("paused on request")

// Pause makes the consumer finish the deliveries that run, acknowledge them, and
// read nothing more until Resume. It returns at once; Stats.Paused says when the
// consumer is at rest, which takes as long as the running handlers, and up to
// Block when a read is parked.
//
// What was read and not begun stays pending and is given back: the next member
// that looks for entries of silent peers takes it, and if none does, it is
// offered here after Resume. An entry that waits for its back-off stays here
// until that is over, and is then given back as well. The pause outlives
// restarts by the supervisor, and ends with the process. Pausing twice is the
// same as once.
func (c *Consumer) Pause() { c.pause.set(true) }

// Resume ends a pause. Without one it does nothing.
func (c *Consumer) Resume() { c.pause.set(false) }

// Pausing reports whether a pause was asked for and has not ended. Stats.Paused
// says whether the consumer is at rest.
func (c *Consumer) Pausing() bool { return c.pause.on.Load() }

// pauseSwitch is whether a consumer is to rest. The zero value is off.
type pauseSwitch struct {
	on atomic.Bool // mu is held over changes; the pump looks before each entry

	mu      sync.Mutex
	rests   bool // the consumer is at rest
	changed chan struct{}
}

func (p *pauseSwitch) set(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.on.Swap(on) == on {
		return
	}
	p.rests = false
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// state returns whether the switch is on, and a channel that is closed at the
// next change.
func (p *pauseSwitch) state() (on bool, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.on.Load(), p.changed
}

// rest notes that the consumer is at rest, or not any more.
func (p *pauseSwitch) rest(rests bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rests = rests && p.on.Load()
}

func (p *pauseSwitch) atRest() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rests
}

// restWhilePaused is what the loop does in place of everything else while the
// consumer is paused.
func (r *runner) restWhilePaused() error {
	if err := r.settleAll(); err != nil {
		return err
	}
	if err := r.yieldBatch(); err != nil {
		return err
	}
	r.releaseLease()
	r.pausing = false
	supervise.Report(r.ctx, ErrPaused)
	defer r.pause.rest(false)
	for !r.stopping() {
		on, changed := r.pause.state()
		r.pause.rest(on)
		if !on {
			r.drained = false // what nobody took is offered first
			supervise.Report(r.ctx, nil)
			r.troubled = false
			return nil
		}
		if err := r.yieldOverdue(); err != nil {
			return err
		}
		r.awaitChange(changed)
	}
	return nil
}

// settleAll waits for the workers' running handlers, and acknowledges everything
// that is done.
func (r *runner) settleAll() error {
	if r.crew != nil {
		r.crew.close()
		defer r.crew.open()
		for l := r.crew.load(); l.active+l.done > 0 && !r.stopping(); l = r.crew.load() {
			if err := r.awaitResults(r.cfg.Block); err != nil {
				return err
			}
		}
	}
	return r.flush()
}

// yieldBatch gives back what was read and not offered.
func (r *runner) yieldBatch() error {
	return r.yield(r.putDown())
}

// pageOfRetries is how many of them are given back at once.
const pageOfRetries = 1000

// yieldOverdue gives back failed entries whose back-off is over.
func (r *runner) yieldOverdue() error {
	ids := append(r.overdue, r.hand.dueRetries(time.Now(), pageOfRetries)...)
	if len(ids) == 0 {
		return nil
	}
	if err := r.yield(ids); err != nil {
		return err
	}
	r.overdue = nil
	for _, id := range ids {
		r.hand.forget(id)
	}
	return nil
}

func (r *runner) yield(ids []evtid.ID) error {
	if len(ids) == 0 {
		return nil
	}
	return r.ports.log.Yield(r.ctx, r.cfg.Group, r.member(), ids, r.cfg.MinIdle)
}

// awaitChange waits for the switch, the stop, or the end of a back-off.
func (r *runner) awaitChange(changed <-chan struct{}) {
	var due <-chan time.Time
	if next := r.hand.nextRetry(); !next.IsZero() {
		timer := time.NewTimer(time.Until(next))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-changed:
	case <-due:
	case <-r.ctx.Done():
	}
}
