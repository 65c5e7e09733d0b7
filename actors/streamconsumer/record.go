package streamconsumer

import (
	"time"

	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// skip turns pending entries whose body was trimmed into skipped ranges of the
// group, and only then acknowledges them: from there on whoever works on the
// ranges hands them out, or reports them as lost.
func (r *runner) skip(ids []evtid.ID) error {
	if len(ids) == 0 {
		return nil
	}
	recorded, err := r.record(ids)
	if err != nil {
		return err
	}
	if !recorded {
		now := time.Now()
		for _, id := range ids {
			r.hand.postpone(id, now, now.Add(r.cfg.RetryMin))
		}
		return nil
	}
	for _, id := range ids {
		r.hand.forget(id)
		r.acks.setAside(id)
	}
	r.acks.owed = append(r.acks.owed, ids...)
	return r.flush()
}

// skipDeleted does the same for entries that the server has already dropped
// from the pending list, so that only its answer knew them. They are kept in
// mind until they are recorded.
func (r *runner) skipDeleted(entries []redislog.PendingEntry) error {
	r.remember(entries)
	r.buryGone(entries)
	for _, p := range entries {
		if p.Raw == "" {
			r.unrecorded = append(r.unrecorded, p.ID)
		}
	}
	if len(r.unrecorded) == 0 {
		return nil
	}
	recorded, err := r.record(r.unrecorded)
	if recorded {
		r.unrecorded = nil
	}
	return err
}

// buryGone stores a dead letter for each foreign entry among those that are not
// pending any more and have no body: no range can hold it, and nothing else would
// tell of it.
func (r *runner) buryGone(entries []redislog.PendingEntry) {
	for _, p := range entries {
		if p.Raw == "" {
			continue
		}
		err := r.store(deadLetter{
			entry: p.Raw, group: r.cfg.Group, attempts: max(p.Attempts, 1), last: time.Now(),
			reason: reasonBefore(entryFacts{foreign: true}) + "; it was deleted or trimmed while it was pending",
		})
		if err != nil {
			r.cfg.Logger.Warn("a pending foreign entry is gone, and no dead letter could be stored", "entry", p.Raw, "err", err)
		}
	}
}

// record makes sure that a recorded range holds each of the ids. It is false
// when the server has no memory for it now.
func (r *runner) record(ids []evtid.ID) (bool, error) {
	ranges, err := r.listRanges()
	if err != nil {
		return false, err
	}
	if missing := uncovered(ids, ranges); len(missing) > 0 {
		err := r.ports.log.AddSkipped(r.ctx, r.cfg.Group, missing...)
		if redislog.Classify(err) == redislog.BackPressure {
			r.cfg.Logger.Warn("trimmed entries could not be recorded; they are tried again", "entries", len(missing), "err", err)
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	r.rangesDue = true
	return true, nil
}
