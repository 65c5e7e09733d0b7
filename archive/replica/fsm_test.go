package replica

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/archive/replica/command"
	"github.com/evtlog/evtlog/archive/volume"
	"github.com/evtlog/evtlog/evtid"
)

var testIncarnation = [16]byte{7}

// fsmRig is a state machine without raft.
type fsmRig struct {
	*fsm
	t       *testing.T
	stopped error
	alarms  []Alarm
	suspect []evtlog.StreamName
	fault   error
}

func newFSM(t *testing.T) *fsmRig {
	t.Helper()
	rig := &fsmRig{t: t}
	log := slog.New(slog.DiscardHandler)
	alarm := func(a Alarm) { rig.alarms = append(rig.alarms, a) }
	st, err := openStore(filepath.Join(t.TempDir(), volumesFile), log, func() error { return rig.fault }, alarm)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.close(); err != nil {
			t.Error(err)
		}
	})
	rig.fsm = &fsm{
		store: st, log: log, ctx: context.Background(), alarm: alarm,
		stop: func(err error) { rig.stopped = err },
		mend: func(s evtlog.StreamName, _ error) { rig.suspect = append(rig.suspect, s) },
	}
	return rig
}

// entry is a fold of the single record number n on the one before it.
func (r *fsmRig) entry(index, term uint64, n int) *raft.Log {
	r.t.Helper()
	id := func(n int) evtid.ID {
		if n == 0 {
			return evtid.ID{}
		}
		id, err := evtid.Make(evtid.EpochMillis+int64(n), 1, 0)
		if err != nil {
			r.t.Fatal(err)
		}
		return id
	}
	body, err := volume.EncodeCommit(nil, scores, id(n-1), []evtlog.Record{{ID: id(n)}})
	if err != nil {
		r.t.Fatal(err)
	}
	c := command.Command{Op: command.OpFold, Incarnation: testIncarnation, Stream: scores, Body: body}
	return &raft.Log{Index: index, Term: term, Type: raft.LogCommand, Data: c.Append(nil)}
}

func (r *fsmRig) apply(logs ...*raft.Log) []applied {
	r.t.Helper()
	res := r.ApplyBatch(logs)
	if len(res) != len(logs) {
		r.t.Fatalf("%d answers to %d entries", len(res), len(logs))
	}
	out := make([]applied, len(res))
	for i, a := range res {
		out[i] = a.(applied)
	}
	return out
}

func (r *fsmRig) lsn() uint64 {
	r.t.Helper()
	h, err := r.store.head(scores)
	if err != nil {
		r.t.Fatal(err)
	}
	return h.LSN
}

func TestFSMAppliesOnceAndNeverSaysOKForASkip(t *testing.T) {
	f := newFSM(t)
	batch := []*raft.Log{f.entry(5, 1, 1), {Index: 6, Term: 1, Type: raft.LogConfiguration}, f.entry(7, 1, 2), f.entry(8, 1, 2), f.entry(9, 1, 9)}
	got := f.apply(batch...)
	if got[0].err != nil || got[2].err != nil || f.lsn() != 2 {
		t.Fatalf("%v, LSN %d", got, f.lsn())
	}
	if got[3].err != nil || got[3].watermark != got[2].watermark {
		t.Errorf("the same fold again: %v; want the answer it had", got[3])
	}
	if !errors.Is(got[4].err, archive.ErrConflict) {
		t.Errorf("a fold on another watermark: %v", got[4].err)
	}
	for i, a := range f.apply(f.entry(5, 1, 1), f.entry(7, 1, 2)) {
		if !errors.Is(a.err, errSkipped) {
			t.Errorf("replayed entry %d: %v", i, a)
		}
	}
	if f.lsn() != 2 || f.stopped != nil {
		t.Errorf("LSN %d, stopped %v", f.lsn(), f.stopped)
	}
}

func TestFSMStopsAtARewrittenPast(t *testing.T) {
	f := newFSM(t)
	f.apply(f.entry(5, 1, 1), f.entry(6, 1, 2))
	f.apply(f.entry(4, 2, 3))
	if !errors.Is(f.stopped, errRewritten) {
		t.Fatalf("stopped by %v", f.stopped)
	}
	if got := f.apply(f.entry(9, 2, 3)); got[0].err == nil || f.lsn() != 2 {
		t.Errorf("went on after it: %v", got)
	}
	if _, err := f.Snapshot(); err == nil {
		t.Error("a broken state machine took a snapshot")
	}
}

func TestFSMRefusesAnotherIncarnation(t *testing.T) {
	f := newFSM(t)
	f.apply(f.entry(5, 1, 1))
	other := f.entry(6, 1, 2)
	c, err := command.Decode(other.Data)
	if err != nil {
		t.Fatal(err)
	}
	c.Incarnation[1] = 9
	other.Data = c.Append(nil)
	f.apply(other)
	if !errors.Is(f.stopped, api.ErrForeignCluster) || f.lsn() != 1 {
		t.Errorf("stopped by %v at LSN %d", f.stopped, f.lsn())
	}
}

