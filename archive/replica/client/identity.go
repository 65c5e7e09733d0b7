package client

import (
	"context"

	"connectrpc.com/connect"

	"github.com/evtlog/evtlog/archive/replica/api"
)

// watchIdentity checks the cluster that an answer names against the one this
// client holds on to, and holds on to the first one it meets: a client whose
// addresses lead to two clusters must not fold into both.
type watchIdentity struct{ c *Client }

// WrapUnary implements connect.Interceptor.
func (w watchIdentity) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		res, err := next(ctx, req)
		if err == nil {
			err = w.c.meet(api.IdentityOf(res.Header()))
		}
		return res, err
	}
}

// WrapStreamingClient implements connect.Interceptor. The answer of a stream is
// checked by the node, which is told the identity.
func (w watchIdentity) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor; it changes nothing.
func (w watchIdentity) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

func (c *Client) meet(theirs api.Identity) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.identity.Matches(theirs); err != nil {
		return err
	}
	if c.identity.Cluster == "" {
		c.identity.Cluster = theirs.Cluster
	}
	if c.identity.Incarnation == "" {
		c.identity.Incarnation = theirs.Incarnation
	}
	return nil
}
