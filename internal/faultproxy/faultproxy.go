// Package faultproxy puts a faulty network between a test and a Redis server: it
// cuts connections at a byte, swallows answers, delays, goes silent, and counts
// connections.
//
// Faults are armed while the proxy runs and count from that moment, over all
// connections together; a test that arms one keeps the other connections quiet.
package faultproxy

import (
	"bufio"
	"bytes"
	"net"
	"sync"
	"testing"
	"time"
)

// noLimit: no cut is armed.
const noLimit = -1

// Proxy is one listening address in front of one server. Its methods are safe
// for concurrent use.
type Proxy struct {
	// Addr is "127.0.0.1:port".
	Addr string

	listener net.Listener
	done     sync.WaitGroup

	mu       sync.Mutex
	changed  *sync.Cond
	target   string
	conns    map[*pipe]bool
	accepted int
	raw      bool
	closed   bool

	// requestsLeft and repliesLeft are the bytes until a cut.
	requestsLeft, repliesLeft int
	// skip answers pass, then swallow answers vanish.
	skip, swallow int
	// drop picks further answers that vanish.
	drop     func(answer []byte) bool
	dropped  int
	delay    time.Duration
	silent   bool
	refusing bool
}

// Start listens in front of target, "host:port", until the test ends.
func Start(t testing.TB, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("faultproxy: %v", err)
	}
	p := &Proxy{
		Addr: listener.Addr().String(), listener: listener, target: target,
		conns: map[*pipe]bool{}, requestsLeft: noLimit, repliesLeft: noLimit,
	}
	p.changed = sync.NewCond(&p.mu)
	p.done.Add(1)
	go p.accept()
	t.Cleanup(p.stop)
	return p
}

// StartRaw is Start in front of a server of another protocol. An answer is then
// whatever arrives at once, which is what Swallow counts.
func StartRaw(t testing.TB, target string) *Proxy {
	t.Helper()
	p := Start(t, target)
	p.set(func() { p.raw = true })
	return p
}

// URL returns the redis:// URL of database 0 through the proxy.
func (p *Proxy) URL() string { return "redis://" + p.Addr + "/0" }

// Accepted returns how many connections were ever made.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Open returns how many connections are open now.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

// CutAll closes every open connection.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	open := make([]*pipe, 0, len(p.conns))
	for c := range p.conns {
		open = append(open, c)
	}
	p.mu.Unlock()
	for _, c := range open {
		c.close()
	}
}

// CutRequests lets n more bytes through to the server, and cuts the connection
// that wants to send the next one. The server has then got exactly n bytes.
func (p *Proxy) CutRequests(n int) { p.set(func() { p.requestsLeft = n }) }

// CutReplies lets n more bytes of answers through, and cuts the connection that
// has the next one. The server has done what it was asked.
func (p *Proxy) CutReplies(n int) { p.set(func() { p.repliesLeft = n }) }

// Swallow lets skip more answers through and drops the n after them. The
// connection stays open.
func (p *Proxy) Swallow(skip, n int) { p.set(func() { p.skip, p.swallow = skip, n }) }

// Swallowing reports how many answers are still to be dropped.
func (p *Proxy) Swallowing() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.swallow
}

// Drop asks f about each answer from now on, one at a time, and drops those it
// picks. The connection stays open. f gets the bytes of one whole answer and
// must not keep them.
func (p *Proxy) Drop(f func(answer []byte) bool) { p.set(func() { p.drop = f }) }

// Dropped returns how many answers Drop has dropped.
func (p *Proxy) Dropped() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropped
}

// IsMessage reports whether an answer is one that a subscriber gets for a
// PUBLISH, for use with Drop.
func IsMessage(answer []byte) bool {
	return bytes.HasPrefix(answer, []byte("*3\r\n$7\r\nmessage\r\n"))
}

// Delay holds every answer back for d from now on.
func (p *Proxy) Delay(d time.Duration) { p.set(func() { p.delay = d }) }

// Silence holds everything back, in both directions and on new connections too,
// as a network that drops packets does. Ending it lets go what was held.
func (p *Proxy) Silence(on bool) { p.set(func() { p.silent = on }) }

// Refuse closes new connections at once.
func (p *Proxy) Refuse(on bool) { p.set(func() { p.refusing = on }) }

