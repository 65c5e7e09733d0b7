package streamconsumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// workRanges works on one chunk of what a trim skipped for the group. A server
// that has no memory for a lease keeps the ranges waiting, and nothing else.
func (r *runner) workRanges() error {
	r.advanced = true
	err := r.workOpenRanges()
	if redislog.Classify(err) == redislog.BackPressure {
		r.rangesDue = false
		r.trouble(err)
		return nil
	}
	return err
}

// workOpenRanges works on the lowest range. One member at a time does that,
// under a lease, so that the order is kept.
func (r *runner) workOpenRanges() error {
	ranges, err := r.openRanges()
	if err != nil || len(ranges) == 0 {
		return err
	}
	// The former holder of the lease, and what was finished here and trimmed
	// meanwhile, may have changed what was just read.
	again := r.busy()
	if !r.lease.held(time.Now()) {
		ok, err := r.acquireLease(r.ctx)
		if err != nil {
			return err
		}
		if !ok {
			r.rangesDue = false // a peer works on them
			return nil
		}
		again = true
	}
	// Beside a record that comes from a range, no other of its key may run.
	if err := r.settleBusy(); err != nil || r.halting() || !r.lease.held(time.Now()) {
		return err
	}
	if again {
		if ranges, err = r.openRanges(); err != nil || len(ranges) == 0 {
			return err
		}
	}
	if run := following(ranges); len(run) >= joinFrom {
		return r.ports.log.JoinSkipped(r.ctx, r.cfg.Group, run...)
	}
	return r.workRange(ranges)
}

// busy reports whether handlers run, or what they finished is not acknowledged.
func (r *runner) busy() bool {
	return r.acks.pending() > 0 || r.crew != nil && r.crew.load().held() > 0
}

// settleBusy waits for what runs, and acknowledges it.
func (r *runner) settleBusy() error {
	if err := r.quiesce(); err != nil {
		return err
	}
	return r.flush()
}

// openRanges returns the recorded ranges that may be worked on now, lowest
// first. When there is none, it gives the lease back and rests until the next
// beat.
func (r *runner) openRanges() ([]redislog.SkippedRange, error) {
	all, err := r.listRanges()
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		clear(r.rangeWait)
		r.trouble(nil)
	}
	if len(r.inHand) > len(all) {
		maps.DeleteFunc(r.inHand, func(rg redislog.SkippedRange, _ struct{}) bool { return !slices.Contains(all, rg) })
	}
	if len(all)+len(r.unrecorded) == 0 {
		clear(r.before) // peers did what is not done here
	}
	r.late = firstOwed(all)
	now := time.Now()
	maps.DeleteFunc(r.rangeWait, func(_ redislog.SkippedRange, until time.Time) bool { return !now.Before(until) })
	open := slices.DeleteFunc(all, func(rg redislog.SkippedRange) bool { return now.Before(r.rangeWait[rg]) })
	slices.SortFunc(open, func(a, b redislog.SkippedRange) int {
		return cmp.Or(a.After.Compare(b.After), a.To.Compare(b.To))
	})
	if len(open) == 0 {
		r.rangesDue = false
		r.releaseLease()
	}
	return open, nil
}

// listRanges returns what is recorded. An element that is no range needs a
// person to look at it; everything else goes on meanwhile.
func (r *runner) listRanges() ([]redislog.SkippedRange, error) {
	ranges, err := r.ports.log.SkippedRanges(r.ctx, r.cfg.Group)
	var odd *redislog.SkippedError
	if errors.As(err, &odd) {
		r.odd = err
		r.trouble(err)
		return ranges, nil
	}
	if err == nil {
		r.odd = nil
		r.count.lastReply.Store(time.Now().UnixNano())
	}
	return ranges, err
}

// workRange works on the next chunk of the first of the open ranges.
func (r *runner) workRange(open []redislog.SkippedRange) error {
	rg := open[0]
	if r.ports.arch == nil {
		return r.loseRange(rg, "it was trimmed before the group was given it, and there is no archive")
	}
	if !r.shelf.covers(rg.After) {
		if archived, err := r.fillShelf(open); err != nil {
			return r.postponeRange(rg, err)
		} else if !archived {
			return r.loseRange(rg, "it was trimmed before it was archived")
		}
	}
	r.trouble(nil)
	if !r.lease.held(time.Now()) {
		return nil // it ran out while the archive was read
	}
	records, end := r.shelf.take(rg, r.cfg.Count)
	if isSingle(rg) && len(records) == 0 {
		return r.loseRange(rg, "it was deleted, and the archive does not have it")
	}
	return r.workChunk(rg, end, records)
}

