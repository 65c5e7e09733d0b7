package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/archive/replica/command"
	"github.com/evtlog/evtlog/archive/replica/manifest"
)

// startLoops starts what runs beside raft.
func (e *engine) startLoops() {
	e.wg.Go(e.watchElections)
	e.wg.Go(e.watchHealth)
	e.wg.Go(e.keepMembership)
	e.wg.Go(e.watchStart)
	e.wg.Go(e.stateDigests)
	e.wg.Go(e.mendVolumes)
}

// watchElections takes raft's notices at once; raft itself waits for that.
func (e *engine) watchElections() {
	for {
		select {
		case <-e.ctx.Done():
			// raft may still want to tell that it leads no more; the channel has room.
			return
		case leads := <-e.elected:
			e.n.elections.Add(1)
			e.n.cfg.Logger.Info("leadership changed", "node", e.n.cfg.ID, "leads", leads)
		}
	}
}

// leaderEnd is how far a leader was when it was asked in its term: where its log
// ended, and the entry of its newest fold. Both are needed: raft counts an entry
// as applied once it has handed it over, and not every entry changes a volume.
type leaderEnd struct{ term, log, fold uint64 }

// watchStart waits until the node has applied what the leader had when this node
// first heard of it. Only then may the next node of a rolling restart go: a node
// that votes but is far behind keeps the others from committing.
func (e *engine) watchStart() {
	var end leaderEnd
	for !e.reached(&end) {
		if !sleep(e.ctx, askEvery) {
			return
		}
	}
	e.caughtUp.Store(true)
}

// reached keeps end for as long as the term lasts: another leader's log may be
// shorter.
func (e *engine) reached(end *leaderEnd) bool {
	r := e.raft.Load()
	if r.State() == raft.Leader {
		ctx, cancel := context.WithTimeout(e.ctx, askTimeout)
		defer cancel()
		return e.n.settleReads(ctx) == nil
	}
	if end.log == 0 || end.term != r.CurrentTerm() {
		*end = e.askLeaderEnd()
	}
	return end.log > 0 && r.AppliedIndex() >= end.log && e.fsm.last.Load() >= end.fold
}

// askLeaderEnd returns zero when no leader could be asked.
func (e *engine) askLeaderEnd() (end leaderEnd) {
	lead, err := api.ParseAddress(e.leader().LeaderAddress)
	if err != nil {
		return end
	}
	for _, st := range e.n.ask(e.ctx, []string{lead.HTTP}) {
		if st.GetState() != stateLeader || st.GetIncarnation() != e.n.identity().Incarnation {
			continue
		}
		end.term, end.log = st.GetTerm(), st.GetLastIndex()
		for _, h := range st.GetHeads() {
			end.fold = max(end.fold, h.GetRaftIndex())
		}
	}
	return end
}

// healthEvery is how often the node looks at itself.
const healthEvery = 500 * time.Millisecond

// watchHealth ends the engine when the disk fills up, when no commit comes
// through, and when the node is no member any more.
func (e *engine) watchHealth() {
	watch := stallWatch{limit: e.n.cfg.CommitWatchdog}
	lonely, short := 0, false
	for sleep(e.ctx, healthEvery) {
		r := e.raft.Load()
		short = e.watchLog(short)
		if free, err := e.n.freeSpace(); err == nil && free < e.n.cfg.ReserveBytes {
			e.fail(fmt.Errorf("replica: %d bytes free on the disk of %s, %d are kept in reserve: %w", free, e.n.cfg.Dir, e.n.cfg.ReserveBytes, errDiskFull))
		}
		if watch.stalled(time.Now(), e.pending.Load(), e.fsm.last.Load()) {
			e.fail(fmt.Errorf("replica: node %s: %w", e.n.cfg.ID, errStalled))
		}
		if r.State() == raft.Shutdown && e.ctx.Err() == nil {
			e.fail(fmt.Errorf("replica: node %s: %w", e.n.cfg.ID, errRemoved))
		}
		if lonely++; r.State() == raft.Leader || time.Since(r.LastContact()) < 4*e.n.cfg.ElectionTimeout {
			lonely = 0
		}
		if lonely > 0 && lonely%10 == 0 && e.settled.Load() && e.wasRemoved() {
			e.fail(fmt.Errorf("replica: node %s: %w", e.n.cfg.ID, errRemoved))
		}
	}
}

