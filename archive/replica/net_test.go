package replica

import (
	"context"
	"errors"
	"net"
	"sync"
)

// testNet is a network that can be cut around single nodes: what they dial, and
// what others dial to them.
type testNet struct {
	mu    sync.Mutex
	cut   map[string]bool
	owner map[string]string
	conns map[net.Conn][2]string
}

func newTestNet() *testNet {
	return &testNet{cut: map[string]bool{}, owner: map[string]string{}, conns: map[net.Conn][2]string{}}
}

// own tells which node listens on an address.
func (n *testNet) own(n2 *Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.owner[n2.Address().Raft], n.owner[n2.Address().HTTP] = n2.ID(), n2.ID()
}

// dialer is the network as node id sees it.
func (n *testNet) dialer(id string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		n.mu.Lock()
		to := n.owner[address]
		blocked := to != id && (n.cut[id] || n.cut[to])
		n.mu.Unlock()
		if blocked {
			return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("the network is cut")}
		}
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.conns[c] = [2]string{id, to}
		return c, nil
	}
}

// isolate cuts a node off from all others, open connections included.
func (n *testNet) isolate(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[id] = true
	for c, ends := range n.conns {
		if ends[0] != ends[1] && (ends[0] == id || ends[1] == id) {
			_ = c.Close()
			delete(n.conns, c)
		}
	}
}

func (n *testNet) heal(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.cut, id)
}
