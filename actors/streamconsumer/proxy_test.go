package streamconsumer

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// proxy passes bytes between clients and the server until it is told to swallow
// them, or to drop the clients behind the server's back.
type proxy struct {
	listener net.Listener
	target   string
	swallow  atomic.Bool
	wg       sync.WaitGroup

	mu    sync.Mutex
	pairs []*pair
}

// pair is one connection through the proxy.
type pair struct {
	client, server net.Conn
	// dead: no byte passes any more, and the server hears nothing of the client.
	dead atomic.Bool
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, target: target}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.cutClients()
		p.mu.Lock()
		for _, c := range p.pairs {
			_ = c.server.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) url() string { return "redis://" + p.listener.Addr().String() + "/0" }

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		c := &pair{client: client, server: server}
		p.mu.Lock()
		p.pairs = append(p.pairs, c)
		p.mu.Unlock()
		p.wg.Go(func() {
			p.pass(c, client, server)
			if !c.dead.Load() {
				_ = server.Close()
			}
		})
		p.wg.Go(func() {
			p.pass(c, server, client)
			_ = client.Close()
		})
	}
}

// pass copies until from ends.
func (p *proxy) pass(c *pair, from, to net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if p.swallow.Load() {
			c.dead.Store(true)
		}
		if !c.dead.Load() {
			_, _ = to.Write(buf[:n])
		}
	}
}

// cutClients drops the clients. The server does not hear of it.
func (p *proxy) cutClients() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.pairs {
		c.dead.Store(true)
		_ = c.client.Close()
	}
}
