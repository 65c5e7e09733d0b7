package publisher

import (
	"container/list"
	"context"
	"sync"

	"github.com/evtlog/evtlog"
)

// inbox is the bounded queue in front of the pump: first in, first out, charged
// in bytes from the moment a request is admitted until its records are settled.
// Requests that find no room wait for it in order, each in its caller's
// goroutine; when too many wait, further ones are refused.
type inbox struct {
	stream evtlog.StreamName
	limits limits
	// wake tells the parked pump that there is something to take.
	wake chan struct{}

	mu         sync.Mutex
	head, tail *request
	queued     int       // records not taken
	used       int       // bytes charged
	waiting    list.List // of *waiter, in the order they came
	parked     bool
	// vacant is true while a parked pump lets callers have the seat.
	vacant bool
	closed error

	// seat is held by whoever does the pump's work: the pump, unless it is parked,
	// or a caller. q.mu may be held when it is tried, never while waiting for it.
	seat sync.Mutex
}

// limits are the bounds of an inbox: bytes of records, and callers that wait.
type limits struct{ bytes, callers int }

func newInbox(stream evtlog.StreamName, l limits) *inbox {
	return &inbox{stream: stream, limits: l, wake: make(chan struct{}, 1)}
}

// entry is what became of a request at the door.
type entry uint8

const (
	// noRoom: nothing was done; admit, then push.
	noRoom entry = iota
	// queued: it waits for the pump.
	queued
	// seated: it is charged and not queued; its caller has the seat.
	seated
)

// try admits a request when there is room and nobody waits for it. maySit allows
// its caller to have the seat.
func (q *inbox) try(ctx context.Context, r *request, maySit bool) (entry, error) {
	if ctx.Err() != nil {
		return noRoom, overloaded(ctx, q.stream)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed != nil {
		return noRoom, refused(q.stream, q.closed)
	}
	if q.full(r.cost) {
		return noRoom, nil
	}
	q.used += r.cost
	if maySit && q.parked && q.vacant && q.seat.TryLock() {
		return seated, nil
	}
	q.link(r)
	return queued, nil
}

// admit charges cost, waiting for room until ctx ends. It does not wait when as
// many do as may.
func (q *inbox) admit(ctx context.Context, cost int) error {
	if ctx.Err() != nil {
		return overloaded(ctx, q.stream)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed == nil && q.full(cost) {
		return q.await(ctx, cost)
	}
	q.used += cost
	return nil
}

// full reports whether a request has to wait. q.mu is held.
func (q *inbox) full(cost int) bool { return q.waiting.Len() > 0 || q.used+cost > q.limits.bytes }

// push queues a request that has been admitted. After an error its room has been
// given back.
func (q *inbox) push(r *request) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed != nil {
		q.refund(r.cost)
		return refused(q.stream, q.closed)
	}
	q.link(r)
	return nil
}

// waiter is a caller for whose request there was no room.
type waiter struct {
	cost    int
	granted bool
	wake    chan struct{}
}

// await returns nil when cost has been charged, or the inbox was closed. q.mu is
// held before and after.
func (q *inbox) await(ctx context.Context, cost int) error {
	if q.waiting.Len() >= q.limits.callers {
		return &OverloadedError{Stream: q.stream, Waiting: q.waiting.Len()}
	}
	w := &waiter{cost: cost, wake: make(chan struct{})}
	place := q.waiting.PushBack(w)
	q.mu.Unlock()
	var err error
	select {
	case <-w.wake:
	case <-ctx.Done():
		err = overloaded(ctx, q.stream)
	}
	q.mu.Lock()
	if err == nil {
		return nil
	}
	if w.granted {
		q.refund(cost)
		return err
	}
	q.waiting.Remove(place)
	q.grant()
	return err
}

// refund gives back what was charged. q.mu is held.
func (q *inbox) refund(cost int) {
	q.used -= cost
	q.grant()
}

// grant admits those who wait, in order, as far as there is room. A closed inbox
// lets all of them go on to learn that. q.mu is held.
func (q *inbox) grant() {
	for q.waiting.Len() > 0 {
		first := q.waiting.Front()
		w := first.Value.(*waiter)
		if q.closed == nil && q.used+w.cost > q.limits.bytes {
			return
		}
		q.waiting.Remove(first)
		q.used += w.cost
		w.granted = true
		close(w.wake)
	}
}

// link appends a request. q.mu is held.
func (q *inbox) link(r *request) {
	r.prev, r.next, r.linked = q.tail, nil, true
	if q.tail == nil {
		q.head = r
	} else {
		q.tail.next = r
	}
	q.tail = r
	q.queued += len(r.items)
	q.unparked()
}

// unparked wakes the pump when it is parked. q.mu is held.
func (q *inbox) unparked() {
	if q.parked {
		q.parked = false
		q.wake <- struct{}{}
	}
}

// rouse wakes the pump although nothing may be queued.
func (q *inbox) rouse() {
	q.mu.Lock()
	q.unparked()
	q.mu.Unlock()
}

// unlink removes a request. q.mu is held.
func (q *inbox) unlink(r *request) {
	if r.prev == nil {
		q.head = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		q.tail = r.prev
	} else {
		r.next.prev = r.prev
	}
	r.prev, r.next, r.linked = nil, nil, false
}

// take moves up to n records and about size bytes, at least one record, to the
// end of into. A batch that does not fit keeps its place for the rest.
func (q *inbox) take(into []*item, n, size int) []*item {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.head != nil && n > 0 {
		r := q.head
		for ; r.taken < len(r.items) && n > 0; r.taken++ {
			it := &r.items[r.taken]
			if size -= it.size; size < 0 && len(into) > 0 {
				return into
			}
			into = append(into, it)
			n--
			q.queued--
		}
		if r.taken == len(r.items) {
			q.unlink(r)
		}
	}
	return into
}

// withdraw takes a request out of the queue and returns its first item that was
// never taken, the number of items when there is none.
func (q *inbox) withdraw(r *request) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !r.linked {
		return len(r.items)
	}
	q.unlink(r)
	for i := r.taken; i < len(r.items); i++ {
		q.queued--
		q.used -= r.items[i].cost
	}
	q.grant()
	return r.taken
}

// release gives back what settled records were charged.
func (q *inbox) release(cost int) {
	if cost == 0 {
		return
	}
	q.mu.Lock()
	q.refund(cost)
	q.mu.Unlock()
}

// park reports that the pump is about to wait on wake. It is false when there is
// something to take, or nothing will ever come because the inbox is closed.
// vacant lets callers have the seat.
func (q *inbox) park(vacant bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.head != nil || q.closed != nil {
		return false
	}
	q.parked, q.vacant = true, vacant
	return true
}

// unpark takes the announcement back, with a wake that may have come meanwhile.
func (q *inbox) unpark() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.parked = false
	select {
	case <-q.wake:
	default:
	}
}

func (q *inbox) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.head == nil
}

// close refuses everything from now on with err. What is queued stays.
func (q *inbox) close(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed == nil {
		q.closed = err
		q.grant()
	}
}

func (q *inbox) reopen() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = nil
}

func (q *inbox) depth() (records, bytes int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.queued, q.used
}

func (q *inbox) callers() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting.Len()
}
