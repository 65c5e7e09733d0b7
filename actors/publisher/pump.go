package publisher

import (
	"context"
	"runtime"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/evtid"
)

const (
	// maxFlying is the number of flushes on their way: while the server works on
	// some, the next is encoded and the answers of the first are read. Two keep
	// both sides busy when flushes are large; with few callers the flushes are
	// small and the way there and back counts, which four hide.
	maxFlying = 4
	// maxFlushBytes bounds the records of a flush, but for a single larger one.
	maxFlushBytes = 1 << 20
	// stopPatience bounds the work after a stop was asked for, and lastTry the
	// attempt to settle what is open then. Together they are below the
	// supervisor's time-out, so that what is open ends with a typed error.
	stopPatience = 5 * time.Second
	lastTry      = 3 * time.Second
)

// pump is the one goroutine that writes: it mints, encodes, flushes, and reads
// the answers. Its state outlives a panic, so that the next incarnation settles
// what the former had on its way.
type pump struct {
	p *Publisher
	w writer

	// flying are the flushes without all their answers, oldest first; spare are
	// batches to use again.
	flying, spare []*batch
	// unsettled are the records whose answers were lost, in id order. Nothing new
	// is sent before it is empty.
	unsettled []*item
	// pubs are announcements of committed records that go with the next flush.
	pubs announcements

	// connected is true once the stream's top has been read; known is the newest
	// record known to be in the log, minted the newest id made.
	connected     bool
	known, minted evtid.ID
	// mark is the newest watermark that the archive has told.
	mark evtid.ID
	// above, when set, is an id that new ones must be above but are not yet.
	above evtid.ID
	// second is true while a second writer has been reported and nothing was
	// committed since.
	second bool
	// attempts counts connections since the last committed append.
	attempts int
	turn     turn
	// trouble is what was last reported to the supervisor; refusing is true when
	// it was a refusal, which only a commit ends.
	trouble  error
	refusing bool
	// census is what the last look at the stream has counted.
	census census
	// largest is the number of records of the largest flush since the pump slept.
	largest int
	// lost and broken are what a caller in the seat met: the loss of the
	// connection, a panic.
	lost   error
	broken any
	// stopBy is when a stop stops being patient, zero until one is asked for.
	stopBy time.Time
}

// batch is one flush: announcements first, then records, then a WAIT. A record
// that was delivered leaves a nil.
type batch struct {
	publishes int
	items     []*item
}

// run is one incarnation.
func (u *pump) run(ctx context.Context, ready func()) error {
	u.p.inbox.reopen()
	// Closed at once, also while the pump waits for an answer. Waited for, so that
	// it cannot close the inbox of the next incarnation.
	closed := make(chan struct{})
	detach := context.AfterFunc(ctx, func() {
		defer close(closed)
		u.p.inbox.close(evtlog.ErrStopped)
	})
	defer func() {
		if !detach() {
			<-closed
		}
	}()
	u.p.inbox.seat.Lock()
	defer u.p.inbox.seat.Unlock()
	defer u.hangUp()
	u.adopt()
	for {
		if err := u.connect(ctx, ready); err != nil {
			return u.end(ctx, err)
		}
		lost := u.serve(ctx)
		if lost == nil {
			return u.end(ctx, nil)
		}
		u.lose(ctx, lost)
	}
}

// adopt makes what a former incarnation left on its way subject to settlement.
func (u *pump) adopt() {
	u.ground()
	u.trouble, u.refusing, u.stopBy = nil, false, time.Time{}
	u.lost, u.broken = nil, nil
}

