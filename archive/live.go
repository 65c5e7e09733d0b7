package archive

import (
	"context"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

// Live is the half of the log that is still in Redis, as the merged reader
// needs it. redislog implements it. All methods are safe for concurrent use.
//
// An entry in the range of a page whose position no id can have ends the page
// with an error that wraps evtlog.ErrForeignEntry; the records before it, and
// the floor, come with that error. No other error comes with records.
type Live interface {
	// Last returns the stream's last-generated-id, the zero ID when the stream
	// does not exist. It is never below an appended record, trimmed or not.
	Last(ctx context.Context) (evtid.ID, error)

	// Page returns up to n records with after < id <= to in mint order,
	// together with the floor that was read behind them in the same pipeline,
	// never before them. floor is the zero ID when there is no floor key. Fewer
	// than n records mean that there were no others in the range. The records
	// belong to the caller.
	Page(ctx context.Context, after, to evtid.ID, n int) (page []evtlog.Record, floor evtid.ID, err error)

	// PageBefore returns up to n records with after < id <= to, newest first.
	PageBefore(ctx context.Context, after, to evtid.ID, n int) ([]evtlog.Record, error)
}
