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

// workChunk offers the records of a chunk and moves the range's lower bound
// past them. A record that fails gets a range of its own, so that it holds
// nothing up.
func (r *runner) workChunk(rg redislog.SkippedRange, to evtid.ID, records []evtlog.Record) error {
	counted, release, err := r.beginChunk(rg)
	if err != nil {
		return err
	}
	done := rg.After
	for _, rec := range records {
		if r.stopping() || !r.lease.held(time.Now()) {
			break
		}
		ok, err := r.offerArchived(rec, rg, counted)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		done = rec.ID
		if done == records[len(records)-1].ID && len(records) < r.cfg.Count {
			done = to
		}
	}
	if len(records) == 0 {
		done = to
	}
	if err := r.shrink(rg, done); err != nil {
		return err
	}
	return release()
}

// beginChunk finds out whether somebody began this chunk before and did not
// come to its end: then one of its records may be deadly, and the attempts of
// each are counted.
func (r *runner) beginChunk(rg redislog.SkippedRange) (counted bool, release func() error, err error) {
	if isSingle(rg) {
		return true, func() error { return nil }, nil
	}
	what, owner := "chunk:"+r.cfg.Group+":"+rg.After.Entry(), r.nextOwner()
	first, err := r.ports.log.AcquireLease(r.ctx, what, owner, tryTTL)
	return !first, func() error { return r.release(what, owner) }, err
}

// offerArchived offers one record of a range. It is false when the record is
// still to be done under this very range.
func (r *runner) offerArchived(rec evtlog.Record, rg redislog.SkippedRange, counted bool) (bool, error) {
	attempts := r.before[rec.ID] + 1
	if counted {
		n, err := r.countTry(rec.ID)
		if err != nil {
			return false, err
		}
		attempts = r.before[rec.ID] + n
	}
	if f := (entryFacts{attempts: attempts, max: r.cfg.MaxDeliveries}); decideEntry(f) == verdictDeadLetter {
		return r.buryArchived(rec, rg, attempts-1, reasonBefore(f))
	}
	r.count.recovered.Add(1)
	out, failure := r.attempt(rec, attempts, true)
	switch out {
	case outcomeLeave:
		return false, nil
	case outcomeBury:
		return r.buryArchived(rec, rg, attempts, failure.Error())
	case outcomeRetry:
		if !counted {
			if _, err := r.countTry(rec.ID); err != nil {
				return false, err
			}
		}
		return r.carve(rec.ID, rg, attempts)
	}
	delete(r.before, rec.ID)
	return true, nil
}

// buryArchived moves a record of a range to the dead stream.
func (r *runner) buryArchived(rec evtlog.Record, rg redislog.SkippedRange, attempts int, reason string) (bool, error) {
	err := r.store(deadLetter{
		id: rec.ID, entry: rec.ID.Entry(), fields: rec.Fields, group: r.cfg.Group,
		reason: reason, attempts: attempts, last: time.Now(),
	})
	if err != nil {
		r.cfg.Logger.Warn("dead letter was not stored; the record stays a skipped range", "id", rec.ID.String(), "err", err)
		return r.carve(rec.ID, rg, attempts)
	}
	delete(r.before, rec.ID)
	return true, nil
}

// carve gives a failed record a range of its own that waits for its back-off.
// It is false when it already has one.
func (r *runner) carve(id evtid.ID, rg redislog.SkippedRange, attempts int) (bool, error) {
	own := singleRange(id)
	r.rangeWait[own] = time.Now().Add(r.retryDelay(attempts))
	if own == rg {
		return false, nil
	}
	return true, r.ports.log.AddSkipped(r.ctx, r.cfg.Group, own)
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
