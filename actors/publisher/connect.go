package publisher

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// reconnect is the pause between two connections: short at first, because callers
// wait, and never a hot loop; on average less than one dial a second while the
// server is away.
func reconnect(attempt int) time.Duration {
	return supervise.Backoff{Min: 20 * time.Millisecond, Max: 3 * time.Second}.Delay(attempt, rand.Float64())
}

// watermarkPatience bounds one question to the archive while connecting.
const watermarkPatience = 5 * time.Second

// connect returns when there is a connection and everything that was in doubt is
// settled. It tries again until ctx ends or the refusal is one that only a
// person can end; that error is terminal.
func (u *pump) connect(ctx context.Context, ready func()) error {
	for {
		if u.attempts > 0 {
			if err := supervise.Wait(ctx, reconnect(u.attempts-1)); err != nil {
				return err
			}
		}
		u.attempts++
		err := u.establish(ctx)
		if err == nil {
			ready()
			if !u.refusing {
				u.report(ctx, nil)
			}
			return nil
		}
		u.hangUp()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if isTerminal(err) {
			return supervise.Terminal(fmt.Errorf("publisher: %s: %w", u.p.name, err))
		}
		u.p.cfg.Logger.Warn("append connection not ready", "stream", u.p.name, "attempt", u.attempts, "error", err)
		u.report(ctx, err)
	}
}

func isTerminal(err error) bool {
	return supervise.IsTerminal(err) || redislog.Classify(err) == redislog.Terminal
}

// establish connects once: dial, compare the server with what is known, make
// later ids rise above it, settle.
func (u *pump) establish(ctx context.Context) error {
	w, err := u.p.stream.newWriter(ctx)
	if err != nil {
		return err
	}
	u.w = w
	top, err := u.p.stream.Last(ctx)
	if err != nil {
		return err
	}
	mark, err := u.watermark(ctx, top)
	if err != nil {
		return err
	}
	u.mark = later(u.mark, mark)
	if err := u.orient(arrival{First: !u.connected, Top: top, Watermark: mark, Known: u.known, Minted: u.minted}); err != nil {
		return err
	}
	return u.settleAll(ctx)
}