// wasRemoved asks the peers: a removed node is not told so by raft.
func (e *engine) wasRemoved() bool {
	for _, st := range e.n.askPeers(e.ctx, e.n.peerAddresses()) {
		v := viewOf(st, e.n.cfg.ID)
		if v.leads && !v.member && e.n.identity().Matches(v.identity) == nil {
			return true
		}
	}
	return false
}

// stallWatch notices a leader whose commands get no answer: heartbeats go on
// when a disk hangs, so no election would ever replace it.
type stallWatch struct {
	limit time.Duration
	since time.Time
	last  uint64
}

// stalled is told at regular times how many commands wait and how far the state
// machine is.
func (w *stallWatch) stalled(now time.Time, pending int64, applied uint64) bool {
	if pending == 0 || applied != w.last || w.since.IsZero() {
		w.since, w.last = now, applied
		return false
	}
	return now.Sub(w.since) > w.limit
}

// stateDigests has all nodes compare their chains with the leader's, whenever
// something was folded since the last time. A difference on a follower would
// otherwise stay unseen, as nobody looks at its answers.
func (e *engine) stateDigests() {
	stated := map[string][32]byte{}
	for sleep(e.ctx, e.n.cfg.CompareEvery) {
		r := e.raft.Load()
		if r.State() != raft.Leader {
			continue
		}
		heads, err := e.store.heads()
		if err != nil {
			continue
		}
		var ds []command.Digest
		for _, h := range heads {
			if stated[h.Stream.String()] != h.Chain && e.store.parkedReason(h.Stream) == "" {
				ds = append(ds, command.Digest{Stream: h.Stream, LSN: h.LSN, Chain: h.Chain})
			}
		}
		for len(ds) > 0 {
			part := ds[:min(len(ds), command.MaxDigests)]
			ds = ds[len(part):]
			cmd := command.Command{Op: command.OpDigest, Incarnation: e.store.incarnation(), Body: command.EncodeDigests(part)}
			ctx, cancel := context.WithTimeout(e.ctx, e.n.cfg.TransportTimeout)
			_, err := e.apply(ctx, r, cmd.Append(nil), passage{given: func() {}, answered: func() {}})
			cancel()
			if err != nil {
				e.n.cfg.Logger.Debug("digests were not stated", "error", err)
				break
			}
			for _, d := range part {
				stated[d.Stream.String()] = d.Chain
			}
		}
	}
}

// restore pulls the content of a snapshot while raft waits for it. It gives up
// when the leader falls silent, since raft neither votes nor takes entries
// meanwhile: the node must be free to elect another one.
func (e *engine) restore(ctx context.Context, m manifest.Manifest) error {
	e.restoring.Store(true)
	defer e.restoring.Store(false)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if r := e.raft.Load(); r != nil {
		stop := e.watchLeader(ctx, r, cancel)
		defer stop()
	}
	if hook := e.n.cfg.faults.restore; hook != nil {
		if err := hook(ctx); err != nil {
			return err
		}
	}
	return e.cover(ctx, m)
}

// cover pulls what the node lacks of a manifest, and keeps how long that took.
func (e *engine) cover(ctx context.Context, m manifest.Manifest) error {
	started, before := time.Now(), e.n.pulledBytes.Load()
	err := e.puller.cover(ctx, m)
	took, pulled := time.Since(started), e.n.pulledBytes.Load()-before
	if pulled > 0 {
		e.n.restoreTook.Store(int64(took))
		e.n.cfg.Logger.Info("pulled from a peer", "node", e.n.cfg.ID, "took", took, "bytes", pulled, "error", err)
	}
	return err
}

var errLeaderSilent = errors.New("the leader fell silent while its snapshot was pulled")

// watchLeader cancels when the leader was not heard for a time-out. The silence
// counts from the start of the restore at the earliest, because raft's own time
// of last contact is old after a start.
func (e *engine) watchLeader(ctx context.Context, r *raft.Raft, cancel context.CancelCauseFunc) (stop func()) {
	started := time.Now()
	done := make(chan struct{})
	finished := make(chan struct{})
	limit := e.n.cfg.ElectionTimeout
	go func() {
		defer close(finished)
		t := time.NewTicker(limit / 10)
		defer t.Stop()
		for {
			select {
			case <-done:
				return
			case <-ctx.Done():
				return
			case now := <-t.C:
				if silentFor(now, started, r.LastContact()) > limit {
					cancel(errLeaderSilent)
					return
				}
			}
		}
	}()
	return func() { close(done); <-finished }
}

func silentFor(now, started, lastContact time.Time) time.Duration {
	if lastContact.After(started) {
		started = lastContact
	}
	return now.Sub(started)
}
