package replica

import (
	"context"
	"fmt"

	"connectrpc.com/connect"

	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/archive/replica/manifest"
	pb "github.com/evtlog/evtlog/archive/replica/replicapb"
)

// pullAhead brings the volumes up to the leader's newest snapshot before raft
// starts, so that the node does not have to do it with raft waiting. What lies
// above that, raft sends from its log in any case. It is only worth the while: a
// failure is no reason not to start.
func (e *engine) pullAhead(ctx context.Context) {
	if e.n.cfg.faults.lateStart {
		return
	}
	for range 3 {
		before := e.n.pulledCommits.Load()
		done, err := e.pullSnapshot(ctx)
		if err != nil {
			e.n.cfg.Logger.Warn("could not pull ahead of the start", "error", err)
			return
		}
		// Meanwhile there may be another snapshot.
		if done || e.n.pulledCommits.Load()-before < caughtUp {
			return
		}
	}
}

// pullSnapshot pulls what the leader's newest snapshot names; done is true when
// there is no leader or its log is enough.
func (e *engine) pullSnapshot(ctx context.Context) (done bool, err error) {
	leader := e.askForLeader(ctx)
	if leader == nil {
		return true, nil
	}
	addr, err := api.ParseAddress(leader.GetAddress())
	if err != nil {
		return true, err
	}
	asked, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	res, err := e.n.stub(addr.HTTP).Heads(asked, connect.NewRequest(&pb.HeadsRequest{Snapshot: true}))
	if err != nil {
		return true, api.FromWire(err)
	}
	end, err := e.logEnd()
	if err != nil || logSuffices(end, res.Msg.GetLogFirst()) {
		return true, err
	}
	m := manifest.Manifest{Identity: e.n.identity(), Source: leader.GetAddress(), Volumes: volumesFromWire(res.Msg.GetHeads())}
	return false, e.cover(ctx, m)
}

// askForLeader returns the status of the peer that leads, nil when none does.
func (e *engine) askForLeader(ctx context.Context) (leader *pb.StatusResponse) {
	for _, st := range e.n.askPeers(ctx, e.n.peerAddresses()) {
		if st.GetState() == stateLeader && st.GetIncarnation() == e.n.identity().Incarnation {
			leader = st
		}
	}
	return leader
}

// logEnd is the last entry that the node has, in its log or in a snapshot of
// which it has the content.
func (e *engine) logEnd() (uint64, error) {
	end, err := e.logs.LastIndex()
	if err != nil {
		return 0, fmt.Errorf("replica: read %s: %w", raftFile, err)
	}
	newest, err := e.coveredSnapshot()
	if err != nil {
		return 0, err
	}
	return max(end, newest.index), nil
}

// logSuffices reports whether a leader whose log begins at entry first can send a
// node whose own ends at end all that it lacks, without a snapshot. Zero is a
// leader that does not say where its log begins.
func logSuffices(end, first uint64) bool { return first > 0 && first <= end+1 }

// snapshotFacts is what the newest snapshot of the node says; zero for none.
type snapshotFacts struct {
	index   uint64
	volumes []manifest.Volume
}

// coveredSnapshot returns the newest snapshot of which the node has the content.
func (e *engine) coveredSnapshot() (snapshotFacts, error) {
	all, err := e.snaps.All()
	if err != nil {
		return snapshotFacts{}, err
	}
	for _, s := range all {
		if len(s.Gaps) == 0 {
			return snapshotFacts{index: s.Meta.Index, volumes: s.Manifest.Volumes}, nil
		}
	}
	return snapshotFacts{}, nil
}

// snapshotHeads answers what a node needs to know that is about to start.
func (n *Node) snapshotHeads() (*pb.HeadsResponse, error) {
	e, _, err := n.running()
	if err != nil {
		return nil, err
	}
	newest, err := e.coveredSnapshot()
	if err != nil {
		return nil, err
	}
	// After the snapshot: the log is cut only behind one that is there.
	first, err := e.logs.FirstIndex()
	if err != nil {
		return nil, fmt.Errorf("replica: read %s: %w", raftFile, err)
	}
	res := &pb.HeadsResponse{Applied: newest.index, LogFirst: first}
	for _, v := range newest.volumes {
		head := volumeToWire(v)
		head.Parked = e.store.parkedReason(v.Stream)
		res.Heads = append(res.Heads, head)
	}
	return res, nil
}