// watermark asks the archive. Its answer is needed to seed the first id, and to
// tell a loss from an archived stream that was deleted; otherwise what this
// writer minted is above it anyway.
func (u *pump) watermark(ctx context.Context, top evtid.ID) (evtid.ID, error) {
	if u.p.archive == nil {
		return evtid.ID{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, watermarkPatience)
	defer cancel()
	mark, err := u.p.archive.Watermark(ctx, u.p.name)
	if err == nil || u.connected && !top.Less(u.known) {
		return mark, nil
	}
	return mark, fmt.Errorf("read the archive's watermark of %s: %w", u.p.name, err)
}

func (u *pump) orient(a arrival) error {
	b := arrive(a)
	if u.census = u.census.carried(); a.First || b.Lost {
		u.census = census{added: uncounted}
	}
	if b.Second {
		u.reportSecond(a.Minted, b.Seed)
	}
	if b.Lost {
		u.p.cfg.Observer.Emit(evtlog.Lost{
			Stream: u.p.name, After: b.Known, To: a.Known,
			Reason: "the server's stream ends before records that it had accepted: a failover or restart lost them, or the stream was deleted",
		})
	}
	u.known = b.Known
	u.above = later(u.above, b.Seed)
	u.p.clock.tick()
	if err := u.p.minter.Seed(u.above); err != nil {
		if a.First {
			return supervise.Terminal(err)
		}
		// Appends are refused with this error until the clock has caught up.
		return nil
	}
	u.above, u.connected = evtid.ID{}, true
	return nil
}

// settleAll finds out what became of each record whose answer was lost, in id
// order, and sends again what the server never got.
func (u *pump) settleAll(ctx context.Context) error {
	defer func() {
		u.p.stats.unsettled.Store(int64(len(u.unsettled)))
		u.nudge()
		u.turn.release(u.p)
	}()
	for _, it := range u.unsettled {
		if isForeign(it.verdict) {
			// Of another connection.
			it.verdict = nil
		}
	}
	for len(u.unsettled) > 0 {
		it := u.unsettled[0]
		next, top, err := u.p.examine(ctx, it.id, u.mark, func(r evtlog.Record) bool { return sameFields(r, it.fields) })
		if err != nil {
			return err
		}
		if next == resend {
			if isForeign(it.verdict) {
				return errTwoServers
			}
			if err := u.resend(); err != nil {
				return err
			}
			continue
		}
		u.unsettled = u.unsettled[1:]
		u.conclude(it, next, top)
	}
	u.unsettled = nil
	return nil
}

// conclude delivers what the settlement found.
func (u *pump) conclude(it *item, found step, top evtid.ID) {
	switch found {
	case commit:
		u.commit(it, -1)
	case unknowable:
		u.abandon(it, errTrimmed)
	default:
		if found == rejectOther {
			u.reportSecond(it.id, top)
		}
		u.refuse(it, u.whyRejected(it, found, top))
	}
}

// whyRejected prefers the second writer as the reason, when the top is none of
// this writer's ids.
func (u *pump) whyRejected(it *item, found step, top evtid.ID) error {
	if found == reject && u.minted.Less(top) {
		return &evtlog.NonMonotonicError{Stream: u.p.name, ID: it.id, Top: top}
	}
	return rejection(u.p.name, it.id, found, it.verdict)
}

// rejection is the error of an id that is not in the log and will not be.
// refusal is what the server answered to the last attempt, when it did.
func rejection(stream evtlog.StreamName, id evtid.ID, found step, refusal error) error {
	reason := errAbsent
	switch {
	case found == rejectOther:
		reason = fmt.Errorf("%w: %w", errOtherBody, evtlog.ErrNonMonotonic)
	case refusal != nil && !isForeign(refusal):
		reason = refusal
	}
	return &evtlog.RejectedError{Stream: stream, ID: id, Err: reason}
}

// resend sends a flush of the unsettled records again, under their ids. What is
// refused stays unsettled: the refusal is of this copy, and the first one may
// still arrive.
func (u *pump) resend() error {
	n, size := 0, 0
	for _, it := range u.unsettled {
		if size += it.size; n == u.p.cfg.MaxBatch || n > 0 && size > maxFlushBytes {
			break
		}
		u.w.Append(it.id, it.fields)
		n++
	}
	if u.p.cfg.Replicas > 0 {
		u.w.Wait(u.p.cfg.Replicas, u.p.cfg.ReplicaTimeout)
	}
	if err := u.w.Flush(); err != nil {
		return err
	}
	return u.receiveResent(n)
}

func (u *pump) receiveResent(n int) error {
	accepted := make([]bool, n)
	for i, it := range u.unsettled[:n] {
		err := u.w.ReceiveAppend(it.id)
		if err != nil && isLost(err) {
			return err
		}
		it.verdict, accepted[i] = err, err == nil
	}
	acked := 0
	if u.p.cfg.Replicas > 0 {
		confirmed, err := u.w.ReceiveInt()
		if err != nil && isLost(err) {
			return err
		}
		acked = int(confirmed)
	}
	var refusal error
	var committed, kept []*item
	for i, it := range u.unsettled[:n] {
		switch {
		case accepted[i]:
			committed = append(committed, it)
			continue
		case !isForeign(it.verdict):
			refusal = it.verdict
		}
		kept = append(kept, it)
	}
	u.unsettled = append(kept, u.unsettled[n:]...)
	for _, it := range committed {
		u.commit(it, acked)
	}
	// A refusal such as out of memory is answered with a pause.
	return refusal
}

// end finishes an incarnation that was told to stop, or that err has ended for
// good. What is open is tried once more, then everybody is told.
func (u *pump) end(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = evtlog.ErrStopped
		u.lastTry(ctx)
	}
	u.p.inbox.close(err)
	u.ground()
	open := len(u.unsettled)
	for _, it := range u.unsettled {
		u.abandon(it, fmt.Errorf("%w: %w", errStopping, err))
	}
	u.unsettled = nil
	for taken := u.p.inbox.take(nil, u.p.cfg.MaxBatch, maxFlushBytes); len(taken) > 0; taken = u.p.inbox.take(nil, u.p.cfg.MaxBatch, maxFlushBytes) {
		for _, it := range taken {
			u.refuse(it, refused(u.p.name, err))
		}
	}
	u.p.stats.unsettled.Store(0)
	u.turn.release(u.p)
	if errors.Is(err, evtlog.ErrStopped) && open > 0 {
		return fmt.Errorf("publisher: %s stopped with %d appends uncertain; settle them with Resolve", u.p.name, open)
	}
	return err
}

// lastTry settles what is open when the stop was asked for, within its own time.
func (u *pump) lastTry(ctx context.Context) {
	if len(u.unsettled) == 0 {
		return
	}
	try, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTry)
	defer cancel()
	if err := u.establish(try); err != nil {
		u.p.cfg.Logger.Warn("appends could not be settled before the stop", "stream", u.p.name, "open", len(u.unsettled), "error", err)
		return
	}
	// Whatever ends this, what is left is told to be uncertain.
	_ = u.serve(ctx)
}
