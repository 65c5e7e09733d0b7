package replica

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"connectrpc.com/connect"

	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/replica/api"
	pb "github.com/evtlog/evtlog/archive/replica/replicapb"
	"github.com/evtlog/evtlog/evtid"
)

// service answers the calls of archive.proto. Each method checks what it was
// sent, and leaves the work to the node.
type service struct{ n *Node }

var _ pb.ArchiveServiceHandler = service{}

// reply turns a result into an answer of the wire.
func reply[T any](msg *T, err error) (*connect.Response[T], error) {
	if err != nil {
		return nil, api.ToWire(err)
	}
	return connect.NewResponse(msg), nil
}

// Fold implements the call.
func (s service) Fold(ctx context.Context, req *connect.Request[pb.FoldRequest]) (*connect.Response[pb.FoldResponse], error) {
	stream, err := api.CheckStream(req.Msg.GetStream())
	if err != nil {
		return reply[pb.FoldResponse](nil, err)
	}
	prev, err := api.IDFromWire(req.Msg.GetPrev())
	if err != nil {
		return reply[pb.FoldResponse](nil, err)
	}
	records, err := api.RecordsFromWire(req.Msg.GetRecords())
	if err != nil {
		return reply[pb.FoldResponse](nil, err)
	}
	if err := archive.CheckFold(stream, prev, records); err != nil {
		return reply[pb.FoldResponse](nil, err)
	}
	if lead := s.n.notLeading(); lead != nil {
		return passOn(ctx, s.n, lead, req.Msg.GetForwarded(), func(ctx context.Context, stub pb.ArchiveServiceClient) (*connect.Response[pb.FoldResponse], error) {
			req.Msg.Forwarded = true
			return stub.Fold(ctx, connect.NewRequest(req.Msg))
		})
	}
	w, err := s.n.propose(ctx, stream, prev, records, req.Msg.GetBehind())
	return reply(&pb.FoldResponse{Watermark: w.String()}, err)
}

// passOn makes the call on the leader, once: a call that was passed on already
// is answered with where the leader is. An answer that got lost on the way stays
// an error of the network, which tells the caller that the outcome is open.
func passOn[T any](ctx context.Context, n *Node, lead *api.NotLeaderError, already bool, call func(context.Context, pb.ArchiveServiceClient) (*connect.Response[T], error)) (*connect.Response[T], error) {
	addr, err := api.ParseAddress(lead.LeaderAddress)
	if already || err != nil {
		return nil, api.ToWire(lead)
	}
	res, err := call(ctx, n.stub(addr.HTTP))
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		// Nothing was sent.
		return nil, api.ToWire(fmt.Errorf("replica: leader %s cannot be reached: %w: %w", lead.LeaderID, api.ErrNotReady, err))
	}
	if err != nil {
		return nil, api.ToWire(api.FromWire(err))
	}
	return connect.NewResponse(res.Msg), nil
}

// Watermark implements the call.
func (s service) Watermark(ctx context.Context, req *connect.Request[pb.WatermarkRequest]) (*connect.Response[pb.WatermarkResponse], error) {
	stream, err := api.CheckStream(req.Msg.GetStream())
	if err != nil {
		return reply[pb.WatermarkResponse](nil, err)
	}
	if !req.Msg.GetLocal() {
		if lead := s.n.notLeading(); lead != nil {
			return passOn(ctx, s.n, lead, req.Msg.GetForwarded(), func(ctx context.Context, stub pb.ArchiveServiceClient) (*connect.Response[pb.WatermarkResponse], error) {
				req.Msg.Forwarded = true
				return stub.Watermark(ctx, connect.NewRequest(req.Msg))
			})
		}
		if err := s.n.settleReads(ctx); err != nil {
			return reply[pb.WatermarkResponse](nil, err)
		}
	}
	w, err := s.n.localWatermark(stream)
	return reply(&pb.WatermarkResponse{Watermark: w.String()}, err)
}

// Limits of a streamed answer.
const (
	firstPage   = 64
	pageRecords = 1024
	pageBytes   = 512 << 10
	// keepAlive is how often a read that waits says so.
	keepAlive = time.Second
)

// Read implements the call.
func (s service) Read(ctx context.Context, req *connect.Request[pb.ReadRequest], out *connect.ServerStream[pb.ReadResponse]) error {
	stream, err := api.CheckStream(req.Msg.GetStream())
	if err != nil {
		return api.ToWire(err)
	}
	var rng archive.Range
	for _, bound := range []struct {
		text string
		into *evtid.ID
	}{{req.Msg.GetAfter(), &rng.After}, {req.Msg.GetTo(), &rng.To}, {req.Msg.GetAtLeast(), &rng.AtLeast}} {
		if *bound.into, err = api.IDFromWire(bound.text); err != nil {
			return api.ToWire(err)
		}
	}
	rng.Reverse = req.Msg.GetReverse()
	return api.ToWire(s.n.serveRead(ctx, stream, rng, out))
}

