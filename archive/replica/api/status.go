package api

import (
	"time"

	"github.com/evtlog/evtlog"
	pb "github.com/evtlog/evtlog/archive/replica/replicapb"
	"github.com/evtlog/evtlog/evtid"
)

// Status is what one node knows of itself and of its cluster.
type Status struct {
	Identity Identity
	Node     string
	Address  string
	// State is Leader, Follower, Candidate, Shutdown, Starting or Aside.
	State                   string
	LeaderID, LeaderAddress string
	Term                    uint64
	// LastIndex, CommitIndex and AppliedIndex are positions in raft's log;
	// FSMIndex is how far the volumes have really got.
	LastIndex, CommitIndex, AppliedIndex, FSMIndex uint64
	// LastContact is the time since the leader was heard; negative when never.
	LastContact time.Duration
	Servers     []Server
	Checks      []Check
	Volumes     []Volume
	// PulledBytes and PulledCommits count what was copied from peers since the start.
	PulledBytes, PulledCommits uint64
	// Elections counts the changes of leadership this node was part of.
	Elections uint64
	// RaftFileBytes is the size of raft.db.
	RaftFileBytes int64
	// Alarms are the last ones, oldest first.
	Alarms []string
}

// Server is one member of a cluster.
type Server struct {
	ID, Address string
	Voter       bool
}

// Check is one line of a probe.
type Check struct {
	Name         string
	OK, Required bool
	Detail       string
}

// Volume is the state of one volume on one node.
type Volume struct {
	Stream    evtlog.StreamName
	LSN       uint64
	Records   uint64
	Watermark evtid.ID
	Chain     [32]byte
	// Parked says why the node does not serve the volume; empty when it does.
	Parked string
}

// StatusFromWire returns the status of a message.
func StatusFromWire(st *pb.StatusResponse) Status {
	out := Status{
		Identity: Identity{Cluster: st.GetCluster(), Incarnation: st.GetIncarnation()},
		Node:     st.GetNode(), Address: st.GetAddress(), State: st.GetState(),
		LeaderID: st.GetLeaderId(), LeaderAddress: st.GetLeaderAddress(), Term: st.GetTerm(),
		LastIndex: st.GetLastIndex(), CommitIndex: st.GetCommitIndex(), AppliedIndex: st.GetAppliedIndex(), FSMIndex: st.GetFsmIndex(),
		LastContact: time.Duration(st.GetLastContactMs()) * time.Millisecond,
		PulledBytes: st.GetPulledBytes(), PulledCommits: st.GetPulledCommits(), Elections: st.GetElections(),
		RaftFileBytes: st.GetRaftFileBytes(), Alarms: st.GetAlarms(),
	}
	for _, s := range st.GetServers() {
		out.Servers = append(out.Servers, Server{ID: s.GetId(), Address: s.GetAddress(), Voter: s.GetVoter()})
	}
	for _, c := range st.GetChecks() {
		out.Checks = append(out.Checks, Check{Name: c.GetName(), OK: c.GetOk(), Required: c.GetRequired(), Detail: c.GetDetail()})
	}
	for _, h := range st.GetHeads() {
		v := Volume{Stream: StreamFromWire(h.GetStream()), LSN: h.GetLsn(), Records: h.GetCount(), Parked: h.GetParked()}
		v.Watermark, _ = IDFromWire(h.GetWatermark())
		copy(v.Chain[:], h.GetChain())
		out.Volumes = append(out.Volumes, v)
	}
	return out
}

// Finding is the outcome of one check of a volume, a log or a set of snapshots.
type Finding struct {
	// What names the thing that was checked.
	What string
	OK   bool
	// Detail says what is wrong.
	Detail string
	// Commits and Records were checked; for a log these are its entries, for
	// snapshots the files.
	Commits, Records uint64
}

// FindingsFromWire returns the findings of messages.
func FindingsFromWire(in []*pb.Finding) []Finding {
	out := make([]Finding, len(in))
	for i, f := range in {
		out[i] = Finding{What: f.GetWhat(), OK: f.GetOk(), Detail: f.GetDetail(), Commits: f.GetCommits(), Records: f.GetRecords()}
	}
	return out
}
