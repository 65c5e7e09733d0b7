package streamconsumer

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// hand is what a member holds at the moment: the batch it works through, the
// failed entries that wait, and the one delivery that runs. The pump writes
// it; renewal and Cancel look at it from other goroutines.
type hand struct {
	// base is the parent of the handlers' contexts; it ends when the consumer stops.
	base context.Context

	mu    sync.Mutex
	batch []evtid.ID // in the order of offering; zero for foreign entries
	done  int        // batch[:done] was offered
	lost  map[evtid.ID]struct{}
	retry schedule
	// seen is when the ownership of the batch was last proved, nil never. It is no
	// number, for the wall clock may be set back. takes counts the batches, because a
	// proof is good for those it was asked about.
	seen  atomic.Pointer[time.Time]
	takes int

	// tasks is everything in hand of a member with several workers, which uses it
	// in place of batch; nil with one worker. A proof counts for what was taken up
	// to the provedTakes-th time.
	tasks       map[evtid.ID]*task
	provedAt    time.Time
	provedTakes int

	running  bool
	id       evtid.ID // of the running delivery
	leased   bool     // it is owned by lease and not by the pending list
	disowned bool     // the lease was lost while it ran
	// ctx is shared by the deliveries of one batch, until one of them is
	// cancelled: a context of its own for each would cost more than all the rest.
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// take adds entries to the batch. at is when their ownership was proved.
func (h *hand) take(entries []redislog.Entry, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tasks != nil {
		h.takeTasks(entries, at)
		return
	}
	for i := range entries {
		h.batch = append(h.batch, entries[i].ID)
		if h.lost != nil {
			delete(h.lost, entries[i].ID)
		}
	}
	h.seen.Store(&at)
	h.takes++
	h.endScope(context.Canceled)
}

// begin makes id the running delivery and returns its context. It is false when
// the entry was lost meanwhile.
func (h *hand) begin(id evtid.ID, leased bool) (context.Context, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, lost := h.lost[id]; lost && !leased {
		return nil, false
	}
	if h.ctx == nil {
		h.ctx, h.cancel = context.WithCancelCause(h.base)
	}
	h.running, h.id, h.leased, h.disowned = true, id, leased, false
	return h.ctx, true
}

// end closes the running delivery. owned is false when it was lost meanwhile.
func (h *hand) end() (owned bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running = false
	if h.leased {
		return !h.disowned
	}
	_, lost := h.lost[h.id]
	return !lost
}

// offered moves on to the next entry of the batch.
func (h *hand) offered() {
	h.mu.Lock()
	h.done++
	h.mu.Unlock()
}

// rest drops the part of the batch that was not offered.
func (h *hand) rest() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.restTasks()
	h.batch = h.batch[:h.done]
	h.endScope(context.Canceled)
}

// describe fills in what Stats says about the work in hand.
func (h *hand) describe(s *Stats) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.InHand, s.Waiting = len(h.batch)-h.done, len(h.retry.items)
	if h.running {
		s.Handling, s.Running = h.id, 1
	}
	h.describeTasks(s)
}

// offeredSoFar returns how many entries of the batch were offered.
func (h *hand) offeredSoFar() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.done
}

// settled forgets the first n entries of the batch, whose acknowledgements were
// confirmed.
func (h *hand) settled(n int) {
	if n == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range h.batch[:n] {
		if h.lost == nil {
			break
		}
		delete(h.lost, id)
	}
	h.batch = append(h.batch[:0], h.batch[n:]...)
	h.done -= n
}

// abort cancels the delivery of id if that is the one that runs.
func (h *hand) abort(id evtid.ID, cause error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.running && h.id == id {
		h.endScope(cause)
		return true
	}
	t := h.tasks[id]
	if t == nil || t.state != taskRunning {
		return false
	}
	t.cancel(cause)
	return true
}

// disown cancels the running delivery if it was owned by a lease.
func (h *hand) disown() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.running && h.leased {
		h.disowned = true
		h.endScope(errNotOwner(h.id))
	}
}

// endScope cancels the shared context; the next delivery gets a new one. The
// caller locks.
func (h *hand) endScope(cause error) {
	if h.cancel != nil {
		h.cancel(cause)
	}
	h.ctx, h.cancel = nil, nil
}

