package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/raft"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/archive/replica/command"
	pb "github.com/evtlog/evtlog/archive/replica/replicapb"
	"github.com/evtlog/evtlog/archive/volume"
	"github.com/evtlog/evtlog/evtid"
)

// notLeading returns nil when this node leads, else who does.
func (n *Node) notLeading() *api.NotLeaderError {
	e := n.engine()
	if e == nil {
		return &api.NotLeaderError{}
	}
	r := e.raft.Load()
	if r == nil {
		return &api.NotLeaderError{}
	}
	if r.State() == raft.Leader {
		return nil
	}
	return e.leader()
}

// running returns the engine with raft running, or api.ErrNotReady.
func (n *Node) running() (*engine, *raft.Raft, error) {
	e := n.engine()
	if e == nil || e.raft.Load() == nil {
		return nil, nil, fmt.Errorf("replica: node %s: %w", n.cfg.ID, api.ErrNotReady)
	}
	return e, e.raft.Load(), nil
}

// serving returns the volumes, or api.ErrNotReady.
func (n *Node) serving() (*store, error) {
	e := n.engine()
	if e == nil || e.store == nil {
		return nil, fmt.Errorf("replica: node %s: %w", n.cfg.ID, api.ErrNotReady)
	}
	return e.store, nil
}

// propose commits one fold through raft, on the leader; behind as FoldBehind says.
// Errors say whether it may have been proposed: *api.NotLeaderError and
// api.ErrNotReady were not, *api.UncertainError may.
func (n *Node) propose(ctx context.Context, stream evtlog.StreamName, prev evtid.ID, records []evtlog.Record, behind bool) (evtid.ID, error) {
	e, r, err := n.running()
	if err != nil {
		return evtid.ID{}, err
	}
	if reason := e.store.parkedReason(stream); reason != "" {
		return evtid.ID{}, fmt.Errorf("replica: the leader has set %s aside: %s: %w", stream, reason, api.ErrNotReady)
	}
	body, err := volume.EncodeCommit(nil, stream, prev, records)
	if err != nil {
		return evtid.ID{}, err
	}
	cmd := command.Command{Op: command.OpFold, Incarnation: e.store.incarnation(), Stream: stream, Body: body}
	encoded := cmd.Append(make([]byte, 0, len(body)+320))
	if limit, ok := command.Size(len(encoded), len(records)); !ok {
		return evtid.ID{}, &api.TooLargeError{Stream: stream, Size: int64(len(encoded)), Limit: int64(limit)}
	}
	if behind {
		e.awaitPredecessor(ctx, stream, prev)
	}
	last := records[len(records)-1].ID
	res, err := e.apply(ctx, r, encoded, passage{
		given: func() { e.lanes.enter(stream, last) }, answered: func() { e.lanes.leave(stream, last) },
	})
	switch {
	case err == nil:
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return evtid.ID{}, e.leader()
	case errors.Is(err, raft.ErrEnqueueTimeout):
		return evtid.ID{}, fmt.Errorf("replica: the leader's queue is full: %w", api.ErrNotReady)
	default:
		return evtid.ID{}, &api.UncertainError{Stream: stream, Prev: prev, Last: last, Err: err}
	}
	switch {
	case errors.Is(res.err, errSkipped), errors.Is(res.err, errPassedOver), errors.Is(res.err, errWrite), errors.Is(res.err, errRewritten):
		return evtid.ID{}, &api.UncertainError{Stream: stream, Prev: prev, Last: last, Err: res.err}
	case errors.Is(res.err, archive.ErrConflict):
		return evtid.ID{}, &archive.ConflictError{Stream: stream, Prev: prev, Watermark: res.watermark}
	case res.err != nil:
		return evtid.ID{}, res.err
	}
	return res.watermark, nil
}

// enqueueTimeout bounds how long a command waits to be taken by raft.
const enqueueTimeout = 2 * time.Second

// passage is told when raft was given a command, whatever it makes of it, and when
// it has answered.
type passage struct{ given, answered func() }

// apply hands one encoded command to raft and waits for the state machine's
// answer, or for ctx. An abandoned wait ends by itself, when raft answers.
func (e *engine) apply(ctx context.Context, r *raft.Raft, encoded []byte, p passage) (applied, error) {
	wait := enqueueTimeout
	if d, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(d))
	}
	if wait <= 0 {
		return applied{}, raft.ErrEnqueueTimeout
	}
	var future raft.ApplyFuture
	err := e.await(ctx, func() raft.Future {
		e.pending.Add(1)
		future = r.Apply(encoded, wait)
		p.given()
		return future
	}, func() { e.pending.Add(-1); p.answered() })
	if err != nil {
		return applied{}, err
	}
	res, ok := future.Response().(applied)
	if !ok {
		return applied{}, fmt.Errorf("replica: unexpected answer %T of the state machine", future.Response())
	}
	return res, nil
}

