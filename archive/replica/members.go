package replica

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/raft"

	"github.com/evtlog/evtlog/archive/replica/api"
	pb "github.com/evtlog/evtlog/archive/replica/replicapb"
)

// newIncarnation draws the number that tells this cluster from every other one,
// unless an interrupted bootstrap has drawn it before.
func newIncarnation(kept string) string {
	if kept != "" {
		return kept
	}
	var b [16]byte
	// crypto/rand.Read never fails.
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// raftTLS returns the settings for the raft port: both ends show a certificate.
func raftTLS(cfg *tls.Config) *tls.Config {
	if cfg == nil {
		return nil
	}
	out := cfg.Clone()
	out.ClientAuth = tls.RequireAndVerifyClientCert
	return out
}

// changeTimeout bounds one change of the membership.
const changeTimeout = 10 * time.Second

// join takes the next step towards what a node asks for, on the leader.
func (n *Node) join(ctx context.Context, req joinRequest) (*pb.JoinResponse, error) {
	e, r, err := n.running()
	if err != nil {
		return nil, err
	}
	f := r.GetConfiguration()
	if err := f.Error(); err != nil {
		return nil, e.readError(err)
	}
	commit := r.CommitIndex()
	step, err := decideJoin(f.Configuration().Servers, req, commit)
	if err != nil {
		return nil, err
	}
	id, addr := raft.ServerID(req.id), raft.ServerAddress(req.address)
	var change func() raft.Future
	switch step {
	case joinAddNonvoter:
		change = func() raft.Future { return r.AddNonvoter(id, addr, f.Index(), changeTimeout) }
	case joinAddVoter:
		change = func() raft.Future { return r.AddVoter(id, addr, f.Index(), changeTimeout) }
	case joinDemote:
		if req.id == n.cfg.ID {
			return nil, fmt.Errorf("replica: %w: the leader cannot give up its own vote; transfer the leadership first", api.ErrMembership)
		}
		change = func() raft.Future { return r.DemoteVoter(id, f.Index(), changeTimeout) }
	}
	if change != nil {
		if err := e.membershipError(e.await(ctx, change, nil)); err != nil {
			return nil, err
		}
		n.cfg.Logger.Info("membership changed", "node", req.id, "address", req.address, "step", joinNames[step])
	}
	return &pb.JoinResponse{Done: step == joinDone, Role: joinNames[step], CommitIndex: commit}, nil
}

var joinNames = map[joinStep]string{
	joinDone: "member", joinWait: "catching up", joinAddNonvoter: "non-voter added", joinAddVoter: "voter added", joinDemote: "vote taken",
}

// membershipError turns raft's refusal of a change into what the caller may
// repeat: every change here compares with the configuration it was decided on.
func (e *engine) membershipError(err error) error {
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress), errors.Is(err, raft.ErrLeadershipLost):
		return e.leader()
	}
	return fmt.Errorf("replica: %w: change of members: %w", api.ErrNotReady, err)
}

// remove takes a node out of the cluster, on the leader. The leader does not
// remove itself: it hands the leadership over first, and the new one does it.
func (n *Node) remove(ctx context.Context, id string, force bool) error {
	e, r, err := n.running()
	if err != nil {
		return err
	}
	f := r.GetConfiguration()
	if err := f.Error(); err != nil {
		return e.readError(err)
	}
	if err := checkRemove(f.Configuration().Servers, id, force); err != nil {
		return err
	}
	if id == n.cfg.ID {
		if err := e.await(ctx, r.LeadershipTransfer, nil); err != nil {
			return fmt.Errorf("replica: %w: hand over before removing the leader: %w", api.ErrNotReady, err)
		}
		return &api.NotLeaderError{}
	}
	return e.membershipError(e.await(ctx, func() raft.Future {
		return r.RemoveServer(raft.ServerID(id), f.Index(), changeTimeout)
	}, nil))
}

