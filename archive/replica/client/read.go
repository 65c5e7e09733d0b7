package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"connectrpc.com/connect"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/replica/api"
	pb "github.com/evtlog/evtlog/archive/replica/replicapb"
	"github.com/evtlog/evtlog/evtid"
)

// Read implements archive.Archive. A node that fails in the middle is replaced
// by another one, and the read goes on after the last record delivered. When
// the context ends while the nodes are still behind AtLeast, the error wraps
// archive.ErrBehind.
func (c *Client) Read(ctx context.Context, stream evtlog.StreamName, r archive.Range) iter.Seq2[evtlog.Record, error] {
	return func(yield func(evtlog.Record, error) bool) {
		if known := c.known(stream); r.AtLeast.Less(known) {
			r.AtLeast = known
		}
		st := &readState{rng: r}
		for n := 0; ; n++ {
			nodes := c.order()
			more, err := c.readFrom(ctx, nodes[n%len(nodes)], stream, st, yield)
			if !more {
				return
			}
			if err == nil {
				return
			}
			c.cfg.Logger.Debug("archive read failed", "node", nodes[n%len(nodes)], "error", err)
			if ended(ctx) || !readNext(err) || !c.wait(ctx, n/len(nodes)) {
				yield(evtlog.Record{}, readError(ctx, stream, st, err))
				return
			}
		}
	}
}

// readState is how far a read has come, over all the nodes it was made on.
type readState struct {
	rng    archive.Range
	pinned bool
	last   evtid.ID
}

func readError(ctx context.Context, stream evtlog.StreamName, st *readState, err error) error {
	if ended(ctx) && !st.pinned && !st.rng.AtLeast.IsZero() && !errors.Is(err, archive.ErrBehind) {
		return fmt.Errorf("client: read of %s: %w: no node reached %s in time: %w", stream, archive.ErrBehind, st.rng.AtLeast, errors.Join(ctx.Err(), err))
	}
	return err
}

// readFrom reads from one node until it ends or fails. more is false when the
// caller stopped ranging; then nothing else may be yielded.
func (c *Client) readFrom(ctx context.Context, addr string, stream evtlog.StreamName, st *readState, yield func(evtlog.Record, error) bool) (more bool, err error) {
	rng := resume(st.rng, st.last)
	if st.pinned && nothingLeft(rng, st.last) {
		return true, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// The node says something at least once a second, also while it waits.
	silence := time.AfterFunc(c.cfg.CallTimeout, func() {
		cancel(fmt.Errorf("client: node %s was silent for %s", addr, c.cfg.CallTimeout))
	})
	defer silence.Stop()
	res, err := c.stub(addr).Read(ctx, connect.NewRequest(&pb.ReadRequest{
		Stream: api.StreamToWire(stream), After: rng.After.String(), To: rng.To.String(),
		AtLeast: rng.AtLeast.String(), Reverse: rng.Reverse,
	}))
	if err != nil {
		return true, cause(ctx, err)
	}
	defer func() { _ = res.Close() }()
	for res.Receive() {
		// What the caller does with the records is not the node's silence.
		silence.Stop()
		more, err := st.deliver(res.Msg(), yield)
		if !more || err != nil {
			return more, err
		}
		silence.Reset(c.cfg.CallTimeout)
	}
	return true, cause(ctx, res.Err())
}

func cause(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if c := context.Cause(ctx); c != nil {
		return errors.Join(c, api.FromWire(err))
	}
	return api.FromWire(err)
}

func (st *readState) deliver(msg *pb.ReadResponse, yield func(evtlog.Record, error) bool) (more bool, err error) {
	if msg.GetTo() != "" && !st.pinned {
		to, err := api.IDFromWire(msg.GetTo())
		if err != nil {
			return true, err
		}
		st.rng.To, st.pinned = to, true
	}
	records, err := api.RecordsFromWire(msg.GetRecords())
	if err != nil {
		return true, err
	}
	for _, r := range records {
		st.last = r.ID
		if !yield(r, nil) {
			return false, nil
		}
	}
	return true, nil
}
