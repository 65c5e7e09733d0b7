package streamconsumer

import (
	"strconv"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// tryTTL is how long the attempts of a record from the archive are remembered.
const tryTTL = 24 * time.Hour

// maxTries is the most attempts that are told apart when there is no limit.
const maxTries = 100

// workChunk works on the first records of a range; end is up to where they are
// all of it.
func (r *runner) workChunk(rg redislog.SkippedRange, end evtid.ID, records []evtlog.Record) error {
	mine, err := r.takeTrimmed(rg, end)
	switch {
	case err != nil || !mine:
		return err
	case isSingle(rg):
		return r.workSingle(rg, records[0])
	case len(records) == 0:
		return r.shrink(rg, end)
	}
	// The lease says that the chunk was begun. Whoever finds it taken knows that
	// the one who did never came to the end: one of the records may be deadly.
	what, owner := "chunk:"+r.cfg.Group+":"+rg.After.Entry(), r.nextOwner()
	first, err := r.ports.log.AcquireLease(r.ctx, what, owner, tryTTL)
	if err != nil {
		return err
	}
	if !first || r.cfg.MaxDeliveries == 1 {
		return r.takeApart(rg, end, records, !first)
	}
	if err := r.workBulk(rg, end, records); err != nil {
		return err
	}
	return r.release(what, owner)
}

// workBulk offers the records of a chunk, and then moves the range's lower bound
// past what was done. A record that fails gets a range of its own, so that it
// holds nothing up.
func (r *runner) workBulk(rg redislog.SkippedRange, end evtid.ID, records []evtlog.Record) error {
	done := rg.After
	for _, rec := range records {
		if r.halting() || !r.lease.held(time.Now()) {
			return r.shrink(rg, done)
		}
		switch r.offerArchived(rec, r.before[rec.ID]+1) {
		case outcomeLeave:
			return r.shrink(rg, done)
		case outcomeRetry:
			if _, err := r.countTry(rec.ID); err != nil {
				return err
			}
			if err := r.ports.log.AddSkipped(r.ctx, r.cfg.Group, singleRange(rec.ID)); err != nil {
				return err
			}
		}
		done = rec.ID
	}
	return r.shrink(rg, end)
}

// workSingle offers the record of a range of its own. Its attempts are counted.
func (r *runner) workSingle(rg redislog.SkippedRange, rec evtlog.Record) error {
	n, err := r.countTry(rec.ID)
	if err != nil {
		return err
	}
	if r.offerArchived(rec, r.before[rec.ID]+n) != outcomeDone {
		return nil
	}
	return r.shrink(rg, rg.To)
}

// takeApart gives each record of a chunk a range of its own, where its attempts
// are counted one by one and what is done stays done. begun says that each may
// have had an attempt that was not counted.
func (r *runner) takeApart(rg redislog.SkippedRange, end evtid.ID, records []evtlog.Record, begun bool) error {
	singles := make([]redislog.SkippedRange, len(records))
	for i, rec := range records {
		singles[i] = singleRange(rec.ID)
		if begun && r.cfg.MaxDeliveries != 1 {
			if _, err := r.countTry(rec.ID); err != nil {
				return err
			}
		}
	}
	if err := r.ports.log.AddSkipped(r.ctx, r.cfg.Group, singles...); err != nil {
		return err
	}
	return r.shrink(rg, end)
}

// offerArchived decides about one record and does it. After outcomeRetry the
// record waits for its back-off once it has a range of its own.
func (r *runner) offerArchived(rec evtlog.Record, attempts int) outcome {
	if f := (entryFacts{attempts: attempts, max: r.cfg.MaxDeliveries}); decideEntry(f) == verdictDeadLetter {
		return r.buryArchived(rec, attempts-1, reasonBefore(f))
	}
	r.count.recovered.Add(1)
	out, failure := r.attempt(rec, attempts, true)
	switch out {
	case outcomeBury:
		out = r.buryArchived(rec, attempts, failure.Error())
	case outcomeRetry:
		r.rangeWait[singleRange(rec.ID)] = time.Now().Add(r.pauseAfter(attempts, failure))
	case outcomeDone:
		delete(r.before, rec.ID)
	}
	return out
}

// buryArchived moves a record to the dead stream. When that does not take it,
// the record is to be tried again.
func (r *runner) buryArchived(rec evtlog.Record, attempts int, reason string) outcome {
	err := r.store(deadLetter{
		id: rec.ID, entry: rec.ID.Entry(), fields: rec.Fields, group: r.cfg.Group,
		reason: reason, attempts: attempts, last: time.Now(),
	})
	if err != nil {
		r.cfg.Logger.Warn("dead letter was not stored; the record stays a skipped range", "id", rec.ID.String(), "err", err)
		r.rangeWait[singleRange(rec.ID)] = time.Now().Add(r.retryDelay(attempts))
		return outcomeRetry
	}
	delete(r.before, rec.ID)
	return outcomeDone
}

// countTry counts an attempt to handle a record that is not pending, so that
// the server counts nothing, and returns its number. Each attempt takes a lease
// that nobody gives back; so the count survives the handler that ends the
// process.
func (r *runner) countTry(id evtid.ID) (int, error) {
	limit := maxTries
	if r.cfg.MaxDeliveries > 0 {
		limit = r.cfg.MaxDeliveries + 1
	}
	for n := 1; n < limit; n++ {
		what := "try:" + r.cfg.Group + ":" + id.String() + ":" + strconv.Itoa(n)
		first, err := r.ports.log.AcquireLease(r.ctx, what, r.nextOwner(), tryTTL)
		if err != nil || first {
			return n, err
		}
	}
	return limit, nil
}

// nextOwner returns a name that no other lease was taken under.
func (r *runner) nextOwner() string {
	r.tries++
	return r.token + "/" + strconv.FormatUint(r.tries, 10)
}