// drop forgets everything, and returns the lowest and the highest entry that
// was still owed, zero when there was none.
func (h *hand) drop() (lowest, highest evtid.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	owed := slices.DeleteFunc(slices.Clone(h.batch[h.done:]), evtid.ID.IsZero)
	for id := range h.retry.items {
		owed = append(owed, id)
	}
	owed = append(owed, h.dropTasks()...)
	h.batch, h.done, h.lost = h.batch[:0], 0, nil
	h.retry.clear()
	h.endScope(context.Canceled)
	if len(owed) == 0 {
		return evtid.ID{}, evtid.ID{}
	}
	return slices.MinFunc(owed, evtid.ID.Compare), slices.MaxFunc(owed, evtid.ID.Compare)
}

// question is what a renewal asks about.
type question struct {
	ids   []evtid.ID // in order, each once
	at    time.Time
	takes int
}

// held returns everything that is to be renewed.
func (h *hand) held() question {
	h.mu.Lock()
	defer h.mu.Unlock()
	q := question{at: time.Now(), takes: h.takes}
	for _, id := range h.batch {
		if _, lost := h.lost[id]; !lost && !id.IsZero() {
			q.ids = append(q.ids, id)
		}
	}
	for id, t := range h.tasks {
		if !t.lost {
			q.ids = append(q.ids, id)
		}
	}
	for id := range h.retry.items {
		q.ids = append(q.ids, id)
	}
	slices.SortFunc(q.ids, evtid.ID.Compare)
	q.ids = slices.Compact(q.ids)
	return q
}

// renewed takes the answer to a renewal: what is not still owned was lost to a
// peer. It returns how many entries were lost that still mattered.
func (h *hand) renewed(q question, still []evtid.ID) (lost int) {
	owned := make(map[evtid.ID]struct{}, len(still))
	for _, id := range still {
		owned[id] = struct{}{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range q.ids {
		if _, ok := owned[id]; !ok && h.lose(id) {
			lost++
		}
	}
	if h.provedAt.Before(q.at) {
		h.provedAt, h.provedTakes = q.at, q.takes
	}
	if seen := h.seen.Load(); q.takes == h.takes && (seen == nil || seen.Before(q.at)) {
		h.seen.Store(&q.at)
	}
	return lost
}

// lose marks id as lost. It is false when nothing depends on it any more: it
// was acknowledged while the question was on its way. The caller locks.
func (h *hand) lose(id evtid.ID) bool {
	_, waits := h.retry.items[id]
	h.retry.remove(id)
	if t := h.tasks[id]; t != nil {
		return h.loseTask(t) || waits
	}
	if i := slices.Index(h.batch, id); i >= 0 {
		if h.lost == nil {
			h.lost = map[evtid.ID]struct{}{}
		}
		h.lost[id] = struct{}{}
		if h.running && h.id == id {
			h.endScope(errNotOwner(id))
		}
		return waits || i >= h.done
	}
	return waits
}

// postpone schedules id for another attempt.
func (h *hand) postpone(id evtid.ID, now, due time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.retry.put(id, now, due)
}

// forget takes id out of the schedule.
func (h *hand) forget(id evtid.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.retry.remove(id)
}

// firstFailed returns when id failed first, the zero Time when it did not.
func (h *hand) firstFailed(id evtid.ID) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.retry.firstFailed(id)
}

// unknown counts the entries that are not scheduled here.
func (h *hand) unknown(entries []redislog.PendingEntry) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range entries {
		if _, ok := h.retry.items[entries[i].ID]; !ok {
			n++
		}
	}
	return n
}

// keeps reports whether an entry waits here for its next attempt, or is at work.
func (h *hand) keeps(id evtid.ID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, waits := h.retry.items[id]
	return waits || h.tasks[id] != nil || slices.Contains(h.batch[h.done:], id)
}

// nextRetry returns when the next entry has waited long enough, the zero Time
// when none waits.
func (h *hand) nextRetry() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.retry.next()
}

// dueRetries takes up to limit entries whose back-off is over.
func (h *hand) dueRetries(now time.Time, limit int) []evtid.ID {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.retry.due(now, limit)
}

// sweep forgets retries that were due by the given time and were not seen in a
// whole pass over the own pending list.
func (h *hand) sweep(by time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.retry.sweep(by)
}

// waiting says of each listed entry whether its back-off is still on, or a worker
// has it.
func (h *hand) waiting(page []listed, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range page {
		_, busy := h.tasks[page[i].id]
		page[i].waiting = busy || h.retry.waiting(page[i].id, now)
	}
}

// unprovedFor returns for how long the ownership of the batch was not proved.
func (h *hand) unprovedFor(now time.Time) time.Duration {
	if seen := h.seen.Load(); seen != nil {
		return now.Sub(*seen)
	}
	return math.MaxInt64
}