// Commits implements the call.
func (s service) Commits(ctx context.Context, req *connect.Request[pb.CommitsRequest], out *connect.ServerStream[pb.CommitsResponse]) error {
	stream, err := api.CheckStream(req.Msg.GetStream())
	if err != nil {
		return api.ToWire(err)
	}
	if to := req.Msg.GetToLsn(); to != 0 && to < req.Msg.GetAfterLsn() {
		return api.ToWire(fmt.Errorf("replica: %w: to_lsn %d is below after_lsn %d", api.ErrBadRequest, to, req.Msg.GetAfterLsn()))
	}
	return api.ToWire(s.n.serveCommits(ctx, stream, req.Msg.GetAfterLsn(), req.Msg.GetToLsn(), out))
}

// maxPositions bounds one Heads call.
const maxPositions = 10_000

// Heads implements the call.
func (s service) Heads(_ context.Context, req *connect.Request[pb.HeadsRequest]) (*connect.Response[pb.HeadsResponse], error) {
	if n := len(req.Msg.GetAt()); n > maxPositions {
		return reply[pb.HeadsResponse](nil, fmt.Errorf("replica: %w: %d positions; at most %d at a time", api.ErrBadRequest, n, maxPositions))
	}
	if len(req.Msg.GetAt()) > 0 {
		heads, err := s.n.chainsAt(req.Msg.GetAt())
		return reply(&pb.HeadsResponse{Heads: heads}, err)
	}
	if req.Msg.GetSnapshot() {
		return reply(s.n.snapshotHeads())
	}
	heads, applied, err := s.n.heads()
	return reply(&pb.HeadsResponse{Heads: heads, Applied: applied}, err)
}

// Status implements the call.
func (s service) Status(context.Context, *connect.Request[pb.StatusRequest]) (*connect.Response[pb.StatusResponse], error) {
	return connect.NewResponse(s.n.statusMessage()), nil
}

// Verify implements the call.
func (s service) Verify(ctx context.Context, req *connect.Request[pb.VerifyRequest]) (*connect.Response[pb.VerifyResponse], error) {
	findings, err := s.n.verify(ctx, api.StreamFromWire(req.Msg.GetStream()))
	return reply(&pb.VerifyResponse{Findings: findings}, err)
}

// Join implements the call.
func (s service) Join(ctx context.Context, req *connect.Request[pb.JoinRequest]) (*connect.Response[pb.JoinResponse], error) {
	if _, err := api.ParseAddress(req.Msg.GetAddress()); err != nil {
		return reply[pb.JoinResponse](nil, err)
	}
	if lead := s.n.notLeading(); lead != nil {
		return passOn(ctx, s.n, lead, req.Msg.GetForwarded(), func(ctx context.Context, stub pb.ArchiveServiceClient) (*connect.Response[pb.JoinResponse], error) {
			req.Msg.Forwarded = true
			return stub.Join(ctx, connect.NewRequest(req.Msg))
		})
	}
	res, err := s.n.join(ctx, joinRequest{id: req.Msg.GetId(), address: req.Msg.GetAddress(), voter: req.Msg.GetVoter(), known: req.Msg.GetKnown(), applied: req.Msg.GetAppliedIndex()})
	return reply(res, err)
}

// Remove implements the call.
func (s service) Remove(ctx context.Context, req *connect.Request[pb.RemoveRequest]) (*connect.Response[pb.RemoveResponse], error) {
	if lead := s.n.notLeading(); lead != nil {
		return passOn(ctx, s.n, lead, req.Msg.GetForwarded(), func(ctx context.Context, stub pb.ArchiveServiceClient) (*connect.Response[pb.RemoveResponse], error) {
			req.Msg.Forwarded = true
			return stub.Remove(ctx, connect.NewRequest(req.Msg))
		})
	}
	return reply(&pb.RemoveResponse{}, s.n.remove(ctx, req.Msg.GetId(), req.Msg.GetForce()))
}

// Transfer implements the call.
func (s service) Transfer(ctx context.Context, req *connect.Request[pb.TransferRequest]) (*connect.Response[pb.TransferResponse], error) {
	if lead := s.n.notLeading(); lead != nil {
		return passOn(ctx, s.n, lead, req.Msg.GetForwarded(), func(ctx context.Context, stub pb.ArchiveServiceClient) (*connect.Response[pb.TransferResponse], error) {
			req.Msg.Forwarded = true
			return stub.Transfer(ctx, connect.NewRequest(req.Msg))
		})
	}
	id, err := s.n.transfer(ctx, req.Msg.GetId())
	return reply(&pb.TransferResponse{LeaderId: id}, err)
}