// await asks raft for something and waits for its answer or for ctx, whichever
// comes first. finally, which may be nil, runs when raft has answered.
//
// raft leaves some questions unanswered that reach it while it shuts down. So
// none is asked once the engine stops, and the engine waits for the answers to
// those asked before it shuts raft down. Only behind a disk that hangs may a
// question stay open, and with it its goroutine, for the rest of the process.
func (e *engine) await(ctx context.Context, ask func() raft.Future, finally func()) error {
	e.asked.Add(1)
	if e.ctx.Err() != nil {
		e.asked.Add(-1)
		return raft.ErrRaftShutdown
	}
	future := ask()
	if finally == nil {
		finally = func() {}
	}
	done := make(chan error, 1)
	go func() {
		defer e.asked.Add(-1)
		err := future.Error()
		finally()
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// settleReads returns once this node is known to lead and to have applied
// everything that was acknowledged before the call.
func (n *Node) settleReads(ctx context.Context) error {
	e, r, err := n.running()
	if err != nil {
		return err
	}
	if err := e.await(ctx, r.VerifyLeader, nil); err != nil {
		return e.readError(err)
	}
	if err := e.await(ctx, func() raft.Future { return r.Barrier(enqueueTimeout) }, nil); err != nil {
		return e.readError(err)
	}
	return nil
}

// readError turns raft's refusal of a read into what a caller may retry: reads
// change nothing.
func (e *engine) readError(err error) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, raft.ErrRaftShutdown), errors.Is(err, raft.ErrEnqueueTimeout):
		return fmt.Errorf("replica: %w: %w", api.ErrNotReady, err)
	}
	return e.leader()
}

func (n *Node) localWatermark(stream evtlog.StreamName) (evtid.ID, error) {
	st, err := n.serving()
	if err != nil {
		return evtid.ID{}, err
	}
	return st.watermark(stream)
}

// waitFor returns once the volume has reached a watermark. tick, which may be
// nil, is called every keepAlive while it has not. archive.ErrBehind when ctx
// ends first.
func (n *Node) waitFor(ctx context.Context, stream evtlog.StreamName, at evtid.ID, tick func() error) error {
	t := time.NewTicker(keepAlive)
	defer t.Stop()
	for {
		st, err := n.serving()
		var changed <-chan struct{}
		if err == nil {
			changed = st.changed()
			w, err := st.watermark(stream)
			if err != nil {
				return err
			}
			if !w.Less(at) {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("replica: node %s has not reached %s of %s: %w: %w", n.cfg.ID, at, stream, archive.ErrBehind, ctx.Err())
		case <-n.ctx.Done():
			return fmt.Errorf("replica: node %s stops: %w", n.cfg.ID, api.ErrNotReady)
		case <-changed:
		case <-t.C:
			if tick != nil {
				if err := tick(); err != nil {
					return err
				}
			}
		}
	}
}

// serveRead streams a range, once the node has reached AtLeast.
func (n *Node) serveRead(ctx context.Context, stream evtlog.StreamName, r archive.Range, out *connect.ServerStream[pb.ReadResponse]) error {
	alive := func() error { return out.Send(&pb.ReadResponse{}) }
	if !r.AtLeast.IsZero() {
		if err := n.waitFor(ctx, stream, r.AtLeast, alive); err != nil {
			return err
		}
	}
	st, err := n.serving()
	if err != nil {
		return err
	}
	w, err := st.watermark(stream)
	if err != nil {
		return err
	}
	if r.To.IsZero() || w.Less(r.To) {
		r.To = w
	}
	if !r.After.Less(r.To) {
		return nil
	}
	if err := out.Send(&pb.ReadResponse{To: r.To.String()}); err != nil {
		return err
	}
	var page []evtlog.Record
	// Small at first, for short windows and readers that leave early.
	size, limit := 0, firstPage
	flush := func() error {
		if len(page) == 0 {
			return nil
		}
		err := out.Send(&pb.ReadResponse{Records: api.RecordsToWire(page)})
		page, size, limit = page[:0], 0, min(2*limit, pageRecords)
		return err
	}
	for rec, err := range st.read(ctx, stream, r) {
		if err != nil {
			n.suspect(stream, err)
			return errors.Join(flush(), err)
		}
		page = append(page, rec)
		if size += evtlog.Size(rec.Fields) + 32; size >= pageBytes || len(page) >= limit {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// serveCommits streams stored commits, in chunks of about pageBytes.
func (n *Node) serveCommits(ctx context.Context, stream evtlog.StreamName, after, to uint64, out *connect.ServerStream[pb.CommitsResponse]) error {
	st, err := n.serving()
	if err != nil {
		return err
	}
	var chunk [][]byte
	size := 0
	for c, err := range st.commits(ctx, stream, after, to) {
		if err != nil {
			n.suspect(stream, err)
			return err
		}
		chunk = append(chunk, c)
		if size += len(c); size >= pageBytes {
			if err := out.Send(&pb.CommitsResponse{Commits: chunk}); err != nil {
				return err
			}
			chunk, size = nil, 0
		}
	}
	if len(chunk) == 0 {
		return nil
	}
	return out.Send(&pb.CommitsResponse{Commits: chunk})
}

// readable returns the volumes once they have reached a watermark.
func (n *Node) readable(ctx context.Context, stream evtlog.StreamName, at evtid.ID) (*store, error) {
	if !at.IsZero() {
		if err := n.waitFor(ctx, stream, at, nil); err != nil {
			return nil, err
		}
	}
	return n.serving()
}

// intact reports whether a volume can be served here.
func (n *Node) intact(stream evtlog.StreamName) bool {
	_, err := n.localWatermark(stream)
	return err == nil
}
