package archive

import (
	"context"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

// Live is the half of the log that is still in Redis, as the merged reader
// needs it. redislog implements it.
type Live interface {
	// Last returns the stream's last-generated-id, the zero ID when the stream
	// does not exist. It is never below an appended record, trimmed or not.
	Last(ctx context.Context) (evtid.ID, error)

	// Page returns up to n records with after < id <= to in mint order,
	// together with the floor that was read behind them in the same pipeline.
	// floor is the zero ID when there is no floor key.
	Page(ctx context.Context, after, to evtid.ID, n int) (page []evtlog.Record, floor evtid.ID, err error)

	// PageBefore returns up to n records with after < id <= to, newest first.
	PageBefore(ctx context.Context, after, to evtid.ID, n int) ([]evtlog.Record, error)
}
