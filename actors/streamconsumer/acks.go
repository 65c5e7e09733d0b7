package streamconsumer

import (
	"context"
	"time"

	"github.com/evtlog/evtlog/evtid"
)

// acks are the acknowledgements of one connection after the other. They are
// owed from the end of the handler on, sent with the next command of the private
// connection, and settled by its answer. A connection that breaks in between
// leaves them owed: the next one sends them again, which does no harm.
type acks struct {
	owed, sent       []evtid.ID
	owedRaw, sentRaw []string
	// offered is how much of the hand had been offered when they were sent.
	offered int
	// aside are those among them that were not handled: they are recorded as
	// skipped, and stay so.
	aside map[evtid.ID]struct{}
	// lost is what the present connection has counted as too late.
	lost int64
}

// pending returns how many are owed.
func (a *acks) pending() int { return len(a.owed) + len(a.owedRaw) }

// setAside marks an entry as one that was not handled.
func (a *acks) setAside(id evtid.ID) {
	if a.aside == nil {
		a.aside = map[evtid.ID]struct{}{}
	}
	a.aside[id] = struct{}{}
}

// handled returns what was sent and had been handled, and forgets the rest.
func (a *acks) handled() []evtid.ID {
	if len(a.aside) == 0 {
		return a.sent
	}
	var ids []evtid.ID
	for _, id := range a.sent {
		if _, aside := a.aside[id]; !aside {
			ids = append(ids, id)
		}
		delete(a.aside, id)
	}
	return ids
}

// again makes what was sent and never settled owed, for a new connection.
func (a *acks) again() {
	a.owed = append(a.sent, a.owed...)
	a.owedRaw = append(a.sentRaw, a.owedRaw...)
	a.sent, a.sentRaw, a.lost = nil, nil, 0
}

// clear forgets everything.
func (a *acks) clear() { *a = acks{} }

// sendAcks hands what is owed to the next command of the reader.
func (r *runner) sendAcks() {
	r.acks.offered = r.hand.offeredSoFar()
	if r.acks.pending() == 0 {
		return
	}
	r.reader.Ack(r.acks.owed...)
	r.reader.AckRaw(r.acks.owedRaw...)
	r.acks.owed, r.acks.sent = r.acks.sent[:0], r.acks.owed
	r.acks.owedRaw, r.acks.sentRaw = r.acks.sentRaw[:0], r.acks.owedRaw
}

// flush acknowledges without reading anew.
func (r *runner) flush() error {
	if err := r.collect(false); err != nil || r.acks.pending() == 0 {
		return err
	}
	r.sendAcks()
	if err := r.reader.FlushAcks(); err != nil {
		return err
	}
	r.answered()
	return nil
}

// settle takes what was handled out of the recorded ranges: it may have been
// trimmed and recorded meanwhile, and would be handed out once more. When that
// fails it is.
func (r *runner) settle(ids []evtid.ID) {
	if r.reader.Recorded() == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), closingTime)
	defer cancel()
	if err := r.ports.log.SettleSkipped(ctx, r.cfg.Group, ids); err != nil {
		r.cfg.Logger.Debug("handled entries were not taken out of the skipped ranges", "err", err)
	}
}

// answered books a good answer, and with it the acknowledgements that rode with
// its command.
func (r *runner) answered() {
	r.count.lastReply.Store(time.Now().UnixNano())
	r.hand.settled(r.acks.offered)
	r.acks.offered = 0
	sent := len(r.acks.sent) + len(r.acks.sentRaw)
	if sent == 0 {
		return
	}
	r.hand.confirmed(r.acks.sent)
	lost := r.reader.LostAcks()
	late := lost - r.acks.lost
	r.count.notOwned.Add(late)
	r.count.acked.Add(int64(sent) - late)
	r.done(r.acks.sent...)
	r.settle(r.acks.handled())
	r.acks.lost, r.acks.sent, r.acks.sentRaw = lost, r.acks.sent[:0], r.acks.sentRaw[:0]
}