// serve works until the connection is lost, which it returns, or until ctx has
// ended and what was queued is done or stopPatience over.
func (u *pump) serve(ctx context.Context) error {
	for {
		if ctx.Err() != nil && u.outOfPatience() {
			return nil
		}
		if u.lookDue() {
			u.look(ctx)
		}
		for len(u.flying) < maxFlying && u.hasWork() {
			if err := u.send(ctx); err != nil {
				return err
			}
		}
		switch {
		case len(u.flying) > 0:
			if err := u.receive(ctx); err != nil {
				return err
			}
			// Those who just got their receipts append again: let them, so that
			// the next flush carries all of them and not the first few, and a lone
			// announcement rides with the next record. What else is on its way
			// keeps the server busy meanwhile.
			if len(u.flying) > 0 || u.hasWork() {
				runtime.Gosched()
			}
		case u.hasWork():
		case u.p.inbox.park(u.seatVacant()):
			if err := u.sleep(ctx); err != nil {
				return err
			}
		case ctx.Err() != nil && u.p.inbox.empty():
			return nil
		}
	}
}

// outOfPatience is asked once a stop was requested. It counts from the first
// time.
func (u *pump) outOfPatience() bool {
	u.p.inbox.close(evtlog.ErrStopped)
	if u.stopBy.IsZero() {
		u.stopBy = time.Now().Add(stopPatience)
	}
	return time.Now().After(u.stopBy)
}

func (u *pump) hasWork() bool { return len(u.pubs.ends) > 0 || !u.p.inbox.empty() }

// send encodes and flushes one batch. The batch counts as flying before its
// first id is minted, so that nothing is forgotten whatever happens.
func (u *pump) send(ctx context.Context) error {
	b := u.newBatch()
	queued, _ := u.p.inbox.depth()
	n := flushSize(queued, len(u.flying), u.p.cfg.MaxBatch)
	u.flying = append(u.flying, b)
	u.p.clock.tick()
	b.publishes = u.pubs.encode(u.w)
	taken := u.p.inbox.take(b.items, n, maxFlushBytes)
	if !u.rise(taken) {
		taken = nil
	}
	for _, it := range taken {
		u.mint(b, it)
	}
	u.afterTurn(ctx)
	if b.publishes == 0 && len(b.items) == 0 {
		u.flying = u.flying[:len(u.flying)-1]
		u.spare = append(u.spare, b)
		return nil
	}
	if len(b.items) > 0 {
		u.largest = max(u.largest, len(b.items))
		u.p.stats.batches.Add(1)
		if u.p.cfg.Replicas > 0 {
			u.w.Wait(u.p.cfg.Replicas, u.p.cfg.ReplicaTimeout)
		}
	}
	return u.w.Flush()
}

// worthHalving is the number of records from which two flushes are better than
// one.
const worthHalving = 256

// flushSize returns how many of the queued records go into the next flush. When
// nothing is on its way a large number is halved: the server works on the first
// half while the second is encoded, and its answers are read while it works on
// the second.
func flushSize(queued, flying, most int) int {
	if flying == 0 && queued >= worthHalving {
		queued = (queued + 1) / 2
	}
	return min(queued, most)
}

// mint gives a record its id, at this moment, and encodes it.
func (u *pump) mint(b *batch, it *item) {
	gone, err := u.p.claim(it)
	switch {
	case gone:
		u.turn.freed += it.cost
		u.p.settle(it, evtlog.ErrOverloaded)
		return
	case err != nil:
		u.refuse(it, refused(u.p.name, err))
		return
	}
	u.minted = it.id
	b.items = append(b.items, it)
	u.w.Append(it.id, it.fields)
}

func (u *pump) newBatch() *batch {
	if n := len(u.spare); n > 0 {
		b := u.spare[n-1]
		u.spare = u.spare[:n-1]
		*b = batch{items: b.items[:0]}
		return b
	}
	return &batch{}
}

// rise makes sure that new ids are above what is known of the stream. While the
// clock does not allow it, the records are refused without asking the server.
func (u *pump) rise(taken []*item) bool {
	if u.above.IsZero() {
		return true
	}
	err := u.p.minter.Seed(u.above)
	if err == nil {
		u.above = evtid.ID{}
		return true
	}
	for _, it := range taken {
		u.refuse(it, refused(u.p.name, err))
	}
	return false
}

