package publisher

import (
	"context"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// A stream that is deleted under a connected writer is made anew by its next
// append, and no answer says so. (XADD NOMKSTREAM would, but the server then does
// a twelfth fewer appends.) So the writer looks now and then whether the server
// has counted its appends: a stream made anew counts from zero.

const (
	// lookEvery is the time between two looks while there are appends.
	lookEvery = time.Second
	// lookPatience bounds a look; appends wait for it.
	lookPatience = 200 * time.Millisecond
)

// census is the pump's memory of the last look.
type census struct {
	at                 int64 // Unix ms
	added, since, open int64
	// trimmed is up to where records had left the stream by then, archived or by
	// policy: a deletion does not take them.
	trimmed evtid.ID
}

// lookDue reports whether it is time to look. The clock is that of the last
// flush: without appends nobody looks.
func (u *pump) lookDue() bool {
	passed := u.p.clock.at - u.census.at
	return passed < 0 || passed >= lookEvery.Milliseconds()
}

// look asks for the server's count. Without an answer the last one goes on to
// count: the server may be busy with the very deletion.
func (u *pump) look(ctx context.Context) {
	last := u.census
	u.census.at = u.p.clock.at
	info, err := u.count(ctx)
	if err != nil {
		return
	}
	if (tally{Before: last.added, Added: info.EntriesAdded, Since: last.since, Open: last.open}).remade() {
		if err := u.mourn(ctx, last.trimmed); err != nil {
			// The next look finds the same.
			u.p.cfg.Logger.Error("the stream was deleted; how much is lost is not known yet", "stream", u.p.name, "error", err)
			return
		}
	}
	u.census = census{at: u.p.clock.at, added: info.EntriesAdded, open: u.open(), trimmed: trimmedBy(info)}
}

// carried is the census over a lost connection: of what was on its way at the
// last look nobody knows whether it was counted, or arrived at all.
func (c census) carried() census {
	if c.added != uncounted {
		c.added = max(0, c.added-c.open)
	}
	c.open = 0
	return c
}

func (u *pump) count(ctx context.Context) (redislog.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	return u.p.stream.Info(ctx)
}

// open is the number of records on their way.
func (u *pump) open() (n int64) {
	for _, b := range u.flying {
		n += int64(len(b.items))
	}
	return n
}

// mourn reports what a deletion took of a stream that had been trimmed before.
func (u *pump) mourn(ctx context.Context, trimmed evtid.ID) error {
	now, err := u.count(ctx)
	if err != nil {
		return err
	}
	mark, err := u.watermark(ctx, evtid.ID{})
	if err != nil {
		return err
	}
	after, to := gone(later(mark, trimmed), u.known, now)
	if now.Last.Less(u.known) {
		u.known = later(mark, now.Last)
	}
	if !after.Less(to) {
		return nil
	}
	u.p.cfg.Observer.Emit(evtlog.Lost{
		Stream: u.p.name, After: after, To: to,
		Reason: "the stream was deleted (DEL, FLUSHALL) while its writer was at work; the writer goes on in a new one",
	})
	return nil
}