// transfer hands the leadership to a node, or to the one that is furthest.
func (n *Node) transfer(ctx context.Context, id string) (string, error) {
	e, r, err := n.running()
	if err != nil {
		return "", err
	}
	f := r.LeadershipTransfer
	if id != "" {
		addr, err := voterAddress(e.servers(), id)
		if err != nil {
			return "", err
		}
		if id == n.cfg.ID {
			return id, nil
		}
		f = func() raft.Future { return r.LeadershipTransferToServer(raft.ServerID(id), addr) }
	}
	if err := e.await(ctx, f, nil); err != nil {
		return "", fmt.Errorf("replica: %w: transfer of the leadership: %w", api.ErrNotReady, err)
	}
	for ctx.Err() == nil {
		if lead := e.leader(); lead.LeaderID != "" && lead.LeaderID != n.cfg.ID {
			return lead.LeaderID, nil
		}
		if !sleep(ctx, 5*time.Millisecond) {
			break
		}
	}
	return "", fmt.Errorf("replica: %w: no new leader yet", api.ErrNoLeader)
}

func voterAddress(servers []raft.Server, id string) (raft.ServerAddress, error) {
	for _, s := range servers {
		if string(s.ID) == id && s.Suffrage == raft.Voter {
			return s.Address, nil
		}
	}
	return "", fmt.Errorf("replica: %w: node %q is not a voter", api.ErrMembership, id)
}

// Remove takes a node out of the cluster. force allows fewer than three voters.
func (n *Node) Remove(ctx context.Context, id string, force bool) error {
	return n.onLeader(ctx, func(stub pb.ArchiveServiceClient) error {
		_, err := stub.Remove(ctx, connect.NewRequest(&pb.RemoveRequest{Id: id, Force: force}))
		return err
	})
}

// Transfer hands the leadership to the voter named, or with "" to the one that
// is furthest, and returns who has it.
func (n *Node) Transfer(ctx context.Context, id string) (string, error) {
	var to string
	err := n.onLeader(ctx, func(stub pb.ArchiveServiceClient) error {
		res, err := stub.Transfer(ctx, connect.NewRequest(&pb.TransferRequest{Id: id}))
		if err == nil {
			to = res.Msg.GetLeaderId()
		}
		return err
	})
	return to, err
}

// onLeader makes a call through this node's own port, which passes it on, until
// a leader has answered it or ctx ends.
func (n *Node) onLeader(ctx context.Context, call func(pb.ArchiveServiceClient) error) error {
	for {
		err := api.FromWire(call(n.stub(n.address.HTTP)))
		if !errors.Is(err, api.ErrNotLeader) && !errors.Is(err, api.ErrNotReady) {
			return err
		}
		if !sleep(ctx, askEvery) {
			return fmt.Errorf("replica: %w: %w", api.ErrNoLeader, err)
		}
	}
}

// keepMembership asks for membership until the node is what it wants to be: a
// new node is let in and then given its vote, a moved one gets its new address.
func (e *engine) keepMembership() {
	for {
		done, err := e.askToJoin()
		switch {
		case done:
			e.n.rejoined()
			e.settled.Store(true)
			return
		case errors.Is(err, api.ErrRemoved):
			e.fail(fmt.Errorf("replica: node %s: %w", e.n.cfg.ID, errRemoved))
			return
		}
		if err != nil {
			e.n.cfg.Logger.Debug("not a member yet", "error", err)
		}
		if !sleep(e.ctx, askEvery) {
			return
		}
	}
}

func (e *engine) askToJoin() (bool, error) {
	ctx, cancel := context.WithTimeout(e.ctx, changeTimeout)
	defer cancel()
	req := &pb.JoinRequest{Id: e.n.cfg.ID, Address: e.n.address.String(), Voter: !e.n.cfg.NonVoter}
	last := api.ErrNoLeader
	for _, addr := range append([]string{e.n.address.HTTP}, e.n.peerAddresses()...) {
		req.Forwarded = false
		req.AppliedIndex, req.Known = e.appliedIndex(), e.member.Load()
		res, err := e.n.stub(addr).Join(ctx, connect.NewRequest(req))
		if err = api.FromWire(err); err == nil {
			e.member.Store(true)
			return res.Msg.GetDone(), nil
		}
		if errors.Is(err, api.ErrRemoved) {
			return false, err
		}
		last = err
	}
	return false, last
}

func (e *engine) appliedIndex() uint64 {
	if r := e.raft.Load(); r != nil && !e.restoring.Load() {
		return r.AppliedIndex()
	}
	return 0
}
