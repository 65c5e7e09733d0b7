package replica

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"connectrpc.com/connect"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive/replica/api"
	pb "github.com/evtlog/evtlog/archive/replica/replicapb"
)

// A node that has lost its log, or cannot trust it, has forgotten its votes and
// what it acknowledged. Under its old vote it could help to elect a leader that
// lacks acknowledged folds. It is safe once the cluster has committed that the
// node is no member: a majority of the others then holds the entry, any majority
// of the former members contains one of these even without the node, and so a
// candidate that still counts on the node's old vote cannot win. Only then may
// raft run without the log, first without a vote.

// What else may be in a node's directory while it rejoins.
const (
	// unreadable is appended to the name of a raft.db that could not be opened.
	unreadable = ".unreadable"
	// rejoining marks a node from before it leaves the cluster until it is a member
	// again: what it finds of its past meanwhile is no reason to found a cluster.
	rejoining = "rejoining"
)

// rejoin starts anew without the raft state. The volumes stay: they are compared
// by chain, and only what is missing is pulled.
func (n *Node) rejoin(ctx context.Context, e *engine) (*engine, error) {
	mark := filepath.Join(n.cfg.Dir, rejoining)
	if err := errors.Join(os.WriteFile(mark, nil, 0o600), syncDir(n.cfg.Dir)); err != nil {
		return nil, fmt.Errorf("replica: %w", err)
	}
	if why := e.damage.Load(); why != nil {
		n.alarm(Alarm{Kind: kindLog, Err: fmt.Errorf("%w: the node rejoins without its log and is brought up by its peers", *why)})
	}
	if err := e.forget(ctx); err != nil {
		return nil, err
	}
	former := n.addressesAround(e.past)
	n.stubMu.Lock()
	n.formerPeers = former
	n.stubMu.Unlock()
	n.eng.Store(nil)
	e.stop()
	if err := n.setRaftAside(); err != nil {
		return nil, err
	}
	return n.startEngine(ctx)
}

// isRejoining reports whether a rejoin was begun and not finished.
func (n *Node) isRejoining() bool {
	_, err := os.Stat(filepath.Join(n.cfg.Dir, rejoining))
	return err == nil
}

// rejoined ends what rejoin began.
func (n *Node) rejoined() {
	if err := os.Remove(filepath.Join(n.cfg.Dir, rejoining)); err != nil && !errors.Is(err, os.ErrNotExist) {
		n.cfg.Logger.Warn("the mark of a rejoin stays", "error", err)
	}
}

// forget takes the node out of the cluster, so that it can be let in anew.
func (e *engine) forget(ctx context.Context) error {
	for {
		gone, err := e.removeSelf(ctx)
		if gone {
			break
		}
		e.n.cfg.Logger.Warn("the node is not out of the cluster yet", "error", err)
		if !sleep(ctx, askEvery) {
			return fmt.Errorf("replica: leave the cluster before rejoining: %w: %w", ctx.Err(), err)
		}
	}
	return nil
}

// setRaftAside moves the raft state out of the way; no engine may be running.
func (n *Node) setRaftAside() error {
	aside := filepath.Join(n.cfg.Dir, quarantineDir, time.Now().UTC().Format(asideFormat))
	if err := os.MkdirAll(aside, 0o700); err != nil {
		return fmt.Errorf("replica: %w", err)
	}
	for _, name := range []string{raftFile, raftFile + unreadable, snapshotsDir} {
		err := os.Rename(filepath.Join(n.cfg.Dir, name), filepath.Join(aside, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("replica: %w", err)
		}
	}
	// A power cut must not bring the former state back once there is a new one.
	if err := errors.Join(syncDir(aside), syncDir(n.cfg.Dir)); err != nil {
		return fmt.Errorf("replica: %w", err)
	}
	n.cfg.Logger.Warn("the former raft state was set aside", "directory", aside)
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (e *engine) removeSelf(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, e.n.cfg.TransportTimeout)
	defer cancel()
	last := api.ErrNoLeader
	for _, addr := range e.n.peerAddresses() {
		_, err := e.n.stub(addr).Remove(ctx, connect.NewRequest(&pb.RemoveRequest{Id: e.n.cfg.ID, Force: true}))
		if err = api.FromWire(err); err == nil {
			return true, nil
		}
		last = err
	}
	// Removed already, perhaps by an earlier attempt whose answer was lost.
	for _, st := range e.n.askPeers(ctx, e.n.peerAddresses()) {
		if viewOf(st, e.n.cfg.ID).leads && e.confirmed(ctx, st, notMember) {
			return true, nil
		}
	}
	return false, last
}

// notMember and notVoter are what a node wants confirmed: before it believes that
// it is out of the cluster, and before it takes part without a past.
func notMember(v peerView) bool { return !v.member }
func notVoter(v peerView) bool  { return !v.voter }

// confirmed reports whether the cluster has committed what a leader says of this
// node. A leader's view of the members may not be committed yet; a barrier of the
// same leadership is, and so is all that was before it.
func (e *engine) confirmed(ctx context.Context, leader *pb.StatusResponse, holds func(peerView) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	addr, err := api.ParseAddress(leader.GetAddress())
	if err != nil || !holds(viewOf(leader, e.n.cfg.ID)) {
		return false
	}
	stub := e.n.stub(addr.HTTP)
	barrier := &pb.WatermarkRequest{Stream: api.StreamToWire(noStream), Forwarded: true}
	if _, err := stub.Watermark(ctx, connect.NewRequest(barrier)); err != nil {
		e.n.cfg.Logger.Debug("the leader could not confirm its members", "leader", addr.HTTP, "error", err)
		return false
	}
	again, err := stub.Status(ctx, connect.NewRequest(&pb.StatusRequest{}))
	if err != nil {
		return false
	}
	v := viewOf(again.Msg, e.n.cfg.ID)
	return v.leads && holds(v) && again.Msg.GetTerm() == leader.GetTerm()
}

// noStream is the name of a stream that nobody folds into; its watermark is
// asked for the sake of the barrier.
var noStream = evtlog.StreamName{Queue: "evtlog", Name: "barrier"}

// mendPause is the least time between two rejoins without an operator: a disk
// that damages the log again and again needs a person.
const mendPause = time.Hour

// asideFormat names the directories in quarantine.
const asideFormat = "20060102T150405.000"

// mendedLately says whether the raft state was set aside within mendPause.
func mendedLately(quarantine string, now time.Time) bool {
	entries, err := os.ReadDir(quarantine)
	if err != nil {
		return false
	}
	for _, d := range entries {
		at, err := time.Parse(asideFormat, d.Name())
		if err == nil && now.Sub(at) < mendPause {
			return true
		}
	}
	return false
}
