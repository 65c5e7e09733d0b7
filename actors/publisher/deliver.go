package publisher

import (
	"context"
	"errors"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/feed"
)

// turn collects what one round of deliveries did, so that the shared counters
// are touched once per flush.
type turn struct {
	// freed is what the settled records were charged.
	freed              int
	committed, refused int
	refusal            error
}

// release gives the room of settled records back, and counts them.
func (t *turn) release(p *Publisher) {
	p.inbox.release(t.freed)
	p.stats.appended.Add(uint64(t.committed))
	p.stats.rejected.Add(uint64(t.refused))
	*t = turn{}
}

// commit delivers a record that is in the stream. acked is how many replicas
// have it, -1 when that is unknown.
func (u *pump) commit(it *item, acked int) {
	before := u.known
	u.known = later(u.known, it.id)
	u.census.since++
	u.second, u.attempts = false, 0
	if it.announce {
		// The first two fields are event and job.
		u.pubs.add(feed.Announcement{Event: it.event, Job: it.job, ID: it.id, Prev: before, Extra: it.fields[2:]})
	}
	var err error
	if want := u.p.cfg.Replicas; want > 0 && acked < want {
		err = &evtlog.NotReplicatedError{Stream: u.p.name, ID: it.id, Want: want, Got: acked}
	}
	u.turn.freed += it.cost
	u.turn.committed++
	u.p.settle(it, err)
}

// refuse delivers a record that is not in the stream and will not be.
func (u *pump) refuse(it *item, err error) {
	u.turn.freed += it.cost
	u.turn.refused++
	u.turn.refusal = err
	u.p.settle(it, err)
}

// abandon delivers a record whose outcome will not be learned here.
func (u *pump) abandon(it *item, cause error) {
	u.turn.freed += it.cost
	if u.p.settle(it, &evtlog.UncertainError{Stream: u.p.name, ID: it.id, Err: cause}) {
		u.p.stats.uncertain.Add(1)
	}
}

// afterTurn follows a flush whose records are all delivered.
func (u *pump) afterTurn(ctx context.Context) {
	u.nudge()
	t := u.turn
	u.turn.release(u.p)
	switch {
	case t.refusal != nil:
		u.refusing = true
		u.report(ctx, t.refusal)
	case t.committed > 0:
		u.refusing = false
		u.report(ctx, nil)
	}
}

// nudge says that records were committed in this turn.
func (u *pump) nudge() {
	if u.turn.committed > 0 && u.p.cfg.OnCommit != nil {
		u.p.cfg.OnCommit()
	}
}

// announcements are encoded payloads that wait for the next flush. They are
// announced at most once: whatever becomes of that flush, they are gone.
type announcements struct {
	buf  []byte
	ends []int
}

// keepAnnouncements is the largest buffer that is kept.
const keepAnnouncements = 1 << 20

func (a *announcements) add(f feed.Announcement) {
	a.buf = f.AppendTo(a.buf)
	a.ends = append(a.ends, len(a.buf))
}

// encode passes all on and returns how many there were.
func (a *announcements) encode(w writer) int {
	n, begin := len(a.ends), 0
	for _, end := range a.ends {
		w.Publish(a.buf[begin:end])
		begin = end
	}
	if a.buf, a.ends = a.buf[:0], a.ends[:0]; cap(a.buf) > keepAnnouncements {
		a.buf = nil
	}
	return n
}

// published reads the answer to an announcement. A refusal costs only that
// announcement.
func (u *pump) published() error {
	_, err := u.w.ReceiveInt()
	switch {
	case err == nil:
		u.p.stats.announced.Add(1)
	case isLost(err):
		return err
	default:
		u.p.cfg.Logger.Warn("announcement refused", "stream", u.p.name, "error", err)
	}
	return nil
}

// isForeign reports whether the server refused an id for not being above its
// top.
func isForeign(err error) bool { return errors.Is(err, evtlog.ErrNonMonotonic) }

// sameFields reports whether a stored record is the one that was sent.
func sameFields(stored evtlog.Record, sent []evtlog.Field) bool {
	if stored.Unbranded || len(stored.Fields) != len(sent) {
		return false
	}
	for i, f := range stored.Fields {
		if f != sent[i] {
			return false
		}
	}
	return true
}
