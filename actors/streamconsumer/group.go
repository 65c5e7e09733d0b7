package streamconsumer

import (
	"context"
	"errors"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// position is what this process knows of how far its group has come. It
// outlives incarnations.
type position struct {
	existed bool     // the group was there once
	known   bool     // acked means something
	acked   evtid.ID // the highest entry known to be done, or where the group began
}

// forward notes that ids are done.
func (p position) forward(ids ...evtid.ID) position {
	p.existed, p.known = true, p.known || len(ids) > 0
	for _, id := range ids {
		if p.acked.Less(id) {
			p.acked = id
		}
	}
	return p
}

// back makes room for owed, the lowest entry that was delivered here and is not
// done, so that a group made anew at the position delivers it again. The zero
// ID changes nothing.
func (p position) back(owed evtid.ID) position {
	if owed.IsZero() {
		return p
	}
	if before := owed.Prev(); !p.known || before.Less(p.acked) {
		p.known, p.acked = true, before
	}
	return p
}

// startAt returns where a group that does not exist is to be made.
func (p position) startAt(start Start) redislog.StartAt {
	switch {
	case p.known && !p.acked.IsZero():
		return redislog.AfterID(p.acked)
	case !p.known && start == FromNew:
		return redislog.New()
	}
	return redislog.Head()
}

// ensureGroup makes the group if it is not there: at its declared start the
// first time, and where this member's work had got to when it has vanished.
func (r *runner) ensureGroup() error {
	at := r.position()
	start := at.startAt(r.cfg.Start)
	if r.ports.arch != nil {
		start = start.Behind(archived{r.ports.arch, r.stream})
	}
	created, err := r.ports.log.CreateGroup(r.ctx, r.cfg.Group, start)
	if err != nil {
		return err
	}
	switch {
	case created && at.existed:
		r.cfg.Observer.Emit(evtlog.GroupRecreated{Stream: r.stream, Group: r.cfg.Group, At: at.acked})
		if err := r.loseGone(); err != nil {
			return err
		}
	case !at.known && r.cfg.Start == FromNew:
		if err := r.learnStart(); err != nil {
			return err
		}
	case !created && !r.orphaned.To.IsZero():
		r.lose(r.orphaned, "the group was destroyed while entries of this range were pending here, and a peer made it anew; what it did not read again is not delivered")
	}
	r.orphaned = redislog.SkippedRange{}
	r.done()
	return nil
}

// loseGone reports what was pending here and went with its stream: the group that
// was made anew does not give it again, except for what the archive has.
func (r *runner) loseGone() error {
	gone := r.orphaned
	if gone.Empty() {
		return nil
	}
	page, _, err := r.ports.log.Page(r.ctx, gone.After, gone.To, 1)
	if errors.Is(err, evtlog.ErrForeignEntry) || len(page) > 0 {
		return nil // the stream is still there
	}
	if err != nil {
		return err
	}
	if r.ports.arch != nil {
		w, err := r.ports.arch.Watermark(r.ctx, r.stream)
		if err != nil {
			return err
		}
		if gone.After.Less(w) {
			gone.After = w
		}
	}
	if !gone.Empty() {
		r.lose(gone, "the stream was deleted while entries of this range were pending here")
	}
	return nil
}

// archived is the archive of one stream.
type archived struct {
	arch   archive.Archive
	stream evtlog.StreamName
}

// Watermark implements redislog.Archived.
func (a archived) Watermark(ctx context.Context) (evtid.ID, error) {
	return a.arch.Watermark(ctx, a.stream)
}

// learnStart asks where the group stands that was made at "new", now or by an
// earlier process, so that one that vanishes before the first acknowledgement here
// is made anew there and not later.
func (r *runner) learnStart() error {
	groups, err := r.ports.log.Groups(r.ctx)
	if err != nil {
		return err
	}
	for _, g := range groups {
		if g.Name == r.cfg.Group {
			r.done(g.LastDelivered)
		}
	}
	return nil
}

// groupGone prepares for making the group anew. What was in hand comes again;
// acknowledgements meant for the old group are dropped, because in a new one
// they could hit an entry that a peer has in hand.
func (r *runner) groupGone() {
	if lowest, highest := r.hand.drop(); !lowest.IsZero() {
		r.down = spanning(r.down, lowest, highest)
	}
	r.acks.clear()
	r.cursor = firstCursor
	if owed := r.down; !owed.Empty() {
		r.rewind(owed.After.Next())
		r.orphaned = owed
	}
	r.down = redislog.SkippedRange{}
	if r.ports.arch != nil {
		// The record of what is late has vanished with the group, or with everything
		// else. The archive has it still.
		r.rewind(r.late)
	}
	r.late = evtid.ID{}
}

// putDown takes what was read and not offered out of the hand, and returns it. It
// is pending here still, and owed when the group vanishes before the next whole
// pass over the own pending list.
func (r *runner) putDown() []evtid.ID {
	ids := r.hand.unoffered()
	r.down = spanning(r.down, ids...)
	r.next = nil
	r.hand.rest()
	return ids
}
