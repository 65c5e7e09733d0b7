package replica

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/archive/replica/manifest"
	pb "github.com/evtlog/evtlog/archive/replica/replicapb"
	"github.com/evtlog/evtlog/archive/replica/snapstore"
)

// States of a node besides raft's own names.
const (
	stateLeader   = "Leader"
	stateStarting = "Starting"
	stateAside    = "Aside"
)

// Status returns what the node knows of itself and of the cluster.
func (n *Node) Status() api.Status { return api.StatusFromWire(n.statusMessage()) }

func (n *Node) statusMessage() *pb.StatusResponse {
	id := n.identity()
	st := &pb.StatusResponse{
		Cluster: id.Cluster, Incarnation: id.Incarnation, Node: n.cfg.ID, Address: n.address.String(),
		State: stateStarting, LastContactMs: -1, Checks: checksToWire(n.checks()),
		PulledBytes: n.pulledBytes.Load(), PulledCommits: n.pulledCommits.Load(), Alarms: n.alarms.list(),
		Elections: n.elections.Load(), RaftEmpty: true, RaftFileBytes: raftFileSize(n.cfg.Dir),
	}
	if n.aside.Load() != nil {
		st.State = stateAside
	}
	e := n.engine()
	if e == nil {
		// Not known, and so not empty: a peer must not take it for a fresh node.
		st.RaftEmpty = false
		return st
	}
	st.RaftEmpty = e.empty.Load()
	if heads, applied, err := n.heads(); err == nil {
		st.Heads, st.FsmIndex = heads, applied
	}
	if r := e.raft.Load(); r != nil {
		fillRaft(st, e, r)
	}
	return st
}

func fillRaft(st *pb.StatusResponse, e *engine, r *raft.Raft) {
	st.State = r.State().String()
	lead := e.leader()
	st.LeaderId, st.LeaderAddress = lead.LeaderID, lead.LeaderAddress
	st.Term, st.LastIndex, st.CommitIndex, st.AppliedIndex = r.CurrentTerm(), r.LastIndex(), r.CommitIndex(), r.AppliedIndex()
	st.RaftEmpty = st.LastIndex == 0 && st.Term == 0
	if st.State == stateLeader {
		st.LastContactMs = 0
	} else if at := r.LastContact(); !at.IsZero() {
		st.LastContactMs = time.Since(at).Milliseconds()
	}
	for _, s := range e.servers() {
		st.Servers = append(st.Servers, &pb.Server{Id: string(s.ID), Address: string(s.Address), Voter: s.Suffrage == raft.Voter})
	}
}

// checks are the lines of the probes.
func (n *Node) checks() []Check {
	checks := []Check{{Name: "http", OK: true, Required: true}}
	aside := Check{Name: "serving", OK: true, Required: true}
	if err := n.aside.Load(); err != nil {
		aside.OK, aside.Detail = false, (*err).Error()
	}
	checks = append(checks, aside)
	e := n.engine()
	if e == nil {
		return append(checks, Check{Name: "raft", Required: true, Detail: "the node is not running"})
	}
	r := e.raft.Load()
	if r == nil {
		return append(checks, Check{Name: "raft", Required: true, Detail: "the node is catching up before it takes part"})
	}
	lead := Check{Name: "leader", OK: e.leader().LeaderID != "", Required: true, Detail: "no leader is known"}
	level := Check{Name: "caught-up", OK: e.caughtUp.Load() && !e.restoring.Load(), Required: true, Detail: "what was written while the node was away has not all been applied"}
	member := Check{Name: "member", OK: e.settled.Load(), Detail: "the node is not yet what it asked to be"}
	space := Check{Name: "disk", OK: true}
	if free, err := n.freeSpace(); err != nil || free < 2*n.cfg.ReserveBytes {
		space.OK, space.Detail = false, fmt.Sprintf("%d bytes are free", free)
	}
	volumes := Check{Name: "volumes", OK: true}
	if parked := e.store.allParked(); len(parked) > 0 {
		volumes.OK, volumes.Detail = false, fmt.Sprintf("set aside: %v", parked)
	}
	checks = append(checks, Check{Name: "raft", OK: r.State() != raft.Shutdown, Required: true, Detail: "raft has ended"}, lead, level, member, space, volumes)
	for i := range checks {
		if checks[i].OK {
			checks[i].Detail = ""
		}
	}
	return checks
}

func checksToWire(checks []Check) []*pb.Check {
	out := make([]*pb.Check, len(checks))
	for i, c := range checks {
		out[i] = &pb.Check{Name: c.Name, Ok: c.OK, Required: c.Required, Detail: c.Detail}
	}
	return out
}

// heads returns the heads of all volumes, and the index up to which the log had
// been applied before they were read.
func (n *Node) heads() ([]*pb.Head, uint64, error) {
	st, err := n.serving()
	if err != nil {
		return nil, 0, err
	}
	var applied uint64
	if e := n.engine(); e != nil {
		applied = e.fsm.last.Load()
	}
	heads, err := st.heads()
	if err != nil {
		return nil, 0, err
	}
	out := make([]*pb.Head, len(heads))
	for i, h := range heads {
		out[i] = volumeToWire(h)
		out[i].Parked = st.parkedReason(h.Stream)
	}
	return out, applied, nil
}

