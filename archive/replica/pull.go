package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/archive/replica/manifest"
	pb "github.com/evtlog/evtlog/archive/replica/replicapb"
)

// puller brings volumes up to a state that another node has. It writes what it
// gets in durable chunks, so whatever ends a pull, the next one goes on behind
// the last chunk.
type puller struct {
	store *store
	stub  func(address string) pb.ArchiveServiceClient
	// sources returns the HTTP addresses to pull from, best first.
	sources func(m manifest.Manifest) []string
	stall   time.Duration
	alarm   func(Alarm)
	log     *slog.Logger
	bytes   *atomic.Uint64
	commits *atomic.Uint64
}

// errNoSource: none of the nodes asked could give what is missing.
var errNoSource = errors.New("no node could give the missing commits")

// cover pulls everything that the node lacks of a manifest.
func (p *puller) cover(ctx context.Context, m manifest.Manifest) error {
	gaps, err := p.store.missing(m)
	if err != nil {
		return err
	}
	for _, g := range gaps {
		if err := p.fill(ctx, m, g); err != nil {
			return err
		}
	}
	return nil
}

// fill pulls one volume from one source after the other, until it is whole.
func (p *puller) fill(ctx context.Context, m manifest.Manifest, g manifest.Gap) error {
	if g.Diverged {
		if err := p.setAside(g.Want.Stream, "it is not what the cluster has"); err != nil {
			return err
		}
	}
	last := errNoSource
	sources := p.sources(m)
	for _, addr := range sources {
		err := p.from(ctx, addr, g.Want)
		if errors.Is(err, errOtherHistory) {
			// The node's own commits do not lead to what the source has: whole, then.
			if err = p.setAside(g.Want.Stream, err.Error()); err == nil {
				err = p.from(ctx, addr, g.Want)
			}
		}
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p.log.Warn("pull failed; trying the next node", "stream", g.Want.Stream, "node", addr, "error", err)
		last = fmt.Errorf("%w: %w", errNoSource, err)
	}
	return fmt.Errorf("replica: pull of %s up to LSN %d from %v: %w", g.Want.Stream, g.Want.LSN, sources, last)
}

func (p *puller) setAside(stream evtlog.StreamName, why string) error {
	p.alarm(Alarm{Kind: "diverged", Err: fmt.Errorf("replica: volume %s is quarantined and pulled whole: %s", stream, why)})
	return p.store.quarantine(stream)
}

// from pulls one volume from one node, from its own head to want.
func (p *puller) from(ctx context.Context, addr string, want manifest.Volume) error {
	head, err := p.store.head(want.Stream)
	if err != nil {
		return err
	}
	if head.LSN < want.LSN {
		if err := p.stream(ctx, addr, want, head.LSN); err != nil {
			return err
		}
	}
	chain, ok, err := p.store.chainAt(want.Stream, want.LSN)
	switch {
	case err != nil:
		return err
	case !ok:
		return fmt.Errorf("%w: it ends before LSN %d", errNoSource, want.LSN)
	case chain != want.Chain:
		return fmt.Errorf("%w at LSN %d", errOtherHistory, want.LSN)
	}
	return nil
}

// stream makes one Commits call and imports what it yields.
func (p *puller) stream(ctx context.Context, addr string, want manifest.Volume, after uint64) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(p.stall, func() { cancel(fmt.Errorf("replica: node %s was silent for %s", addr, p.stall)) })
	defer silence.Stop()
	res, err := p.stub(addr).Commits(ctx, connect.NewRequest(&pb.CommitsRequest{Stream: api.StreamToWire(want.Stream), AfterLsn: after, ToLsn: want.LSN}))
	if err != nil {
		return errors.Join(context.Cause(ctx), api.FromWire(err))
	}
	defer func() { _ = res.Close() }()
	for res.Receive() {
		silence.Stop()
		chunk := res.Msg().GetCommits()
		if err := p.store.importCommits(want.Stream, chunk); err != nil {
			return err
		}
		for _, c := range chunk {
			p.bytes.Add(uint64(len(c)))
		}
		p.commits.Add(uint64(len(chunk)))
		silence.Reset(p.stall)
	}
	if err := res.Err(); err != nil {
		return errors.Join(context.Cause(ctx), api.FromWire(err))
	}
	return nil
}