// Retarget sends new connections to another server, as a failover behind one
// address does.
func (p *Proxy) Retarget(target string) { p.set(func() { p.target = target }) }

// Heal disarms every fault.
func (p *Proxy) Heal() {
	p.set(func() {
		p.requestsLeft, p.repliesLeft = noLimit, noLimit
		p.skip, p.swallow, p.delay, p.drop = 0, 0, 0, nil
		p.silent, p.refusing = false, false
	})
}

func (p *Proxy) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	p.changed.Broadcast()
}

func (p *Proxy) stop() {
	p.set(func() { p.closed = true })
	_ = p.listener.Close()
	p.CutAll()
	p.done.Wait()
}

func (p *Proxy) accept() {
	defer p.done.Done()
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.accepted++
		target, refused := p.target, p.refusing || p.closed
		p.mu.Unlock()
		if refused {
			_ = client.Close()
			continue
		}
		server, err := net.Dial("tcp", target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.start(&pipe{p: p, client: client, server: server})
	}
}

func (p *Proxy) start(c *pipe) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		go c.close()
		return
	}
	p.conns[c] = true
	p.done.Add(2)
	go c.requests()
	go c.replies()
}

// pipe is one connection through the proxy.
type pipe struct {
	p              *Proxy
	client, server net.Conn
	gone           bool // guarded by p.mu
}

func (c *pipe) close() {
	c.p.set(func() {
		c.gone = true
		delete(c.p.conns, c)
	})
	_ = c.client.Close()
	_ = c.server.Close()
}

func (c *pipe) requests() {
	defer c.p.done.Done()
	defer c.close()
	buf := make([]byte, 64<<10)
	for {
		n, err := c.client.Read(buf)
		if err != nil || !c.forward(c.server, buf[:n], &c.p.requestsLeft) {
			return
		}
	}
}

func (c *pipe) replies() {
	defer c.p.done.Done()
	defer c.close()
	next := c.nextReply()
	for {
		reply, err := next()
		if err != nil {
			return
		}
		if c.p.swallows(reply) {
			continue
		}
		if !c.hold() || !c.forward(c.client, reply, &c.p.repliesLeft) {
			return
		}
	}
}

// nextReply returns what reads one answer after the other. An answer is valid
// until the next one.
func (c *pipe) nextReply() func() ([]byte, error) {
	c.p.mu.Lock()
	raw := c.p.raw
	c.p.mu.Unlock()
	if raw {
		buf := make([]byte, 64<<10)
		return func() ([]byte, error) {
			n, err := c.server.Read(buf)
			return buf[:n], err
		}
	}
	in := bufio.NewReaderSize(c.server, 64<<10)
	var reply []byte
	return func() (_ []byte, err error) {
		reply, err = readReply(in, reply[:0])
		return reply, err
	}
}

// swallows reports whether the answer that just came is to be dropped.
func (p *Proxy) swallows(answer []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drop != nil && p.drop(answer) {
		p.dropped++
		return true
	}
	switch {
	case p.swallow == 0:
		return false
	case p.skip > 0:
		p.skip--
		return false
	}
	p.swallow--
	return true
}

// hold waits out the delay. It is false when the connection went meanwhile.
func (c *pipe) hold() bool {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if c.p.delay > 0 {
		until := time.Now().Add(c.p.delay)
		timer := time.AfterFunc(c.p.delay, func() { c.p.set(func() {}) })
		defer timer.Stop()
		for !c.gone && time.Now().Before(until) {
			c.p.changed.Wait()
		}
	}
	return !c.gone
}

// forward passes bytes on, up to the cut. It is false when the connection is to
// be closed.
func (c *pipe) forward(to net.Conn, b []byte, left *int) bool {
	c.p.mu.Lock()
	for c.p.silent && !c.gone {
		c.p.changed.Wait()
	}
	cut := *left != noLimit && len(b) > *left
	if cut {
		b = b[:*left]
		// One cut, then the network is whole again.
		*left = noLimit
	} else if *left != noLimit {
		*left -= len(b)
	}
	gone := c.gone
	c.p.mu.Unlock()
	if gone {
		return false
	}
	_, err := to.Write(b)
	return err == nil && !cut
}