// chainsAt returns the chain of each position that the node has; the others are
// left out.
func (n *Node) chainsAt(at []*pb.Position) ([]*pb.Head, error) {
	st, err := n.serving()
	if err != nil {
		return nil, err
	}
	var out []*pb.Head
	for _, p := range at {
		stream := api.StreamFromWire(p.GetStream())
		chain, ok, err := st.chainAt(stream, p.GetLsn())
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, &pb.Head{Stream: p.GetStream(), Lsn: p.GetLsn(), Chain: chain[:]})
		}
	}
	return out, nil
}

func volumeToWire(v manifest.Volume) *pb.Head {
	return &pb.Head{
		Stream: api.StreamToWire(v.Stream), Lsn: v.LSN, Count: v.Count, Watermark: v.Watermark.String(),
		Chain: v.Chain[:], RaftIndex: v.RaftIndex, RaftTerm: v.RaftTerm,
	}
}

func volumeFromWire(h *pb.Head) manifest.Volume {
	v := manifest.Volume{Stream: api.StreamFromWire(h.GetStream()), LSN: h.GetLsn(), Count: h.GetCount(), RaftIndex: h.GetRaftIndex(), RaftTerm: h.GetRaftTerm()}
	// A watermark that does not parse is of no use to the comparison by chain.
	v.Watermark, _ = api.IDFromWire(h.GetWatermark())
	copy(v.Chain[:], h.GetChain())
	return v
}

// volumesFromWire leaves out what the sender does not serve.
func volumesFromWire(heads []*pb.Head) []manifest.Volume {
	var out []manifest.Volume
	for _, h := range heads {
		if h.GetParked() == "" {
			out = append(out, volumeFromWire(h))
		}
	}
	return out
}

// verify checks everything the node keeps: each volume (or the one named), the
// entries of the log, and the snapshots. Damage also starts the repair: of a
// volume by a copy, of the log by rejoining, of a snapshot by taking another.
func (n *Node) verify(ctx context.Context, only evtlog.StreamName) ([]*pb.Finding, error) {
	st, err := n.serving()
	if err != nil {
		return nil, err
	}
	heads, err := st.heads()
	if err != nil {
		return nil, err
	}
	var out []*pb.Finding
	found := only == evtlog.StreamName{}
	for _, h := range heads {
		if only != (evtlog.StreamName{}) && h.Stream != only {
			continue
		}
		found = true
		f := &pb.Finding{What: "volume " + h.Stream.String(), Ok: true, Commits: h.LSN, Records: h.Count}
		if err := st.verifyOne(ctx, h.Stream); err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			f.Ok, f.Detail = false, err.Error()
			n.suspect(h.Stream, fmt.Errorf("%w: %w", archive.ErrCorrupt, err))
		}
		out = append(out, f)
	}
	if !found {
		return nil, fmt.Errorf("replica: %w: there is no volume %s", api.ErrBadRequest, only)
	}
	if only == (evtlog.StreamName{}) {
		out = append(out, n.verifyRaft(ctx)...)
	}
	return out, nil
}

func (n *Node) verifyRaft(ctx context.Context) []*pb.Finding {
	log := &pb.Finding{What: raftFile, Ok: true}
	e := n.engine()
	if e != nil {
		count, err := e.logs.verify(ctx)
		log.Commits = count
		if err != nil {
			log.Ok, log.Detail = false, err.Error()
		}
		if errors.Is(err, errDamaged) {
			e.noteDamage(err)
		}
	}
	files, bad := snapstore.Check(filepath.Join(n.cfg.Dir, snapshotsDir))
	snaps := &pb.Finding{What: snapshotsDir, Ok: len(bad) == 0, Commits: uint64(files)}
	for _, err := range bad {
		snaps.Detail += err.Error() + "; "
	}
	if e != nil && len(bad) > 0 {
		e.replaceSnapshots(ctx, errors.Join(bad...))
	}
	return []*pb.Finding{log, snaps}
}

// replaceSnapshots sets damaged snapshots aside and takes a new one: what a
// snapshot names is in the volumes. When nothing was applied since the last one
// raft takes none; then the next entries bring it about.
func (e *engine) replaceSnapshots(ctx context.Context, why error) {
	e.n.alarm(Alarm{Kind: kindSnapshot, Err: fmt.Errorf("replica: damaged snapshots are set aside: %w", why)})
	if _, err := e.snaps.All(); err != nil {
		e.n.cfg.Logger.Error("damaged snapshots could not be set aside", "error", err)
		return
	}
	r := e.raft.Load()
	if r == nil {
		return
	}
	err := e.await(ctx, func() raft.Future { return r.Snapshot() }, nil)
	if err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
		e.n.cfg.Logger.Warn("no new snapshot yet", "error", err)
	}
}
