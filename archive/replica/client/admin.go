package client

import (
	"context"
	"iter"

	"connectrpc.com/connect"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive/replica/api"
	pb "github.com/evtlog/evtlog/archive/replica/replicapb"
)

// Status asks one node, by its HTTP address.
func (c *Client) Status(ctx context.Context, address string) (api.Status, error) {
	res, err := c.stub(address).Status(ctx, connect.NewRequest(&pb.StatusRequest{}))
	if err != nil {
		return api.Status{}, api.FromWire(err)
	}
	return api.StatusFromWire(res.Msg), nil
}

// Verify has one node check all it keeps, or only the volume of a stream when
// that is not the zero name. Damage is a finding, not an error; the node begins
// to repair it.
func (c *Client) Verify(ctx context.Context, address string, stream evtlog.StreamName) ([]api.Finding, error) {
	res, err := c.stub(address).Verify(ctx, connect.NewRequest(&pb.VerifyRequest{Stream: api.StreamToWire(stream)}))
	if err != nil {
		return nil, api.FromWire(err)
	}
	return api.FindingsFromWire(res.Msg.GetFindings()), nil
}

// Remove takes a node out of the cluster. It is refused when fewer than three
// voters would remain, unless forced.
func (c *Client) Remove(ctx context.Context, id string, force bool) error {
	return c.administer(ctx, func(ctx context.Context, stub pb.ArchiveServiceClient, pass bool) error {
		_, err := stub.Remove(ctx, connect.NewRequest(&pb.RemoveRequest{Id: id, Force: force, Forwarded: !pass}))
		return err
	})
}

// Transfer hands the leadership to the voter named, or with "" to the one that
// is furthest, and returns who has it.
func (c *Client) Transfer(ctx context.Context, id string) (leader string, err error) {
	err = c.administer(ctx, func(ctx context.Context, stub pb.ArchiveServiceClient, pass bool) error {
		res, err := stub.Transfer(ctx, connect.NewRequest(&pb.TransferRequest{Id: id, Forwarded: !pass}))
		if err == nil {
			leader = res.Msg.GetLeaderId()
		}
		return err
	})
	return leader, err
}

func (c *Client) administer(ctx context.Context, do func(context.Context, pb.ArchiveServiceClient, bool) error) error {
	_, final, err := c.attempt(ctx, do)
	if err != nil && !final {
		return noLeader(err)
	}
	return err
}

// Heads returns what one node holds: the volumes that an export would contain.
func (c *Client) Heads(ctx context.Context, address string) ([]api.Volume, error) {
	st, err := c.Status(ctx, address)
	return st.Volumes, err
}

// Commits yields the stored commits of one node with after < LSN <= to, each in
// the form that volume.Commit's UnmarshalBinary reads; to 0 means all there are.
// The sequence ends after the first error.
func (c *Client) Commits(ctx context.Context, address string, stream evtlog.StreamName, after, to uint64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		res, err := c.stub(address).Commits(ctx, connect.NewRequest(&pb.CommitsRequest{Stream: api.StreamToWire(stream), AfterLsn: after, ToLsn: to}))
		if err != nil {
			yield(nil, api.FromWire(err))
			return
		}
		defer func() { _ = res.Close() }()
		for res.Receive() {
			for _, b := range res.Msg().GetCommits() {
				if !yield(b, nil) {
					return
				}
			}
		}
		if err := res.Err(); err != nil {
			yield(nil, api.FromWire(err))
		}
	}
}
