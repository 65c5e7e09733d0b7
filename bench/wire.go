package main

import (
	"io"
	"net"
	"sync/atomic"

	"github.com/evtlog/evtlog/archive/replica"
)

// wire stands in front of both ports of a node and counts the bytes that pass.
type wire struct{ raft, http *counter }

// newWire chooses the ports of a node and makes it advertise the counters.
func newWire(cfg *replica.Config) (w *wire, err error) {
	w = &wire{}
	if w.raft, err = portAndCounter(&cfg.RaftListen, &cfg.RaftAdvertise); err != nil {
		return w, err
	}
	w.http, err = portAndCounter(&cfg.HTTPListen, &cfg.HTTPAdvertise)
	return w, err
}

// portAndCounter chooses a port to listen on and one to advertise.
func portAndCounter(listen, advertise *string) (*counter, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	c, err := newCounter(addr)
	if err != nil {
		return nil, err
	}
	*listen, *advertise = addr, c.listener.Addr().String()
	return c, nil
}

func (w *wire) close() {
	for _, c := range []*counter{w.raft, w.http} {
		if c != nil {
			_ = c.listener.Close()
		}
	}
}

func (w *wire) reset() {
	for _, c := range []*counter{w.raft, w.http} {
		c.in.Store(0)
		c.out.Store(0)
	}
}

// counter passes connections on to an address. in is what was sent to it, out what
// was fetched from it.
type counter struct {
	listener net.Listener
	target   string
	in, out  atomic.Int64
}

func newCounter(target string) (*counter, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &counter{listener: l, target: target}
	go c.serve()
	return c, nil
}

func (c *counter) serve() {
	for {
		conn, err := c.listener.Accept()
		if err != nil {
			return
		}
		go c.pass(conn)
	}
}

func (c *counter) pass(conn net.Conn) {
	defer conn.Close()
	node, err := net.Dial("tcp", c.target)
	if err != nil {
		return
	}
	defer node.Close()
	go func() {
		_, _ = io.Copy(tally{node, &c.in}, conn)
		_ = node.Close()
	}()
	_, _ = io.Copy(tally{conn, &c.out}, node)
}

// tally counts what is written.
type tally struct {
	io.Writer
	n *atomic.Int64
}

func (t tally) Write(b []byte) (int, error) {
	n, err := t.Writer.Write(b)
	t.n.Add(int64(n))
	return n, err
}
