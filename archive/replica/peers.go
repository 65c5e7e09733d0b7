package replica

import (
	"context"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/raft"

	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/archive/replica/manifest"
	pb "github.com/evtlog/evtlog/archive/replica/replicapb"
)

// askTimeout bounds one question to one peer.
const askTimeout = 2 * time.Second

// stub returns the client for a node's HTTP address.
func (n *Node) stub(addr string) pb.ArchiveServiceClient {
	n.stubMu.Lock()
	defer n.stubMu.Unlock()
	if s, ok := n.stubs[addr]; ok {
		return s
	}
	scheme := "http://"
	if n.cfg.TLS != nil {
		scheme = "https://"
	}
	creds := api.Credentials{Token: n.cfg.Token, Identity: n.identity}
	// Without compression: it would cost more time than the network does.
	s := pb.NewArchiveServiceClient(n.peerHTTP, scheme+addr, connect.WithInterceptors(creds), connect.WithAcceptCompression("gzip", nil, nil))
	n.stubs[addr] = s
	return s
}

// peerAddresses returns the HTTP addresses of all other nodes that are known:
// the configured ones and those of the membership, without duplicates.
func (n *Node) peerAddresses() []string {
	if e := n.engine(); e != nil {
		return n.addressesAround(e.servers())
	}
	return n.addressesAround(nil)
}

func (n *Node) addressesAround(servers []raft.Server) []string {
	n.stubMu.Lock()
	out := slices.Concat(n.cfg.Peers, n.formerPeers)
	n.stubMu.Unlock()
	for _, s := range servers {
		if a, err := api.ParseAddress(string(s.Address)); err == nil {
			out = append(out, a.HTTP)
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return slices.DeleteFunc(out, func(a string) bool { return a == n.address.HTTP })
}

// pullSources returns where to pull from, best first: the leader, the node that
// took the snapshot, then everyone.
func (n *Node) pullSources(m manifest.Manifest) []string {
	var out []string
	add := func(addr string) {
		if addr != "" && addr != n.address.HTTP && !slices.Contains(out, addr) {
			out = append(out, addr)
		}
	}
	if e := n.engine(); e != nil {
		if lead := e.leader(); lead != nil {
			if a, err := api.ParseAddress(lead.LeaderAddress); err == nil {
				add(a.HTTP)
			}
		}
	}
	if a, err := api.ParseAddress(m.Source); err == nil {
		add(a.HTTP)
	}
	for _, p := range n.peerAddresses() {
		add(p)
	}
	return out
}

// askPeers asks all peers for their status at once. Those that do not answer
// are left out. When one names a leader that was not asked, the leader is asked
// too, since what it says of the members holds.
func (n *Node) askPeers(ctx context.Context, addrs []string) []*pb.StatusResponse {
	answers := n.ask(ctx, addrs)
	var more []string
	for _, a := range answers {
		lead, err := api.ParseAddress(a.GetLeaderAddress())
		if err == nil && lead.HTTP != n.address.HTTP && !slices.Contains(addrs, lead.HTTP) {
			more = append(more, lead.HTTP)
		}
	}
	slices.Sort(more)
	return append(answers, n.ask(ctx, slices.Compact(more))...)
}

func (n *Node) ask(ctx context.Context, addrs []string) []*pb.StatusResponse {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var (
		wg  sync.WaitGroup
		mu  sync.Mutex
		out []*pb.StatusResponse
	)
	for _, addr := range addrs {
		wg.Go(func() {
			res, err := n.stub(addr).Status(ctx, connect.NewRequest(&pb.StatusRequest{}))
			if err != nil {
				n.cfg.Logger.Debug("a peer did not answer", "peer", addr, "error", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			out = append(out, res.Msg)
		})
	}
	wg.Wait()
	return out
}

// viewOf is what a peer's status says about node id.
func viewOf(st *pb.StatusResponse, id string) peerView {
	v := peerView{
		identity: api.Identity{Cluster: st.GetCluster(), Incarnation: st.GetIncarnation()},
		empty:    st.GetRaftEmpty(),
		leads:    st.GetState() == stateLeader,
	}
	for _, s := range st.GetServers() {
		if s.GetId() == id {
			v.member, v.voter = true, s.GetVoter()
		}
	}
	return v
}
