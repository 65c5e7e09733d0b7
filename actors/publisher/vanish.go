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
	// uncounted: the server does not tell the count, or was not asked yet.
	uncounted = -1
)

// tally compares two looks at the server's count of entries ever added.
type tally struct {
	// Before and Added are the counts of the last look and of this one, or
	// uncounted.
	Before, Added int64
	// Since are the appends that were committed between the looks, Open those
	// that were on their way at the last one and may have been in its count.
	Since, Open int64
}

// remade reports whether the stream was deleted between the looks: its count is
// below what it must have reached.
func (t tally) remade() bool {
	return t.Before != uncounted && t.Added != uncounted && t.Added < t.Before+max(0, t.Since-t.Open)
}

// gone returns the range of records that went with a stream that was deleted:
// those up to known which the archive does not hold and which are older than
// what is live. It is empty when after is not below to.
func gone(mark, known evtid.ID, now redislog.StreamInfo) (after, to evtid.ID) {
	to = known
	if !now.First.IsZero() && now.First.Prev().Less(to) {
		to = now.First.Prev()
	}
	return mark, to
}

// census is the pump's memory of the last look.
type census struct {
	at                 int64 // Unix ms
	added, since, open int64
}

// lookDue reports whether it is time to look. The clock is that of the last
// flush: without appends nobody looks.
func (u *pump) lookDue() bool {
	passed := u.p.clock.at - u.census.at
	return passed < 0 || passed >= lookEvery.Milliseconds()
}

// look asks for the server's count. What keeps it from being answered is met by
// the append connection as well.
func (u *pump) look(ctx context.Context) {
	info, err := u.count(ctx)
	last := u.census
	u.census = census{at: u.p.clock.at, added: info.EntriesAdded, open: u.open()}
	if err != nil {
		u.census.added = uncounted
		return
	}
	if !(tally{Before: last.added, Added: info.EntriesAdded, Since: last.since, Open: last.open}).remade() {
		return
	}
	if err := u.mourn(ctx); err != nil {
		u.p.cfg.Logger.Error("the stream was deleted; how much is lost is not known yet", "stream", u.p.name, "error", err)
		// The next look finds the same.
		last.at = u.census.at
		u.census = last
	}
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

// mourn reports what a deletion took.
func (u *pump) mourn(ctx context.Context) error {
	now, err := u.count(ctx)
	if err != nil {
		return err
	}
	mark, err := u.watermark(ctx, evtid.ID{})
	if err != nil {
		return err
	}
	after, to := gone(mark, u.known, now)
	if now.Last.Less(u.known) {
		u.known = later(mark, now.Last)
	}
	if !after.Less(to) {
		return nil
	}
	u.p.cfg.Logger.Error("the stream was deleted while it was written", "stream", u.p.name, "after", after, "to", to)
	u.p.cfg.Observer.Emit(evtlog.Lost{
		Stream: u.p.name, After: after, To: to,
		Reason: "the stream was deleted (DEL, FLUSHALL) while its writer was at work; the writer goes on in a new one",
	})
	return nil
}
