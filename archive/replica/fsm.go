package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/archive/replica/command"
	"github.com/evtlog/evtlog/archive/replica/manifest"
	"github.com/evtlog/evtlog/archive/replica/snapstore"
	"github.com/evtlog/evtlog/archive/volume"
	"github.com/evtlog/evtlog/evtid"
)

// Why the state machine stops the node.
var (
	errRewritten = errors.New("the log was rewritten below what the volumes hold")
	errWrite     = errors.New("the volumes cannot be written")
	// errSkipped answers an entry that the volume held already: it was not applied
	// now, so its caller is not told that it was.
	errSkipped = errors.New("the entry had been applied before")
	// errPassedOver answers an entry of a volume that is set aside here; the other
	// nodes may have applied it.
	errPassedOver = errors.New("the volume is set aside on this node")
)

// applied is the answer to one fold. With archive.ErrConflict the watermark is
// what the volume has.
type applied struct {
	watermark evtid.ID
	err       error
}

// fsm applies the replicated log to the volumes. raft calls it from one
// goroutine. What it decides is in package command; this is the shell.
type fsm struct {
	store  *store
	source string
	log    *slog.Logger
	// stop ends the node's incarnation, for good reasons only.
	stop func(error)
	// alarm reports what the node can live with.
	alarm func(Alarm)
	// mend is told of volumes that need repair.
	mend func(evtlog.StreamName, error)
	// restore pulls what a manifest names; it is set before raft starts, and nil
	// where there is nobody to pull from.
	restore func(context.Context, manifest.Manifest) error
	// installed, which may be nil, is told of each snapshot to restore.
	installed func()
	// anyIncarnation: entries and snapshots of a former incarnation are the truth;
	// for a recovery only.
	anyIncarnation bool
	// ctx ends when the node stops.
	ctx context.Context

	broken atomic.Pointer[error]
	// last is the index of the last entry consumed, or that a snapshot brought.
	last atomic.Uint64
}

var _ raft.BatchingFSM = (*fsm)(nil)

// Apply implements raft.FSM.
func (f *fsm) Apply(l *raft.Log) any { return f.ApplyBatch([]*raft.Log{l})[0] }

// ApplyBatch implements raft.BatchingFSM: one fsynced transaction for the whole
// batch. When it cannot be written, nothing of it was, and nothing after it will
// be: raft believes the entries applied, so the node has to stop, and takes them
// up from its log when it starts again.
func (f *fsm) ApplyBatch(logs []*raft.Log) []any {
	out := make([]any, len(logs))
	if err := f.broken.Load(); err != nil {
		return fill(out, *err)
	}
	err := f.store.update(func(tx *storeTx) error {
		for i, l := range logs {
			res, err := f.applyOne(tx, l)
			if err != nil {
				return err
			}
			out[i] = res
		}
		return nil
	})
	if err != nil {
		f.fail(err)
		return fill(out, err)
	}
	f.last.Store(logs[len(logs)-1].Index)
	return out
}

func fill(out []any, err error) []any {
	for i := range out {
		out[i] = applied{err: err}
	}
	return out
}

func (f *fsm) fail(err error) {
	if f.broken.CompareAndSwap(nil, &err) {
		f.log.Error("the state machine has stopped", "error", err)
		f.stop(err)
	}
}

// applyOne applies one entry inside the transaction. An error ends the batch and
// the node; everything that concerns one volume only is an answer instead.
func (f *fsm) applyOne(tx *storeTx, l *raft.Log) (applied, error) {
	if l.Type != raft.LogCommand {
		return applied{}, nil
	}
	cmd, err := command.Decode(l.Data)
	var bad *command.BadError
	if errors.As(err, &bad) {
		return f.park(tx, l, bad)
	}
	if cmd.Op == command.OpDigest {
		return f.compare(tx, cmd)
	}
	return f.applyFold(tx, l, cmd)
}

func (f *fsm) applyFold(tx *storeTx, l *raft.Log, cmd command.Command) (applied, error) {
	same, err := tx.adoptIncarnation(cmd.Incarnation)
	if err != nil {
		return applied{}, fmt.Errorf("%w: %w", errWrite, err)
	}
	switch command.Decide(same || f.anyIncarnation, tx.parked(cmd.Stream) != "") {
	case command.Foreign:
		return applied{}, fmt.Errorf("replica: entry %d is of incarnation %x: %w", l.Index, cmd.Incarnation, api.ErrForeignCluster)
	case command.Parked:
		if err := tx.park(cmd.Stream, "", l.Index); err != nil {
			return applied{}, fmt.Errorf("%w: %w", errWrite, err)
		}
		return applied{err: errPassedOver}, nil
	}
	res, err := tx.apply(cmd.Stream, cmd.Body, volume.Position{Index: l.Index, Term: l.Term})
	if err != nil {
		return applied{}, fmt.Errorf("%w: %w", errWrite, err)
	}
	switch res.Verdict {
	case volume.Applied, volume.Duplicate:
		return applied{watermark: res.Watermark}, nil
	case volume.Conflict:
		return applied{watermark: res.Head.Watermark, err: archive.ErrConflict}, nil
	case volume.Skipped:
		return applied{err: errSkipped}, nil
	case volume.Rewritten:
		return applied{}, fmt.Errorf("replica: %w: entry %d of term %d, volume %s at index %d of term %d: set this node's directory aside and let it rejoin", errRewritten, l.Index, l.Term, cmd.Stream, res.Head.Index, res.Head.Term)
	}
	return f.park(tx, l, &command.BadError{Stream: cmd.Stream, Damaged: true, Reason: fmt.Sprintf("%s: %v", res.Verdict, res.Err)})
}

