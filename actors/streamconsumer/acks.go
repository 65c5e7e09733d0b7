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
	owed    []evtid.ID
	owedRaw []string
	// sent are those on their way, a flight for each command that may carry some;
	// spare is a flight to use again.
	sent  []flight
	spare flight
	// aside are those among them that were not handled: they are recorded as
	// skipped, and stay so.
	aside map[evtid.ID]struct{}
	// lost is what the present connection has counted as too late.
	lost int64
}

// flight is what rides with one command.
type flight struct {
	ids []evtid.ID
	raw []string
	// offered is how much more of the hand had been offered than with the flights
	// before.
	offered int
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

// handled returns those of sent ids that had been handled, and forgets the rest.
func (a *acks) handled(sent []evtid.ID) []evtid.ID {
	if len(a.aside) == 0 {
		return sent
	}
	var ids []evtid.ID
	for _, id := range sent {
		if _, aside := a.aside[id]; !aside {
			ids = append(ids, id)
		}
		delete(a.aside, id)
	}
	return ids
}

// again makes what was sent and never settled owed, for a new connection.
func (a *acks) again() {
	var ids []evtid.ID
	var raw []string
	for _, f := range a.sent {
		ids, raw = append(ids, f.ids...), append(raw, f.raw...)
	}
	a.owed, a.owedRaw = append(ids, a.owed...), append(raw, a.owedRaw...)
	a.sent, a.lost = nil, 0
}

// take makes a flight of what is owed. offered is how much of the hand has been
// offered.
func (a *acks) take(offered int) flight {
	for _, before := range a.sent {
		offered -= before.offered
	}
	f := flight{ids: a.owed, raw: a.owedRaw, offered: offered}
	a.owed, a.owedRaw, a.spare = a.spare.ids[:0], a.spare.raw[:0], flight{}
	a.sent = append(a.sent, f)
	return f
}

// landed returns the flight that was sent first.
func (a *acks) landed() (f flight, ok bool) {
	if len(a.sent) == 0 {
		return flight{}, false
	}
	f = a.sent[0]
	a.sent = append(a.sent[:0], a.sent[1:]...)
	return f, true
}

// clear forgets everything.
func (a *acks) clear() { *a = acks{} }

// sendAcks hands what is owed to the next command of the reader.
func (r *runner) sendAcks() {
	f := r.acks.take(r.hand.offeredSoFar())
	r.reader.Ack(f.ids...)
	r.reader.AckRaw(f.raw...)
}

// flush acknowledges without reading anew.
func (r *runner) flush() error {
	for r.ahead() {
		if err := r.collect(false); err != nil {
			return err
		}
	}
	if r.acks.pending() == 0 {
		return nil
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
	f, ok := r.acks.landed()
	if !ok {
		return
	}
	r.hand.settled(f.offered)
	sent := len(f.ids) + len(f.raw)
	if sent == 0 {
		return
	}
	r.hand.confirmed(f.ids)
	lost := r.reader.LostAcks()
	late := lost - r.acks.lost
	r.count.notOwned.Add(late)
	r.count.acked.Add(int64(sent) - late)
	r.acks.lost = lost
	r.done(f.ids...)
	r.settle(r.acks.handled(f.ids))
	r.acks.spare = f
}
