package replica

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/archive/replica/client"
	"github.com/evtlog/evtlog/evtid"
)

// embedded is the archive as seen from inside a node's process. Folds go
// straight into raft when this node leads. Everything else, and whatever is left
// open, is the client's: it finds the leader and settles what is uncertain.
type embedded struct {
	n      *Node
	remote *client.Client

	mu sync.Mutex
	// seen is the newest watermark this process knows of each stream.
	seen map[evtlog.StreamName]evtid.ID
}

var (
	_ archive.Pipelined = (*embedded)(nil)
	_ archive.Limited   = (*embedded)(nil)
)

// MaxRecordBytes implements archive.Limited.
func (a *embedded) MaxRecordBytes() int { return a.remote.MaxRecordBytes() }

// FoldsInFlight implements archive.Pipelined.
func (a *embedded) FoldsInFlight() int { return a.remote.FoldsInFlight() }

// Fold implements archive.Archive; errors are those of client.Client.
func (a *embedded) Fold(ctx context.Context, stream evtlog.StreamName, prev evtid.ID, records []evtlog.Record) (evtid.ID, error) {
	return a.fold(ctx, stream, prev, records, false)
}

// FoldBehind implements archive.Pipelined; errors are those of client.Client.
func (a *embedded) FoldBehind(ctx context.Context, stream evtlog.StreamName, prev evtid.ID, records []evtlog.Record) (evtid.ID, error) {
	return a.fold(ctx, stream, prev, records, true)
}

func (a *embedded) fold(ctx context.Context, stream evtlog.StreamName, prev evtid.ID, records []evtlog.Record, behind bool) (evtid.ID, error) {
	if err := ctx.Err(); err != nil {
		return evtid.ID{}, fmt.Errorf("replica: fold into %s: %w: nothing was sent", stream, err)
	}
	if err := archive.CheckFold(stream, prev, records); err != nil {
		return evtid.ID{}, err
	}
	doubt := error(nil)
	if a.n.notLeading() == nil {
		w, err := a.n.propose(ctx, stream, prev, records, behind)
		if err == nil {
			a.note(stream, w)
		}
		switch {
		case errors.Is(err, api.ErrUncertain):
			doubt = err
		case errors.Is(err, api.ErrNotLeader), errors.Is(err, api.ErrNotReady):
		default:
			return w, err
		}
	}
	remote := a.remote.Fold
	if behind {
		remote = a.remote.FoldBehind
	}
	w, err := remote(ctx, stream, prev, records)
	if err == nil {
		a.note(stream, w)
		return w, nil
	}
	if doubt != nil && errors.Is(err, api.ErrNoLeader) {
		return evtid.ID{}, &api.UncertainError{Stream: stream, Prev: prev, Last: records[len(records)-1].ID, Err: errors.Join(doubt, err)}
	}
	return w, err
}

// Watermark implements archive.Archive; errors are those of client.Client.
func (a *embedded) Watermark(ctx context.Context, stream evtlog.StreamName) (evtid.ID, error) {
	if a.n.notLeading() == nil && a.n.settleReads(ctx) == nil {
		w, err := a.n.localWatermark(stream)
		if err == nil {
			a.note(stream, w)
			return w, nil
		}
	}
	w, err := a.remote.Watermark(ctx, stream)
	if err == nil {
		a.note(stream, w)
	}
	return w, err
}

// Read implements archive.Archive. It reads this node's own volumes, once they
// have reached AtLeast and what this process has seen; a volume that cannot be
// served here is read from another node.
func (a *embedded) Read(ctx context.Context, stream evtlog.StreamName, r archive.Range) iter.Seq2[evtlog.Record, error] {
	return func(yield func(evtlog.Record, error) bool) {
		if w := a.known(stream); r.AtLeast.Less(w) {
			r.AtLeast = w
		}
		st, err := a.n.readable(ctx, stream, r.AtLeast)
		if errors.Is(err, archive.ErrBehind) {
			yield(evtlog.Record{}, err)
			return
		}
		started := false
		if err == nil {
			for rec, err := range st.read(ctx, stream, r) {
				if err != nil && !started && errors.Is(err, archive.ErrCorrupt) {
					a.n.suspect(stream, err)
					break
				}
				if started = true; !yield(rec, err) || err != nil {
					return
				}
			}
			if started || ctx.Err() != nil {
				return
			}
			if a.n.intact(stream) {
				return
			}
		}
		for rec, err := range a.remote.Read(ctx, stream, r) {
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
}

func (a *embedded) note(stream evtlog.StreamName, w evtid.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.seen == nil {
		a.seen = map[evtlog.StreamName]evtid.ID{}
	}
	if a.seen[stream].Less(w) {
		a.seen[stream] = w
	}
}

func (a *embedded) known(stream evtlog.StreamName) evtid.ID {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen[stream]
}