// park sets the volume of an entry that cannot be applied aside. Without it the
// volume would go on without the entry, and differ from the other nodes. An
// entry that does not say whose it is stops the node.
func (f *fsm) park(tx *storeTx, l *raft.Log, bad *command.BadError) (applied, error) {
	if bad.Stream == (evtlog.StreamName{}) {
		return applied{}, fmt.Errorf("replica: entry %d of %s cannot be applied: %w", l.Index, raftFile, bad)
	}
	reason := fmt.Sprintf("entry %d: %s", l.Index, bad.Reason)
	if err := tx.park(bad.Stream, reason, l.Index); err != nil {
		return applied{}, fmt.Errorf("%w: %w", errWrite, err)
	}
	f.alarm(Alarm{Kind: "parked", Err: fmt.Errorf("replica: volume %s is set aside: %s", bad.Stream, reason)})
	f.mend(bad.Stream, bad)
	return applied{err: errPassedOver}, nil
}

// compare checks the chains that the leader states against the node's own. A
// node that has not got that far has nothing to compare, which cannot happen
// unless it applied less than the leader.
func (f *fsm) compare(tx *storeTx, cmd command.Command) (applied, error) {
	digests, err := command.DecodeDigests(cmd.Body)
	if err != nil {
		f.alarm(Alarm{Kind: "digest", Err: err})
		return applied{}, nil
	}
	for _, d := range digests {
		if tx.parked(d.Stream) != "" {
			continue
		}
		chain, ok, err := tx.chainAt(d.Stream, d.LSN)
		if err != nil {
			return applied{}, fmt.Errorf("%w: %w", errWrite, err)
		}
		if !ok || chain != d.Chain {
			err := fmt.Errorf("replica: volume %s at LSN %d is not what the leader has", d.Stream, d.LSN)
			f.alarm(Alarm{Kind: "diverged", Err: err})
			f.mend(d.Stream, err)
		}
	}
	return applied{}, nil
}

// Snapshot implements raft.FSM: it notes how far the volumes are. That a broken
// state machine takes none is essential: raft would cut the log behind entries
// that were never written.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	if err := f.broken.Load(); err != nil {
		return nil, *err
	}
	if parked := f.store.allParked(); len(parked) > 0 {
		return nil, fmt.Errorf("replica: no snapshot while volumes are being repaired: %v", parked)
	}
	heads, err := f.store.heads()
	if err != nil {
		return nil, err
	}
	m := manifest.Manifest{Identity: f.store.identity(), Source: f.source, Volumes: heads}
	m.Sort()
	return manifestSnapshot{m.Encode()}, nil
}

type manifestSnapshot struct{ encoded []byte }

// Persist implements raft.FSMSnapshot.
func (s manifestSnapshot) Persist(sink raft.SnapshotSink) error {
	if own, ok := sink.(*snapstore.Sink); ok {
		own.MarkOwn()
	}
	_, err := sink.Write(s.encoded)
	return err
}

// Release implements raft.FSMSnapshot.
func (manifestSnapshot) Release() {}

// Restore implements raft.FSM. A covered manifest costs a look at the heads;
// otherwise what it lacks is pulled. The volumes are kept: they only ever grow.
func (f *fsm) Restore(r io.ReadCloser) error {
	if f.installed != nil {
		f.installed()
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("replica: read a snapshot: %w", err)
	}
	m, err := manifest.Decode(b)
	if err != nil {
		return err
	}
	if err := f.store.identity().Matches(m.Identity); err != nil && !f.anyIncarnation {
		return err
	}
	gaps, err := f.store.missing(m)
	if err != nil {
		return err
	}
	if len(gaps) > 0 && f.restore == nil {
		return fmt.Errorf("replica: the snapshot names commits that this node does not hold, and there is nobody to pull them from")
	}
	if len(gaps) > 0 {
		if err := f.restore(f.ctx, m); err != nil {
			return err
		}
	}
	for _, v := range m.Volumes {
		f.last.Store(max(f.last.Load(), v.RaftIndex))
	}
	return nil
}
