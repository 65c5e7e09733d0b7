package replica

import (
	"context"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/evtlog/evtlog/archive/replica/client"
	"github.com/evtlog/evtlog/internal/faultproxy"
)

// The client behind a network that cuts connections in the middle of requests
// and answers, swallows answers, and freezes nodes: every fold is settled, and
// is there once.
func TestClientBehindAFaultyNetwork(t *testing.T) {
	t.Parallel()
	seed := soakSeed(t)
	rnd := rand.New(rand.NewPCG(seed, 7))
	c := newCluster(t, 3, nil)
	proxies := map[string]*faultproxy.Proxy{}
	var list []*faultproxy.Proxy
	for _, addr := range c.httpAddresses() {
		p := faultproxy.StartRaw(t, addr)
		proxies[addr] = p
		list = append(list, p)
	}
	cl, err := client.New(client.Config{
		Addresses: c.httpAddresses(), CallTimeout: 300 * time.Millisecond,
		// Nodes name each other by their own addresses.
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, proxies[address].Addr)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	w := &writer{stream: scores, arch: cl, size: 100}
	w.mustFold(t, 5, 3)
	faults := []struct {
		name string
		arm  func(*faultproxy.Proxy)
	}{
		{"cut request", func(p *faultproxy.Proxy) { p.CutRequests(rnd.IntN(600)) }},
		{"cut answer", func(p *faultproxy.Proxy) { p.CutReplies(rnd.IntN(200)) }},
		{"swallow", func(p *faultproxy.Proxy) { p.Swallow(0, 1) }},
		{"cut all", func(p *faultproxy.Proxy) { p.CutAll() }},
		{"refuse", func(p *faultproxy.Proxy) { p.CutAll(); p.Refuse(true) }},
		{"freeze", func(p *faultproxy.Proxy) { p.Silence(true) }},
	}
	uncertain := 0
	for i := range 12 * len(faults) {
		f := faults[i%len(faults)]
		// Most faults hit the leader's door, where they matter.
		p := proxies[c.leader().Address().HTTP]
		if rnd.IntN(4) == 0 {
			p = list[rnd.IntN(len(list))]
		}
		f.arm(p)
		// A first attempt that is given up within the fault, then one with time.
		short, cancel := context.WithTimeout(context.Background(), time.Duration(50+rnd.IntN(400))*time.Millisecond)
		err := w.fold(short, 1+i%4)
		cancel()
		p.Heal()
		if err != nil {
			uncertain++
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			err = w.fold(ctx, 1+i%4)
			cancel()
		}
		if err != nil {
			t.Fatalf("fold %d with %q: %v", i, f.name, err)
		}
	}
	t.Logf("%d of %d folds were settled by their repetition", uncertain, 12*len(faults))
	if uncertain == 0 {
		t.Error("no fault reached a fold")
	}
	c.waitEqual(scores, uint64(5+12*len(faults)))
	for _, n := range c.nodes {
		if h := headOn(n, scores); h.LSN != uint64(5+12*len(faults)) {
			t.Errorf("node %s has %d commits", n.ID(), h.LSN)
		}
		w.check(t, n.Archive())
	}
}

// A frozen leader costs one call time-out, and then its successor is found.
func TestClientFindsTheWayAroundAFrozenNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	lead := c.leader()
	frozen := faultproxy.StartRaw(t, lead.Address().HTTP)
	cl, err := client.New(client.Config{
		Addresses: c.httpAddresses(), CallTimeout: 300 * time.Millisecond,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == lead.Address().HTTP {
				address = frozen.Addr
			}
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	w := &writer{stream: scores, arch: cl, size: 100}
	w.mustFold(t, 5, 3)
	frozen.Silence(true)
	// The leader still leads: the others pass the fold on to it.
	began := time.Now()
	w.mustFold(t, 3, 3)
	t.Logf("three folds around the frozen door took %s", time.Since(began))
	frozen.Heal()
	w.mustFold(t, 1, 1)
	c.waitEqual(scores, 9)
	w.check(t, cl)
}
