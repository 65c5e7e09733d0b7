// Package trimline turns a keep policy into the id that a stream may be trimmed
// through, and tells whether a trim did what was asked. It is shared by the two components that trim and never trims itself.
package trimline

import (
	"context"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// pageSize is the number of records read at once.
const pageSize = 1000

// Live is what has to be known of a stream. *redislog.Log implements it.
type Live interface {
	Info(ctx context.Context) (redislog.StreamInfo, error)
	Page(ctx context.Context, after, to evtid.ID, n int) ([]evtlog.Record, evtid.ID, error)
	PageBefore(ctx context.Context, after, to evtid.ID, n int) ([]evtlog.Record, error)
}

// Line is where a policy cuts a stream.
type Line struct {
	// Through is the newest record that may go, zero when nothing is due. It was
	// seen in the stream.
	Through evtid.ID
	// More is true when further records are due behind Through.
	More bool
}

// Query asks where a policy cuts.
type Query struct {
	Keep evtlog.Keep
	Now  time.Time
	// Length is the length of the stream as just read.
	Length int64
	// Foreign says that the stream holds entries which pages leave out.
	Foreign bool
	// Slack is how many records must be due before anything is; at least 1.
	Slack int64
}

// Locate finds the line. It reads at most as many records as are due, or as
// many as stay, whichever is less. Errors are those of live.
func Locate(ctx context.Context, live Live, q Query) (Line, error) {
	s, err := decide(q.Keep, facts{now: q.Now, length: q.Length, foreign: q.Foreign, slack: q.Slack})
	if err != nil {
		return Line{}, err
	}
	switch s.way {
	case nothing:
		return Line{}, nil
	case fromHead:
		return locateFromHead(ctx, live, q.Keep.Last, s)
	case fromTop:
		return locateFromTop(ctx, live, s.n)
	default:
		return locateByTime(ctx, live, s.bound, q.Slack)
	}
}

func locateFromHead(ctx context.Context, live Live, keep int64, s step) (Line, error) {
	var walked int64
	var last evtid.ID
	for walked < s.n {
		page, _, err := live.Page(ctx, last, evtid.Max, int(min(s.n-walked, pageSize)))
		if err != nil {
			return Line{}, err
		}
		if len(page) == 0 {
			break
		}
		walked, last = walked+int64(len(page)), page[len(page)-1].ID
	}
	info, err := live.Info(ctx)
	if err != nil || walked == 0 || !confirmed(keep, walked, info.Length) {
		// Somebody else trimmed meanwhile: what is left is looked at next time.
		return Line{}, err
	}
	return Line{Through: last, More: s.more}, nil
}

func locateFromTop(ctx context.Context, live Live, keep int64) (Line, error) {
	below := evtid.Max
	for left := keep + 1; left > 0; {
		n := min(left, pageSize)
		page, err := live.PageBefore(ctx, evtid.ID{}, below, int(n))
		if err != nil || int64(len(page)) < n {
			return Line{}, err
		}
		if left -= n; left == 0 {
			return Line{Through: page[n-1].ID}, nil
		}
		below = page[n-1].ID.Prev()
	}
	return Line{}, nil
}

func locateByTime(ctx context.Context, live Live, bound evtid.ID, slack int64) (Line, error) {
	if slack > 1 {
		page, _, err := live.Page(ctx, evtid.ID{}, bound, int(slack))
		if err != nil || int64(len(page)) < slack {
			return Line{}, err
		}
	}
	page, err := live.PageBefore(ctx, evtid.ID{}, bound, 1)
	if err != nil || len(page) == 0 {
		return Line{}, err
	}
	return Line{Through: page[0].ID}, nil
}

// Left reports whether an entry at or below through is still there.
func Left(ctx context.Context, live Live, through evtid.ID) (bool, error) {
	page, _, err := live.Page(ctx, evtid.ID{}, through, 1)
	return len(page) > 0, err
}

// Newer returns the newer of two ids.
func Newer(a, b evtid.ID) evtid.ID {
	if a.Less(b) {
		return b
	}
	return a
}

// Older returns the older of two ids.
func Older(a, b evtid.ID) evtid.ID {
	if b.Less(a) {
		return b
	}
	return a
}
