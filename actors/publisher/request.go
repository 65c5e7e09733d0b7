package publisher

import (
	"context"
	"slices"
	"sync"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

// item is one record on its way.
type item struct {
	req    *request
	fields []evtlog.Field
	// cost is what the record is charged in the inbox, size what it takes in a
	// flush.
	cost, size int
	// event and job are set for an announcement; fields then begin with them.
	event, job string
	announce   bool

	// req.mu guards id, err and settled. The pump alone writes them while it has
	// the item.
	id      evtid.ID
	err     error
	settled bool

	// verdict is the pump's note between an answer and its delivery: the server's
	// refusal.
	verdict error
}

// request is one call: one record, or a batch. It passes from the caller to the
// pump and back.
//
// Whoever ends it recycles it. As long as the caller waits, that is the caller,
// which is told through done. A caller whose context ends first marks the
// request abandoned, and from then on it belongs to the pump: nothing is sent on
// done, so a recycled request cannot be answered by its former life.
type request struct {
	pool *sync.Pool
	// done gets one value when all items are settled and the caller still waits.
	done chan struct{}

	// The inbox guards these: place in the queue and the first item not taken.
	prev, next *request
	linked     bool
	taken      int
	cost       int

	mu        sync.Mutex
	items     []item
	open      int
	abandoned bool

	// store and fields are the storage of items and of their fields, used again.
	store  []item
	fields []evtlog.Field
}

// keepItems and keepFields are the largest storage that a recycled request keeps.
const (
	keepItems  = 512
	keepFields = 4096
)

// The first two fields of the record of an announcement.
const (
	eventField = "event"
	jobField   = "job"
)

// news is what an announcement says beside the fields. The zero news announces
// nothing.
type news struct {
	event, job string
	announce   bool
}

// single makes the request of one record. The fields are copied, and kept apart
// from d so that the caller's slice can stay on its stack.
func (p *Publisher) single(d news, fields []evtlog.Field) *request {
	r := newRequest(&p.singles, 1)
	if d.announce {
		r.fields = append(r.fields, evtlog.F(eventField, d.event), evtlog.F(jobField, d.job))
	}
	r.fields = append(r.fields, fields...)
	it := &r.items[0]
	it.fields, it.announce, it.event, it.job = r.fields, d.announce, d.event, d.job
	return r.priced()
}

// enter queues a single record. When there is no room it waits without its
// request.
func (p *Publisher) enter(ctx context.Context, d news, fields []evtlog.Field) (*request, error) {
	r := p.single(d, fields)
	got, err := p.inbox.try(ctx, r, seatable(d, fields))
	switch got {
	case seated:
		p.pump.alone(&r.items[0])
		return r, nil
	case queued:
		return r, nil
	}
	cost := r.cost
	r.recycle()
	if err != nil {
		return nil, err
	}
	if err := p.inbox.admit(ctx, cost); err != nil {
		return nil, err
	}
	r = p.single(d, fields)
	if err := p.inbox.push(r); err != nil {
		r.recycle()
		return nil, err
	}
	return r, nil
}

// batch makes the request of several records. The fields are copied: the caller
// may get its receipts, and change its slices, while a record is still on its
// way.
func (p *Publisher) batch(records [][]evtlog.Field) *request {
	r := newRequest(&p.batches, len(records))
	total := 0
	for _, fields := range records {
		total += len(fields)
	}
	r.fields = slices.Grow(r.fields, total)
	for i, fields := range records {
		begin := len(r.fields)
		r.fields = append(r.fields, fields...)
		r.items[i].fields = r.fields[begin:len(r.fields):len(r.fields)]
	}
	return r.priced()
}

func newRequest(pool *sync.Pool, records int) *request {
	r, _ := pool.Get().(*request)
	if r == nil {
		r = &request{pool: pool, done: make(chan struct{}, 1)}
	}
	if cap(r.store) < records {
		r.store = make([]item, records)
	}
	r.items = r.store[:records]
	return r
}

// charge is what a record takes of Config.MaxQueuedBytes.
func charge(fields []evtlog.Field) int {
	return evtlog.Size(fields) + RecordOverhead + FieldOverhead*len(fields)
}

func (r *request) priced() *request {
	for i := range r.items {
		it := &r.items[i]
		it.req = r
		it.size = evtlog.Size(it.fields)
		it.cost = charge(it.fields)
		r.cost += it.cost
	}
	r.open = len(r.items)
	return r
}

// recycle is called by the owner of a request that is settled as a whole.
func (r *request) recycle() {
	clear(r.items)
	clear(r.fields)
	r.items, r.fields, r.taken, r.cost, r.open, r.abandoned = nil, r.fields[:0], 0, 0, 0, false
	if cap(r.store) > keepItems {
		r.store = nil
	}
	if cap(r.fields) > keepFields {
		r.fields = nil
	}
	r.pool.Put(r)
}

// wait returns when every item is settled, or when ctx ends. In the first case
// the request belongs to the caller again. In the second the outcome of what is
// still open has been left to the pump, and left is what was known at that
// moment.
func (p *Publisher) wait(ctx context.Context, r *request) (left []Receipt) {
	if ctx.Done() == nil {
		<-r.done
		return nil
	}
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return p.leave(ctx, r)
	}
}

// leave gives up a request. What the pump has not taken is withdrawn; what it
// has taken but not minted it will drop; what is minted is uncertain.
func (p *Publisher) leave(ctx context.Context, r *request) []Receipt {
	first := p.inbox.withdraw(r)
	r.mu.Lock()
	if r.open == 0 {
		r.mu.Unlock()
		<-r.done
		return nil
	}
	for i := first; i < len(r.items); i++ {
		r.items[i].err, r.items[i].settled = overloaded(ctx, p.name), true
		r.open--
	}
	if r.open == 0 {
		// The pump has nothing of it any more, and has not been the one to end it.
		r.mu.Unlock()
		return nil
	}
	r.abandoned = true
	left := make([]Receipt, len(r.items))
	for i := range r.items {
		left[i] = p.receiptNow(ctx, &r.items[i])
	}
	r.mu.Unlock()
	return left
}

// receiptNow is the receipt of an item at the moment its caller leaves. r.mu is
// held.
func (p *Publisher) receiptNow(ctx context.Context, it *item) Receipt {
	switch {
	case it.settled:
		return Receipt{ID: it.id, Err: it.err}
	case it.id.IsZero():
		return Receipt{Err: overloaded(ctx, p.name)}
	}
	p.outcomes.expect(it.id)
	p.stats.uncertain.Add(1)
	return Receipt{ID: it.id, Err: &evtlog.UncertainError{Stream: p.name, ID: it.id, Err: context.Cause(ctx)}}
}

// settle records the outcome of an item that the pump holds, and reports whether
// its caller is still there to be told. The item must not be touched afterwards.
func (p *Publisher) settle(it *item, err error) (waiting bool) {
	r := it.req
	r.mu.Lock()
	it.err, it.settled = err, true
	r.open--
	open, abandoned, id := r.open, r.abandoned, it.id
	r.mu.Unlock()
	if abandoned && !id.IsZero() {
		p.outcomes.settle(id, err)
	}
	switch {
	case open > 0:
	case abandoned:
		r.recycle()
	default:
		r.done <- struct{}{}
	}
	return !abandoned
}

// claim mints the id of an item, unless its caller has gone. Either way but the
// good one nothing is to be written, and the item is to be refused.
func (p *Publisher) claim(it *item) (gone bool, err error) {
	r := it.req
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.abandoned {
		return true, nil
	}
	it.id, err = p.minter.Mint()
	return false, err
}