// receive reads all answers of the oldest flush and delivers them.
func (u *pump) receive(ctx context.Context) error {
	b := u.flying[0]
	for ; b.publishes > 0; b.publishes-- {
		if err := u.published(); err != nil {
			return err
		}
	}
	foreign := false
	for i, it := range b.items {
		err := u.w.ReceiveAppend(it.id)
		switch {
		case err == nil && u.p.cfg.Replicas == 0:
			// Nothing more to wait for: the caller has its receipt at once.
			b.items[i] = nil
			u.commit(it, 0)
		case err == nil:
		case isLost(err):
			return err
		case isForeign(err):
			it.verdict, foreign = err, true
		default:
			b.items[i] = nil
			u.refuse(it, &evtlog.RejectedError{Stream: u.p.name, ID: it.id, Err: err})
		}
	}
	u.p.stats.lastReply.Store(time.Now().UnixNano())
	if err := u.deliverRest(ctx, b, foreign); err != nil {
		return err
	}
	u.flying = u.flying[:copy(u.flying, u.flying[1:])]
	u.spare = append(u.spare, b)
	u.afterTurn(ctx)
	return nil
}

// deliverRest delivers what had to wait for all answers of the flush: commits for
// the replicas, refusals by a second writer for the stream's top.
func (u *pump) deliverRest(ctx context.Context, b *batch, foreign bool) error {
	acked := 0
	if u.p.cfg.Replicas > 0 && len(b.items) > 0 {
		n, err := u.w.ReceiveInt()
		if err != nil && isLost(err) {
			return err
		}
		acked = int(n)
	}
	var top evtid.ID
	var unknown error
	if foreign {
		top, unknown = u.meetSecondWriter(ctx, b)
	}
	for i, it := range b.items {
		if it == nil {
			continue
		}
		b.items[i] = nil
		if it.verdict == nil {
			u.commit(it, acked)
		} else {
			u.refuse(it, &evtlog.NonMonotonicError{Stream: u.p.name, ID: it.id, Top: top})
		}
	}
	// Without the top the next id would be refused as well: connect anew, which
	// reads it.
	return unknown
}

// meetSecondWriter reads the top once for all refusals of a flush, and makes
// later ids rise above it: the next append succeeds, unless the other one is
// faster again.
func (u *pump) meetSecondWriter(ctx context.Context, b *batch) (evtid.ID, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTry)
	defer cancel()
	top, err := u.p.stream.Last(ctx)
	u.above, u.known = later(u.above, top), later(u.known, top)
	for _, it := range b.items {
		if it != nil && it.verdict != nil {
			u.reportSecond(it.id, top)
			break
		}
	}
	return top, err
}

func (u *pump) reportSecond(id, top evtid.ID) {
	if u.second {
		return
	}
	u.second = true
	u.p.cfg.Logger.Error("a second writer appends to the stream", "stream", u.p.name, "id", id, "top", top, "top_node", top.Node())
	u.p.cfg.Observer.Emit(evtlog.SecondWriter{Stream: u.p.name, ID: id, Top: top})
}

// ground moves what is flying to the records to settle.
func (u *pump) ground() {
	for _, b := range u.flying {
		for _, it := range b.items {
			if it != nil {
				it.verdict = nil
				u.unsettled = append(u.unsettled, it)
			}
		}
		u.spare = append(u.spare, b)
	}
	u.flying = u.flying[:0]
	u.p.stats.unsettled.Store(int64(len(u.unsettled)))
}

// lose drops the connection. Its answers will never come.
func (u *pump) lose(ctx context.Context, err error) {
	u.hangUp()
	u.ground()
	u.turn.release(u.p)
	u.p.stats.reconnects.Add(1)
	u.p.cfg.Logger.Warn("append connection lost", "stream", u.p.name, "unsettled", len(u.unsettled), "error", err)
	u.report(ctx, err)
}

func (u *pump) hangUp() {
	if u.w != nil {
		_ = u.w.Close()
		u.w = nil
	}
}

// report tells the supervisor about the first of a series of equal conditions.
func (u *pump) report(ctx context.Context, err error) {
	if (err == nil) == (u.trouble == nil) {
		return
	}
	u.trouble = err
	supervise.Report(ctx, err)
}
