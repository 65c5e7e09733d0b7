package client

import (
	"context"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
)

var _ archive.Pipelined = (*Client)(nil)

// foldsInFlight is how many folds of one stream are worth having on their way: with
// eight, those that wait for a disk or the network together go in one write, on
// each node; with sixteen they only wait longer.
const foldsInFlight = 8

// FoldsInFlight implements archive.Pipelined.
func (c *Client) FoldsInFlight() int { return foldsInFlight }

// FoldBehind implements archive.Pipelined; errors are those of Fold. Calls may
// overtake each other on their way; the leader puts them in order again.
func (c *Client) FoldBehind(ctx context.Context, stream evtlog.StreamName, prev evtid.ID, records []evtlog.Record) (evtid.ID, error) {
	return c.fold(ctx, stream, prev, records, true)
}
