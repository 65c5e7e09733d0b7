package streamconsumer

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/redislog"
)

// offerTogether gives entries that are in hand to the workers, in order. It
// waits while they have as much as the member may hold. An entry that may have
// ended a process before is offered while nothing else runs.
func (r *runner) offerTogether(entries []redislog.Entry, attempts []int) error {
	for i := range entries {
		n := 1
		if attempts != nil {
			n = attempts[i]
		}
		suspect := alone(n-1, r.cfg.MaxDeliveries) && r.hand.firstFailed(entries[i].ID).IsZero()
		if err := r.makeRoom(suspect); err != nil || r.halting() {
			return err
		}
		if err := r.enqueue(&entries[i], n); err != nil {
			return err
		}
		if suspect {
			if err := r.quiesce(); err != nil {
				return err
			}
		}
	}
	return nil
}

// enqueue decides about one entry, and gives it to the workers if it is to be
// handled.
func (r *runner) enqueue(e *redislog.Entry, attempts int) error {
	given, err := r.giveUp(e, attempts)
	if given {
		r.hand.leave(e.ID)
		return err
	}
	t := r.hand.enlist(*e, attempts)
	if t == nil {
		return nil
	}
	if r.cfg.Key != nil {
		t.key, t.refused = r.keyOf(r.delivery(e.Record, attempts))
		t.keyed = t.refused == nil
	}
	r.crew.add(t)
	return nil
}

// keyOf contains a panic of the key function: it fails that entry only.
func (r *runner) keyOf(d evtlog.Delivery) (key string, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &supervise.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return r.cfg.Key(d), nil
}

// runTask handles one task, on a worker.
func (r *runner) runTask(t *task) {
	if err := r.mayWork(time.Now()); err != nil {
		t.out, t.fault = outcomeLeave, err
		return
	}
	if unproved(r.hand.taskUnprovedFor(t, time.Now()), r.cfg.MinIdle) {
		if err := r.renew(r.ctx); err != nil {
			t.out, t.fault = outcomeLeave, err
			return
		}
	}
	ctx, ok := r.hand.beginTask(t)
	if !ok {
		t.out = outcomeLeave
		return
	}
	t.err = r.handle(ctx, t.entry.Record, t.attempts, t.refused)
	t.out = r.judge(t.entry.ID, t.attempts, t.err, r.hand.endTask(t))
}

// settleResults does what follows from the outcomes. The pump alone does: it
// owns the connection.
func (r *runner) settleResults() (err error) {
	for _, t := range r.crew.collect() {
		if failed := r.settleTask(t); err == nil {
			err = failed
		}
	}
	return err
}

func (r *runner) settleTask(t *task) error {
	if t.out == outcomeDone {
		r.hand.finish(t)
	} else {
		defer r.hand.leave(t.entry.ID)
	}
	if t.fault != nil {
		return t.fault
	}
	return r.conclude(&t.entry, t.attempts, t.out, t.err)
}

// makeRoom waits until the member may hold another entry; alone: until it holds
// none.
func (r *runner) makeRoom(alone bool) error {
	if alone {
		return r.quiesce()
	}
	for r.crew.load().held() >= r.cfg.Count && !r.halting() {
		if err := r.awaitResults(r.cfg.Block); err != nil {
			return err
		}
	}
	return nil
}

// quiesce waits until the workers have done everything, or the member halts. It
// does nothing where the pump is the only worker.
func (r *runner) quiesce() error {
	if r.crew == nil {
		return nil
	}
	for r.crew.load().held() > 0 && !r.halting() {
		if err := r.awaitResults(r.cfg.Block); err != nil {
			return err
		}
	}
	return nil
}

// awaitResults waits for an outcome, but not longer than d, and sees to it that
// acknowledgements do not wait longer than Block.
func (r *runner) awaitResults(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-r.crew.bell:
	case <-timer.C:
	case <-r.ctx.Done():
	}
	if err := r.settleResults(); err != nil {
		return err
	}
	now := time.Now()
	if now.Sub(r.flushedAt) <= r.cfg.Block {
		return nil
	}
	r.flushedAt = now
	return r.flush()
}

// halting reports whether no further entry is to be begun. A pause that was seen
// is kept in mind until the loop has gone through it, also when it has ended by
// then: what was not begun because of it has to be given back.
func (r *runner) halting() bool {
	r.pausing = r.pausing || r.pause.on.Load() || r.crew != nil && r.crew.wasHalted()
	return r.pausing || r.stopping()
}

// standDown waits for the handlers that run, and does what follows. In a stop
// each acknowledgement is sent at once, because the next handler may outlast the
// time that a stop has.
func (r *runner) standDown() {
	if r.crew == nil {
		return
	}
	r.crew.close()
	for {
		before := r.acks.pending()
		err := r.settleResults()
		if err == nil && r.stopping() && r.acks.pending() > before {
			err = r.flush()
		}
		if err != nil {
			r.cfg.Logger.Debug("settling the last results", "err", err)
		}
		if l := r.crew.load(); l.active+l.done == 0 {
			return
		}
		<-r.crew.bell
	}
}

// readTogether asks for new entries while there is room for them.
func (r *runner) readTogether() error {
	if room := min(roomToRead(r.crew.load(), r.cfg.Workers, r.cfg.Count), r.batchCount()); room > 0 {
		entries, err := r.nextBatch(room)
		if err != nil || r.halting() {
			return err
		}
		r.flushedAt = time.Now()
		if len(entries) > 0 {
			return r.offerBatch(entries, nil)
		}
	}
	if r.crew.load().held() == 0 {
		return nil
	}
	return r.awaitResults(blockFor(time.Now(), pollEvery, r.beatAt, r.hand.nextRetry(), r.redrain))
}

// beginTask makes a task a running delivery. It is false when the entry was lost
// meanwhile.
func (h *hand) beginTask(t *task) (context.Context, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t.lost {
		return nil, false
	}
	ctx, cancel := context.WithCancelCause(h.base)
	t.state, t.cancel = taskRunning, cancel
	return ctx, true
}

// endTask closes it. owned is false when it was lost meanwhile.
func (h *hand) endTask(t *task) (owned bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t.cancel(context.Canceled)
	t.state = taskEnded
	return !t.lost
}
