package streamconsumer

import (
	"time"

	"github.com/evtlog/evtlog/redislog"
)

// readNew asks for new entries and offers them, and has the server look for the
// next ones meanwhile when that is worth it.
func (r *runner) readNew() error {
	r.advanced = true
	if r.crew != nil {
		return r.readTogether()
	}
	entries, err := r.nextBatch(r.batchCount())
	if err != nil || len(entries) == 0 || r.halting() {
		return err
	}
	r.got = len(entries)
	if !r.ahead() && aheadOf(r.aheadFacts()) > 0 {
		if err := r.readAhead(); err != nil {
			return err
		}
	}
	began := time.Now()
	err = r.offerBatch(entries, nil)
	r.took = time.Since(began)
	return err
}

func (r *runner) aheadFacts() aheadFacts {
	now := time.Now()
	overdue := func(t time.Time) bool { return !t.IsZero() && !now.Before(t) }
	return aheadFacts{
		got: r.got, count: r.batchCount(), took: r.took,
		due: overdue(r.beatAt) || overdue(r.hand.nextRetry()) || overdue(r.redrain),
	}
}

func (r *runner) batchCount() int { return batchCount(r.cfg.Count, r.cfg.MaxDeliveries) }

// nextBatch takes what was read ahead, or reads up to count entries. They are in
// hand then.
func (r *runner) nextBatch(count int) ([]redislog.Entry, error) {
	for more := true; r.next == nil && r.ahead(); more = false {
		if err := r.collect(more); err != nil {
			return nil, err
		}
	}
	if entries := r.next; entries != nil {
		r.next = nil
		return entries, nil
	}
	// A read that carries acknowledgements does not wait, so that one which is
	// ended by a stop never leaves it open whether they were taken. Nor does one
	// beside running handlers, whose acknowledgements are still to come.
	var block time.Duration
	if r.acks.pending() == 0 && (r.crew == nil || r.crew.load().held() == 0) {
		block = blockFor(time.Now(), r.cfg.Block, r.beatAt, r.hand.nextRetry(), r.redrain)
	}
	if block > 0 && !r.gate.park() {
		return nil, nil
	}
	r.sendAcks()
	entries, err := r.reader.ReadNew(count, block)
	r.gate.unpark()
	if err != nil {
		return nil, err
	}
	r.answered()
	r.hand.take(entries, time.Now())
	return entries, nil
}

// readAhead sends the next read with the acknowledgements that are owed, and
// does not wait for its answer.
func (r *runner) readAhead() error {
	r.sendAcks()
	r.aheadAt = append(r.aheadAt, time.Now())
	return r.reader.ReadAhead(r.batchCount())
}

// ahead reports whether reads were sent whose answer was not taken.
func (r *runner) ahead() bool { return len(r.aheadAt) > 0 }

// collect takes the answer of the first read that was sent ahead. The private
// connection takes no other command before; but with more, further reads may be
// sent as soon as the answer is coming, so that the server has something to do
// while the entries are decoded and handled.
func (r *runner) collect(more bool) error {
	if err := r.reader.AwaitAhead(); err != nil {
		return err
	}
	r.answered()
	sentAt := r.aheadAt[0]
	r.aheadAt = append(r.aheadAt[:0], r.aheadAt[1:]...)
	if more {
		for n := aheadOf(r.aheadFacts()); len(r.aheadAt) < n; {
			if err := r.readAhead(); err != nil {
				return err
			}
		}
	}
	entries, err := r.reader.TakeAhead()
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		r.hand.take(entries, sentAt)
		r.next = append(r.next, entries...)
	}
	return nil
}
