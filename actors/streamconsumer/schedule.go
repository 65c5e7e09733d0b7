package streamconsumer

import (
	"container/heap"
	"time"

	"github.com/evtlog/evtlog/evtid"
)

// schedule remembers which own pending entries wait for their back-off. It is
// memory only: after a restart every own pending entry is offered at once. It
// holds one small item per failed entry, so at most as many as the handler
// fails before it uses up their attempts. The caller locks.
type schedule struct {
	items map[evtid.ID]retry
	order retryHeap // may hold stale items: the map decides
}

// retry is one waiting entry.
type retry struct {
	id    evtid.ID
	due   time.Time
	first time.Time // when this process saw it fail first
}

// put schedules id, again if it is there already.
func (s *schedule) put(id evtid.ID, now, due time.Time) {
	if s.items == nil {
		s.items = map[evtid.ID]retry{}
	}
	r := retry{id: id, due: due, first: now}
	if old, ok := s.items[id]; ok {
		r.first = old.first
	}
	s.items[id] = r
	heap.Push(&s.order, r)
}

// remove forgets id.
func (s *schedule) remove(id evtid.ID) { delete(s.items, id) }

// waiting reports whether id is not to be offered yet.
func (s *schedule) waiting(id evtid.ID, now time.Time) bool {
	r, ok := s.items[id]
	return ok && r.due.After(now)
}

// firstFailed returns when this process saw id fail first, the zero Time when
// it did not.
func (s *schedule) firstFailed(id evtid.ID) time.Time { return s.items[id].first }

// next returns the earliest due time, the zero Time when nothing waits.
func (s *schedule) next() time.Time {
	for len(s.order) > 0 {
		top := s.order[0]
		if current, ok := s.items[top.id]; ok && current.due.Equal(top.due) {
			return top.due
		}
		heap.Pop(&s.order)
	}
	return time.Time{}
}

// due takes up to limit entries off the clock whose time has come. They stay
// known, and count as not waiting, until put or remove.
func (s *schedule) due(now time.Time, limit int) []evtid.ID {
	var ids []evtid.ID
	for len(ids) < limit {
		next := s.next()
		if next.IsZero() || next.After(now) {
			break
		}
		ids = append(ids, heap.Pop(&s.order).(retry).id)
	}
	return ids
}

// sweep forgets what was due by the given time: after a whole pass over the own
// pending list such an entry is either scheduled anew or gone.
func (s *schedule) sweep(by time.Time) {
	for id, r := range s.items {
		if !r.due.After(by) {
			delete(s.items, id)
		}
	}
}

// clear forgets everything.
func (s *schedule) clear() { s.items, s.order = nil, nil }

// retryHeap is a container/heap of retries, earliest first.
type retryHeap []retry

func (h retryHeap) Len() int           { return len(h) }
func (h retryHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h retryHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *retryHeap) Push(x any)        { *h = append(*h, x.(retry)) }
func (h *retryHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
