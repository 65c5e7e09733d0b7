package replica

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"

	"github.com/evtlog/evtlog/archive/replica/api"
	pb "github.com/evtlog/evtlog/archive/replica/replicapb"
	"github.com/evtlog/evtlog/archive/replica/snapstore"
	"github.com/evtlog/evtlog/archive/replica/streamlayer"
)

// askEvery is the pause between two rounds of questions to peers.
const askEvery = 250 * time.Millisecond

// decide finds out how the node may begin and settles its identity. It asks the
// peers until they know enough, or ctx ends.
func (e *engine) decide(ctx context.Context) (start, error) {
	f, err := e.ownFacts()
	if err != nil {
		return startRefused, err
	}
	for {
		f.peers = f.peers[:0]
		var leader *pb.StatusResponse
		for _, st := range e.n.askPeers(ctx, e.n.addressesAround(e.past)) {
			v := viewOf(st, e.n.cfg.ID)
			f.peers = append(f.peers, v)
			if v.leads {
				leader = st
			}
		}
		how, err := decideStart(f)
		if how == startJoin && !e.confirmed(ctx, leader, notVoter) {
			how = startAsk
		}
		switch {
		case err != nil:
			return startRefused, err
		case how == startAsk:
			if !sleep(ctx, askEvery) {
				return startRefused, fmt.Errorf("replica: node %s is empty and no peer of %v could name a leader of cluster %q, if that is the one they belong to: %w: %w", e.n.cfg.ID, e.n.cfg.Peers, e.n.cfg.Cluster, api.ErrNoLeader, ctx.Err())
			}
			continue
		case how == startBootstrap:
			return how, e.settleIdentity(newIncarnation(f.volumes.Incarnation))
		case how == startJoin:
			return how, e.settleIdentity(leader.GetIncarnation())
		case how == startRejoin:
			// The log is about to be set aside and may not even be writable.
			id := api.Identity{Cluster: e.n.cfg.Cluster, Incarnation: leader.GetIncarnation()}
			e.n.who.Store(&id)
			return how, e.store.setIdentity(id)
		}
		return how, e.settleIdentity(max(f.volumes.Incarnation, f.raftState.Incarnation))
	}
}

// ownFacts looks at the disk.
func (e *engine) ownFacts() (bootFacts, error) {
	cfg := e.n.cfg
	f := bootFacts{
		id: cfg.ID, bootstrap: cfg.Bootstrap, rejoin: cfg.Rejoin || e.n.isRejoining(),
		configured: api.Identity{Cluster: cfg.Cluster}, hasPeers: len(e.n.addressesAround(e.past)) > 0,
		volumes: e.store.identity(),
	}
	heads, err := e.store.heads()
	if err != nil {
		return f, err
	}
	f.volumesEmpty = len(heads) == 0
	if f.raftState, err = e.logs.identity(); errors.Is(err, errDamaged) {
		e.noteDamage(err)
	} else if err != nil {
		return f, err
	}
	if err := e.inspect(); err != nil {
		return f, err
	}
	if err := e.damage.Load(); err != nil {
		f.damaged = *err
		f.mendedLately = mendedLately(filepath.Join(cfg.Dir, quarantineDir), time.Now())
	}
	f.raftEmpty, err = e.raftEmpty()
	e.empty.Store(f.raftEmpty)
	return f, err
}

// inspect looks for damage in the whole log, not only in what raft is going to
// read: what a leader reads later goes to the others.
func (e *engine) inspect() error {
	_, err := e.logs.verify(e.ctx)
	if err == nil {
		_, _, err = e.uncovered()
	}
	if errors.Is(err, errDamaged) {
		e.noteDamage(err)
		return nil
	}
	return err
}

// lastMembership returns the members as the node's disk has them: those of the
// newest snapshot, or of an entry behind it. Damage on the way is an error with
// the last ones found before it.
func (e *engine) lastMembership() ([]raft.Server, error) {
	stored, err := e.snaps.All()
	if err != nil {
		return nil, err
	}
	var servers []raft.Server
	from := uint64(1)
	if len(stored) > 0 {
		servers, from = stored[0].Meta.Configuration.Servers, stored[0].Meta.Index+1
	}
	first, err := e.logs.FirstIndex()
	if err != nil {
		return nil, fmt.Errorf("replica: read %s: %w", raftFile, err)
	}
	last, err := e.logs.LastIndex()
	if err != nil {
		return nil, fmt.Errorf("replica: read %s: %w", raftFile, err)
	}
	for i := max(first, from); first > 0 && i <= last; i++ {
		var l raft.Log
		if err := e.logs.read(i, &l); err != nil {
			return servers, fmt.Errorf("replica: read entry %d of %s: %w", i, raftFile, err)
		}
		if l.Type == raft.LogConfiguration {
			members, err := membersOf(&l)
			if err != nil {
				return servers, err
			}
			servers = members
		}
	}
	return servers, nil
}