// fillShelf reads what the first of the open ranges begins with. It is false when
// the archive has nothing of it.
func (r *runner) fillShelf(open []redislog.SkippedRange) (archived bool, err error) {
	ctx, cancel := context.WithTimeout(r.ctx, closingTime)
	defer cancel()
	to := reach(open)
	if r.watermark.Less(to) {
		if r.watermark, err = r.ports.arch.Watermark(ctx, r.stream); err != nil {
			return false, err
		}
	}
	if to = archivedPart(redislog.SkippedRange{After: open[0].After, To: to}, r.watermark); to.IsZero() {
		return false, nil
	}
	r.shelf, err = r.readArchive(ctx, archive.Range{After: open[0].After, To: to, AtLeast: to})
	return true, err
}

// trouble reports that skipped ranges cannot be worked on, or that they can be
// again. The rest of the consumer does not depend on them.
func (r *runner) trouble(err error) {
	if err == nil {
		err = r.odd
	}
	if err != nil || r.troubled {
		supervise.Report(r.ctx, err)
	}
	r.troubled = err != nil
}

// readArchive reads the beginning of a range. It is read whole before the first
// handler runs, because a read may hold resources of the archive.
func (r *runner) readArchive(ctx context.Context, rg archive.Range) (shelf, error) {
	s, size := shelf{after: rg.After, to: rg.To}, 0
	for rec, err := range r.ports.arch.Read(ctx, r.stream, rg) {
		if err != nil {
			return shelf{}, err
		}
		s.records = append(s.records, rec)
		size += evtlog.Size(rec.Fields)
		if len(s.records) >= max(shelfRecords, r.cfg.Count) || size >= shelfBytes {
			s.to = rec.ID
			break
		}
	}
	return s, nil
}

// settling is how long a member has, after it has acknowledged an entry that was
// trimmed in its hand, to take it out of the recorded ranges.
const settling = 50 * time.Millisecond

// takeTrimmed makes what is pending of a range up to end this member's. It is
// false when something of that is in somebody's hand, or was a moment ago: then
// it is set aside and looked at again later.
func (r *runner) takeTrimmed(rg redislog.SkippedRange, end evtid.ID) (mine bool, err error) {
	part := redislog.SkippedRange{After: rg.After, To: end}
	taken, busy, err := r.ports.log.TakeTrimmed(r.ctx, r.cfg.Group, r.member(), part, r.cfg.MinIdle, r.hand.keeps)
	r.remember(taken)
	if err != nil {
		return false, err
	}
	_, wasHeld := r.inHand[rg]
	switch decideRange(len(busy), len(taken), wasHeld) {
	case rangeSplit:
		return false, r.setAside(rg, busy)
	case rangeLater:
		delete(r.inHand, rg)
		r.rangeWait[rg] = time.Now().Add(settling)
		return false, nil
	}
	return true, nil
}

// setAside gives the records of a range that are in somebody's hand ranges of
// their own.
func (r *runner) setAside(rg redislog.SkippedRange, held []redislog.PendingEntry) error {
	ids := make([]evtid.ID, len(held))
	for i, p := range held {
		ids[i] = p.ID
		single := singleRange(p.ID)
		r.inHand[single] = struct{}{}
		r.rangeWait[single] = time.Now().Add(r.cfg.MinIdle / 3)
	}
	return r.ports.log.SplitSkipped(r.ctx, r.cfg.Group, rg, ids)
}

// shrink moves the lower bound of a range, or removes the range at its end. A
// stop does not cut it short.
func (r *runner) shrink(rg redislog.SkippedRange, done evtid.ID) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), closingTime)
	defer cancel()
	switch {
	case done == rg.After:
		return nil
	case done == rg.To:
		delete(r.rangeWait, rg)
		return r.ports.log.RemoveSkipped(ctx, r.cfg.Group, rg)
	}
	return r.ports.log.ShrinkSkipped(ctx, r.cfg.Group, rg, done)
}

// release gives a lease back, also when the consumer stops.
func (r *runner) release(what, owner string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), closingTime)
	defer cancel()
	return r.ports.log.ReleaseLease(ctx, what, owner)
}

// postponeRange leaves a range for later: the archive cannot serve it now. New
// entries go on meanwhile; the range is late then, and not lost.
func (r *runner) postponeRange(rg redislog.SkippedRange, err error) error {
	r.rangeWait[rg] = time.Now().Add(r.cfg.RetryMin + r.retryDelay(1))
	if !r.stopping() {
		r.trouble(fmt.Errorf("streamconsumer: archive does not serve the skipped range %s of group %s, it is tried again: %w", rg, r.cfg.Group, err))
	}
	return nil
}

// loseRange reports a range as lost and takes it off the list. What of it is in
// somebody's hand is not lost yet.
func (r *runner) loseRange(rg redislog.SkippedRange, reason string) error {
	if mine, err := r.takeTrimmed(rg, rg.To); err != nil || !mine {
		return err
	}
	r.lose(rg, reason)
	return r.shrink(rg, rg.To)
}

func (r *runner) lose(rg redislog.SkippedRange, reason string) {
	r.count.lost.Add(1)
	r.cfg.Observer.Emit(evtlog.Lost{Stream: r.stream, Group: r.cfg.Group, After: rg.After, To: rg.To, Reason: reason})
}