func TestFSMParksTheVolumeOfABadEntry(t *testing.T) {
	for name, spoil := range map[string]func(*raft.Log){
		"damaged body":      func(l *raft.Log) { l.Data[len(l.Data)-8] ^= 1 },
		"unknown operation": func(l *raft.Log) { l.Data = command.Command{Op: 77, Stream: scores}.Append(nil) },
		"no commit inside": func(l *raft.Log) {
			l.Data = command.Command{Op: command.OpFold, Incarnation: testIncarnation, Stream: scores, Body: []byte("rubbish")}.Append(nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFSM(t)
			f.apply(f.entry(5, 1, 1))
			bad := f.entry(6, 1, 2)
			spoil(bad)
			got := f.apply(bad, f.entry(7, 1, 3))
			if !errors.Is(got[0].err, errPassedOver) || !errors.Is(got[1].err, errPassedOver) || f.stopped != nil {
				t.Fatalf("%v, stopped %v", got, f.stopped)
			}
			if len(f.alarms) != 1 || len(f.suspect) != 1 || f.lsn() != 1 {
				t.Errorf("%d alarms, %d repairs, LSN %d", len(f.alarms), len(f.suspect), f.lsn())
			}
			if _, err := f.store.watermark(scores); !errors.Is(err, archive.ErrCorrupt) {
				t.Errorf("a parked volume is served: %v", err)
			}
			if _, err := f.Snapshot(); err == nil {
				t.Error("a snapshot was taken while a volume is parked")
			}
			if ok, err := f.store.unpark(scores, 6); ok || err != nil {
				t.Errorf("unparked by a copy that lacks entry 7: %t, %v", ok, err)
			}
			if ok, err := f.store.unpark(scores, 7); !ok || err != nil {
				t.Errorf("not unparked: %t, %v", ok, err)
			}
		})
	}
}

func TestFSMStopsAtAnEntryThatNamesNobody(t *testing.T) {
	f := newFSM(t)
	f.apply(&raft.Log{Index: 5, Term: 1, Type: raft.LogCommand, Data: []byte("rubbish")})
	if !errors.Is(f.stopped, command.ErrBad) {
		t.Errorf("stopped by %v", f.stopped)
	}
}

func TestFSMWriteErrorLosesNothing(t *testing.T) {
	f := newFSM(t)
	f.apply(f.entry(5, 1, 1))
	f.fault = errors.New("the disk is gone")
	if got := f.apply(f.entry(6, 1, 2)); got[0].err == nil || f.stopped == nil {
		t.Fatalf("%v, stopped %v", got, f.stopped)
	}
	f.fault = nil
	if got := f.apply(f.entry(7, 1, 3)); got[0].err == nil || f.lsn() != 1 {
		t.Errorf("went on after a failed write: %v, LSN %d", got, f.lsn())
	}
}

func TestFSMComparesDigests(t *testing.T) {
	f := newFSM(t)
	f.apply(f.entry(5, 1, 1))
	h, err := f.store.head(scores)
	if err != nil {
		t.Fatal(err)
	}
	state := func(index uint64, chain [32]byte, lsn uint64) {
		body := command.EncodeDigests([]command.Digest{{Stream: scores, LSN: lsn, Chain: chain}})
		c := command.Command{Op: command.OpDigest, Incarnation: testIncarnation, Body: body}
		f.apply(&raft.Log{Index: index, Term: 1, Type: raft.LogCommand, Data: c.Append(nil)})
	}
	state(6, h.Chain, h.LSN)
	if len(f.suspect) != 0 {
		t.Fatal("a chain that agrees is suspected")
	}
	state(7, [32]byte{1}, h.LSN)
	state(8, h.Chain, h.LSN+1)
	if len(f.suspect) != 2 {
		t.Errorf("%d of two differences were noticed", len(f.suspect))
	}
}

func TestFSMRestoreOfACoveredManifestNeedsNobody(t *testing.T) {
	f := newFSM(t)
	f.apply(f.entry(5, 1, 1))
	snap, err := f.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	encoded := snap.(manifestSnapshot).encoded
	f.apply(f.entry(6, 1, 2))
	if err := f.Restore(io.NopCloser(bytes.NewReader(encoded))); err != nil || f.lsn() != 2 {
		t.Errorf("%v, LSN %d", err, f.lsn())
	}
	empty := newFSM(t)
	if err := empty.Restore(io.NopCloser(bytes.NewReader(encoded))); err == nil {
		t.Error("a restore without a source claims to have the content")
	}
}

// An entry that comes while a volume is let go again is either passed over, and
// then the volume stays aside, or applied. Once it was passed over after the
// volume was let go, and nobody would have repaired it any more.
func TestNoEntryIsPassedOverBehindARepair(t *testing.T) {
	r := newFSM(t)
	for round := range uint64(200) {
		index := 10 * (round + 1)
		if err := r.store.park(scores, "the test sets it aside"); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			done <- r.store.update(func(tx *storeTx) error {
				if tx.parked(scores) == "" {
					return nil
				}
				return tx.park(scores, "", index)
			})
		}()
		whole, err := r.store.unpark(scores, index-1)
		if err = errors.Join(err, <-done); err != nil {
			t.Fatal(err)
		}
		if reason := r.store.parkedReason(scores); whole != (reason == "") {
			t.Fatalf("round %d: the repair ended: %t, but the volume is aside for %q", round, whole, reason)
		}
		if whole, err = r.store.unpark(scores, index); err != nil || !whole {
			t.Fatalf("round %d: %t, %v", round, whole, err)
		}
	}
}
