package streamconsumer

import (
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
	// lost is what the present connection has counted as too late.
	lost int64
}

// pending returns how many are owed.
func (a *acks) pending() int { return len(a.owed) + len(a.owedRaw) }

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
	if err := r.collect(); err != nil || r.acks.pending() == 0 {
		return err
	}
	r.sendAcks()
	if err := r.reader.FlushAcks(); err != nil {
		return err
	}
	r.answered()
	return nil
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
	r.acks.lost, r.acks.sent, r.acks.sentRaw = lost, r.acks.sent[:0], r.acks.sentRaw[:0]
}
