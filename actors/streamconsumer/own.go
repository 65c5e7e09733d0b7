package streamconsumer

import (
	"slices"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// drain offers what is pending under the own name: one pass by cursor, in
// order, each entry once. What fails is not waited for.
func (r *runner) drain() error {
	if err := r.flush(); err != nil {
		return err
	}
	began, found, stuck := time.Now(), 0, ""
	for after := (evtid.ID{}); ; {
		page, err := r.ownPending(after)
		if err != nil {
			return err
		}
		found += offerable(page)
		if err := r.offerPage(after, page); err != nil || r.halting() {
			return err
		}
		if len(page) < r.cfg.Count {
			break
		}
		if last := lastOf(page); !last.IsZero() {
			after = last
			continue
		}
		// No id of a foreign entry can be a cursor. These are acknowledged by now,
		// unless the dead stream took none of them.
		if page[0].raw == stuck {
			break
		}
		stuck = page[0].raw
	}
	if err := r.quiesce(); err != nil || r.halting() {
		return err
	}
	r.hand.sweep(began)
	r.drained, r.down = true, redislog.SkippedRange{}
	r.reportDrained(found)
	return nil
}

// reportDrained reports the pass after the start in any case, and a later one
// when it found something.
func (r *runner) reportDrained(found int) {
	r.count.drained.Add(int64(found))
	if found > 0 || !r.started {
		r.cfg.Observer.Emit(evtlog.Drained{Stream: r.stream, Group: r.cfg.Group, Consumer: r.member(), Entries: found})
	}
	r.started = true
}

// ownPending lists the next page of the own pending list. Listing, unlike
// reading, does not count as a delivery.
func (r *runner) ownPending(after evtid.ID) ([]listed, error) {
	entries, err := r.ports.log.Pending(r.ctx, r.cfg.Group, after, r.cfg.Count, r.member(), 0)
	if err != nil {
		return nil, err
	}
	page := make([]listed, len(entries))
	for i, e := range entries {
		page[i] = listed{id: e.ID, raw: e.Raw, attempts: e.Attempts}
	}
	r.hand.waiting(page, time.Now())
	return page, nil
}

func offerable(page []listed) (n int) {
	for _, e := range page {
		if !e.waiting {
			n++
		}
	}
	return n
}

// offerPage reads and offers the entries of a page that do not wait.
func (r *runner) offerPage(after evtid.ID, page []listed) error {
	for _, run := range planPage(after, page, r.cfg.MaxDeliveries) {
		if r.halting() {
			return nil
		}
		r.sendAcks()
		entries, err := r.reader.ReadPending(run.after, run.n)
		if err != nil {
			return err
		}
		r.answered()
		if err := r.offerRun(page[run.first:run.first+run.n], entries); err != nil {
			return err
		}
	}
	return nil
}

// offerRun offers what was read of a stretch of the own pending list.
func (r *runner) offerRun(stretch []listed, entries []redislog.Entry) error {
	var (
		here     = entries[:0]
		attempts = make([]int, 0, len(entries))
		skipped  []evtid.ID
	)
	i := 0
	for _, e := range entries {
		// A peer may have taken entries out of the stretch meanwhile; then the read
		// went on behind its end, to entries whose turn comes later.
		for i < len(stretch) && (stretch[i].id != e.ID || stretch[i].raw != e.Raw) {
			i++
		}
		switch {
		case i == len(stretch):
		case decideEntry(entryFacts{foreign: e.Raw != "", missing: e.Missing}) == verdictSkipped:
			skipped = append(skipped, e.ID)
			r.before[e.ID] = stretch[i].attempts
		default:
			here = append(here, e)
			attempts = append(attempts, stretch[i].attempts+1)
		}
	}
	if err := r.skip(skipped); err != nil {
		return err
	}
	r.hand.take(here, time.Now())
	return r.offerBatch(here, attempts)
}

// retryDue offers failed entries whose back-off is over: one page of the own
// pending list from the lowest of them on.
func (r *runner) retryDue() error {
	r.advanced = false
	if err := r.flush(); err != nil {
		return err
	}
	if len(r.overdue) == 0 {
		r.overdue = r.hand.dueRetries(time.Now(), r.cfg.Count)
		slices.SortFunc(r.overdue, evtid.ID.Compare)
	}
	if len(r.overdue) == 0 {
		return nil
	}
	after := r.overdue[0].Prev()
	page, err := r.ownPending(after)
	if err != nil {
		return err
	}
	gone, rest := splitOverdue(r.overdue, page, r.cfg.Count)
	for _, id := range gone {
		r.hand.forget(id) // a peer has it, or finished it
	}
	r.overdue = rest
	return r.offerPage(after, page)
}

// splitOverdue compares ids with a page of the pending list, of at most size
// entries from the lowest id on. gone are those that are not pending any more;
// rest are those that the page says nothing about.
func splitOverdue(overdue []evtid.ID, page []listed, size int) (gone, rest []evtid.ID) {
	here := make(map[evtid.ID]bool, len(page))
	for _, l := range page {
		here[l.id] = true
	}
	last := lastOf(page)
	if len(page) < size || last.IsZero() {
		last = evtid.Max
	}
	for _, id := range overdue {
		switch {
		case last.Less(id):
			rest = append(rest, id)
		case !here[id]:
			gone = append(gone, id)
		}
	}
	return gone, rest
}

// firstCursor is where the sweep over the group's pending list begins, and what
// it has when it has come round.
const firstCursor = ""

// beat takes over entries of dead peers, one step of a sweep whose cursor is
// kept, and lets skipped ranges be looked for.
func (r *runner) beat() error {
	r.advanced = false
	if err := r.flush(); err != nil {
		return err
	}
	step, err := r.ports.log.ClaimIdle(r.ctx, r.cfg.Group, r.member(), r.cfg.MinIdle, r.cursor, r.cfg.Count)
	if err != nil {
		return err
	}
	r.cursor, r.rangesDue = step.Cursor, true
	r.beatAt = time.Now().Add(r.cfg.ClaimEvery)
	if len(step.Claimed) > 0 {
		r.beatAt = time.Now() // there may be more
	}
	r.remember(step.Trimmed)
	r.buryGone(step.Trimmed)
	if err := r.skipDeleted(step.Dropped); err != nil {
		return err
	}
	return r.offerClaimed(step.Claimed)
}

// remember keeps the attempts of entries that are not pending any more.
func (r *runner) remember(entries []redislog.PendingEntry) {
	for _, p := range entries {
		if p.Raw == "" {
			r.before[p.ID] = max(p.Attempts, 1)
		}
	}
}

// offerClaimed offers entries that were taken over. They are in the own pending
// list now.
func (r *runner) offerClaimed(claimed []redislog.PendingEntry) error {
	if len(claimed) == 0 {
		return nil
	}
	if n := r.hand.unknown(claimed); n > 0 {
		r.count.reclaimed.Add(int64(n))
		r.cfg.Observer.Emit(evtlog.Reclaimed{Stream: r.stream, Group: r.cfg.Group, Consumer: r.member(), Entries: n})
	}
	if slices.ContainsFunc(claimed, func(p redislog.PendingEntry) bool { return p.Raw != "" }) {
		r.drained = false // the pass from the very beginning finds them
		return nil
	}
	last := claimed[len(claimed)-1].ID
	for after := claimed[0].ID.Prev(); after.Less(last); {
		page, err := r.ownPending(after)
		if err != nil {
			return err
		}
		if err := r.offerPage(after, page); err != nil || r.halting() {
			return err
		}
		if after = lastOf(page); len(page) < r.cfg.Count || after.IsZero() {
			return nil
		}
	}
	return nil
}
