package streamconsumer

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// offerBatch offers entries that are in hand, in order. attempts[i] counts the
// deliveries of entry i, this one included; nil means 1 for all.
func (r *runner) offerBatch(entries []redislog.Entry, attempts []int) error {
	if r.crew != nil {
		return r.offerTogether(entries, attempts)
	}
	r.flushedAt = time.Now()
	for i := range entries {
		n := 1
		if attempts != nil {
			n = attempts[i]
		}
		if err := r.keepUp(time.Now()); err != nil || r.halting() {
			return err
		}
		if err := r.offer(&entries[i], n); err != nil {
			return err
		}
		r.hand.offered()
	}
	return nil
}

// keepUp does between two entries of a batch what slow handlers make necessary:
// acknowledgements do not wait longer than Block, and an entry that a peer may
// have taken meanwhile is not offered before that was looked at.
func (r *runner) keepUp(now time.Time) error {
	if err := r.mayWork(now); err != nil {
		return err
	}
	if now.Sub(r.flushedAt) > r.cfg.Block {
		if err := r.flush(); err != nil {
			return err
		}
		r.flushedAt = now
	}
	if unproved(r.hand.unprovedFor(now), r.cfg.MinIdle) {
		return r.renew(r.ctx)
	}
	return nil
}

// offer decides about one entry and does it.
func (r *runner) offer(e *redislog.Entry, attempts int) error {
	if given, err := r.giveUp(e, attempts); given {
		return err
	}
	out, err := r.attempt(e.Record, attempts, false)
	return r.conclude(e, attempts, out, err)
}

// giveUp buries an entry that is not to be offered. It is false when it is.
func (r *runner) giveUp(e *redislog.Entry, attempts int) (given bool, err error) {
	f := entryFacts{foreign: e.Raw != "", attempts: attempts, max: r.cfg.MaxDeliveries}
	if decideEntry(f) == verdictDeadLetter {
		if !f.foreign {
			attempts-- // this delivery is not one to the handler
		}
		return true, r.bury(e, attempts, reasonBefore(f))
	}
	if e.Unbranded {
		r.cfg.Observer.Emit(evtlog.Unbranded{Stream: r.stream, ID: e.ID, Stored: e.Stored})
	}
	return false, nil
}

// conclude does what follows from the outcome of an attempt, which failed with
// err.
func (r *runner) conclude(e *redislog.Entry, attempts int, out outcome, err error) error {
	switch out {
	case outcomeDone:
		if attempts > 1 {
			r.hand.forget(e.ID)
		}
		r.acks.owed = append(r.acks.owed, e.ID)
	case outcomeRetry:
		r.postpone(e, r.pauseAfter(attempts, err))
	case outcomeBury:
		return r.bury(e, attempts, err.Error())
	}
	return nil
}

// attempt calls the handler. leased says that the record comes from a skipped
// range, which is owned by lease. The error is the handler's.
func (r *runner) attempt(rec evtlog.Record, attempts int, leased bool) (outcome, error) {
	ctx, ok := r.hand.begin(rec.ID, leased)
	if !ok {
		return outcomeLeave, nil
	}
	err := r.handle(ctx, rec, attempts, nil)
	return r.judge(rec.ID, attempts, err, r.hand.end()), err
}

// handle counts a delivery and calls the handler, unless it was refused before.
func (r *runner) handle(ctx context.Context, rec evtlog.Record, attempts int, refused error) error {
	r.count.delivered.Add(1)
	if attempts > 1 {
		r.count.redelivered.Add(1)
	}
	if refused != nil {
		return refused
	}
	return r.call(ctx, r.delivery(rec, attempts))
}

func (r *runner) delivery(rec evtlog.Record, attempts int) evtlog.Delivery {
	return evtlog.Delivery{Record: rec, Stream: r.stream, Group: r.cfg.Group, Attempts: attempts}
}

// judge decides what to do after an attempt that ended with err.
func (r *runner) judge(id evtid.ID, attempts int, err error, owned bool) outcome {
	out := decideOutcome(attemptFacts{
		failed: err != nil, dead: isDead(err), owned: owned, stopping: r.stopping(),
		attempts: attempts, max: r.cfg.MaxDeliveries,
	})
	if err != nil && out != outcomeLeave {
		r.count.failed.Add(1)
		var panicked *supervise.PanicError
		r.cfg.Observer.Emit(evtlog.HandlerFailed{
			Stream: r.stream, Group: r.cfg.Group, ID: id,
			Attempts: attempts, Panicked: errors.As(err, &panicked), Err: err,
		})
	}
	return out
}

// call contains a panic of the handler.
func (r *runner) call(ctx context.Context, d evtlog.Delivery) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &supervise.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return r.cfg.Handler(ctx, d)
}

// postpone schedules an entry for its next attempt, after a pause.
func (r *runner) postpone(e *redislog.Entry, pause time.Duration) {
	now := time.Now()
	due := now.Add(pause)
	if e.Raw != "" {
		r.redrain = due // it has no id to be remembered by
		return
	}
	r.hand.postpone(e.ID, now, due)
}

// retryDelay returns the pause after the given number of attempts.
func (r *runner) retryDelay(attempts int) time.Duration {
	backoff := supervise.Backoff{Min: r.cfg.RetryMin, Max: r.cfg.RetryMax}
	return backoff.Delay(max(attempts-1, 0), r.ports.rnd())
}

// pauseAfter returns the pause after an attempt that failed with err.
func (r *runner) pauseAfter(attempts int, err error) time.Duration {
	if pause, ok := askedPause(err); ok {
		return pause
	}
	return r.retryDelay(attempts)
}

// reasonBefore says why an entry is given up without another attempt.
func reasonBefore(f entryFacts) string {
	if f.foreign {
		return "it stands at a position that no EVT id has; a foreign writer put it there"
	}
	return fmt.Sprintf("it was delivered %d times and never acknowledged", f.attempts-1)
}