// membersOf decodes an entry of the membership; raft panics on a damaged one.
func membersOf(l *raft.Log) (servers []raft.Server, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("replica: entry %d of %s: %w: %v", l.Index, raftFile, errDamaged, p)
		}
	}()
	return raft.DecodeConfiguration(l.Data).Servers, nil
}

func (e *engine) raftEmpty() (bool, error) {
	stored, err := e.snaps.All()
	if err != nil {
		return false, err
	}
	last, err := e.logs.LastIndex()
	if err != nil {
		return false, fmt.Errorf("replica: read %s: %w", raftFile, err)
	}
	term, err := e.logs.GetUint64([]byte(currentTerm))
	if errors.Is(err, errDamaged) {
		return false, nil
	}
	if err != nil && !isNotFound(err) {
		return false, fmt.Errorf("replica: read %s: %w", raftFile, err)
	}
	return len(stored) == 0 && last == 0 && term == 0, nil
}

// settleIdentity writes the identity to both files and begins to show it. Both
// keep it, so that one without the other, or beside a foreign one, is noticed.
func (e *engine) settleIdentity(incarnation string) error {
	id := api.Identity{Cluster: e.n.cfg.Cluster, Incarnation: incarnation}
	if err := e.store.setIdentity(id); err != nil {
		return err
	}
	if err := e.logs.setIdentity(id); err != nil {
		return err
	}
	e.n.who.Store(&id)
	return nil
}

// coverSnapshots pulls what the newest snapshot names. When raft cannot run
// without that, it goes on until it is done or ctx ends; otherwise one attempt
// must do, as the leader sends what is missing anyway.
func (e *engine) coverSnapshots(ctx context.Context) error {
	for {
		pending, must, err := e.uncovered()
		if err != nil || pending == nil {
			return err
		}
		err = e.cover(ctx, pending.Manifest)
		switch {
		case err == nil:
			return nil
		case !must:
			e.n.cfg.Logger.Warn("a pending snapshot stays pending", "snapshot", pending.Meta.ID, "error", err)
			return nil
		}
		e.n.cfg.Logger.Warn("waiting for the content of the newest snapshot", "snapshot", pending.Meta.ID, "error", err)
		if !sleep(ctx, askEvery) {
			return fmt.Errorf("replica: node %s lacks what its snapshot %s names: %w: %w", e.n.cfg.ID, pending.Meta.ID, ctx.Err(), err)
		}
	}
}

// uncovered returns the newest snapshot above every covered one, nil for none,
// and whether raft cannot run without it.
func (e *engine) uncovered() (pending *snapstore.Stored, must bool, err error) {
	all, err := e.snaps.All()
	if err != nil {
		return nil, false, err
	}
	var covered, newest uint64
	for i, s := range all {
		newest = max(newest, s.Meta.Index)
		if len(s.Gaps) == 0 {
			covered = max(covered, s.Meta.Index)
		} else if pending == nil && covered == 0 {
			pending = &all[i]
		}
	}
	first, err := e.logs.FirstIndex()
	if err != nil {
		return nil, false, fmt.Errorf("replica: read %s: %w", raftFile, err)
	}
	must = !mayRun(first, covered, newest)
	if must && pending == nil {
		return nil, true, fmt.Errorf("replica: %s begins at entry %d but there is no snapshot to start from: %w", raftFile, first, errDamaged)
	}
	return pending, must, nil
}

func (e *engine) streamLayer() (*streamlayer.Layer, error) {
	n := e.n
	l, err := n.listenRaft()
	if err != nil {
		return nil, err
	}
	return streamlayer.New(streamlayer.Config{
		Listener: l, Advertise: n.address, Identity: n.identity, TLS: raftTLS(n.cfg.TLS),
		Dial: n.cfg.faults.dial, Logger: n.cfg.Logger,
	}), nil
}
