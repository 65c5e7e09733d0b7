package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/replica/api"
	pb "github.com/evtlog/evtlog/archive/replica/replicapb"
	"github.com/evtlog/evtlog/evtid"
)

var _ archive.Archive = (*Client)(nil)

// Client is an archive.Archive over the network. It is safe for concurrent use.
// Close it to drop its idle connections.
//
// A read without AtLeast sees at least what this client has folded or been told
// of as the watermark before.
type Client struct {
	cfg  Config
	http *http.Client

	mu sync.Mutex
	// stubs holds one stub for every address ever asked.
	stubs map[string]pb.ArchiveServiceClient
	// leader is the address that answered as leader last.
	leader string
	// turn is the position in Addresses that is tried next when no leader is known.
	turn     int
	identity api.Identity
	// seen is the newest watermark known for each stream.
	seen map[evtlog.StreamName]evtid.ID
}

// New returns a Client. It does not connect yet. An error wraps
// api.ErrBadRequest and names the field.
func New(cfg Config) (*Client, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	transport := &http.Transport{
		DialContext:         cfg.Dial,
		TLSClientConfig:     cfg.TLS,
		TLSHandshakeTimeout: cfg.CallTimeout,
		MaxIdleConnsPerHost: 16,
		IdleConnTimeout:     time.Minute,
		ForceAttemptHTTP2:   cfg.TLS != nil,
	}
	return &Client{
		cfg:      cfg,
		http:     &http.Client{Transport: transport},
		stubs:    map[string]pb.ArchiveServiceClient{},
		identity: api.Identity{Cluster: cfg.Cluster},
		seen:     map[evtlog.StreamName]evtid.ID{},
	}, nil
}

// Close drops idle connections. Calls that are running go on.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// Fold implements archive.Archive. Besides its errors, *api.UncertainError says
// that the outcome could not be learned before the context ended (repeat the
// same fold), and api.ErrNoLeader that nothing was done for want of a leader.
func (c *Client) Fold(ctx context.Context, stream evtlog.StreamName, prev evtid.ID, records []evtlog.Record) (evtid.ID, error) {
	return c.fold(ctx, stream, prev, records, false)
}

func (c *Client) fold(ctx context.Context, stream evtlog.StreamName, prev evtid.ID, records []evtlog.Record, behind bool) (evtid.ID, error) {
	if err := ctx.Err(); err != nil {
		return evtid.ID{}, fmt.Errorf("client: fold into %s: %w: nothing was sent", stream, err)
	}
	if err := archive.CheckFold(stream, prev, records); err != nil {
		return evtid.ID{}, err
	}
	last := records[len(records)-1].ID
	msg := &pb.FoldRequest{Stream: api.StreamToWire(stream), Prev: prev.String(), Records: api.RecordsToWire(records), Behind: behind}
	doubt, final, err := c.attempt(ctx, func(ctx context.Context, stub pb.ArchiveServiceClient, pass bool) error {
		msg.Forwarded = !pass
		_, err := stub.Fold(ctx, connect.NewRequest(msg))
		return err
	})
	if err != nil {
		return evtid.ID{}, settle(stream, prev, last, err, doubt, final)
	}
	c.note(stream, last)
	return last, nil
}

// Watermark implements archive.Archive. api.ErrNoLeader says that no leader
// answered before the context ended.
func (c *Client) Watermark(ctx context.Context, stream evtlog.StreamName) (evtid.ID, error) {
	var w evtid.ID
	_, final, err := c.attempt(ctx, func(ctx context.Context, stub pb.ArchiveServiceClient, pass bool) error {
		res, err := stub.Watermark(ctx, connect.NewRequest(&pb.WatermarkRequest{Stream: api.StreamToWire(stream), Forwarded: !pass}))
		if err == nil {
			w, err = api.IDFromWire(res.Msg.GetWatermark())
		}
		return err
	})
	if err != nil {
		if !final {
			err = noLeader(err)
		}
		return evtid.ID{}, err
	}
	c.note(stream, w)
	return w, nil
}

// attempt makes one call until it has a final answer or ctx ends. do gets
// pass = true when the node may pass the call on to the leader.
func (c *Client) attempt(ctx context.Context, do func(context.Context, pb.ArchiveServiceClient, bool) error) (doubt, final bool, err error) {
	var (
		pass bool
		// silent is the node that gave no answer last, next the one to ask next.
		silent, next string
	)
	for n := 0; ; n++ {
		addr := cmp.Or(next, c.pick())
		callCtx, cancel := context.WithTimeout(ctx, c.cfg.CallTimeout)
		var connected atomic.Bool
		trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
		err = api.FromWire(do(httptrace.WithClientTrace(callCtx, trace), c.stub(addr), pass))
		cancel()
		if err == nil {
			c.setLeader(addr)
			return doubt, true, nil
		}
		m, hint := judge(err, connected.Load())
		c.cfg.Logger.Debug("archive call failed", "node", addr, "attempt", n, "error", err)
		pass, next = false, ""
		switch m {
		case giveUp:
			return doubt, true, err
		case follow:
			if leader := c.follow(hint); leader != "" && leader == silent {
				// The leader may be out of this client's reach but not of its peers'.
				pass, next, silent = true, addr, ""
				c.drop(leader)
			}
			// At most every second hint is followed without a pause: two nodes
			// that name each other must not be asked in a hot loop.
			if n%2 == 0 {
				continue
			}
		case tryNext:
			silent = addr
			c.drop(addr)
		case unknown:
			doubt, silent = true, addr
			c.drop(addr)
		}
		if !c.wait(ctx, n) {
			return doubt, false, errors.Join(ctx.Err(), err)
		}
	}
}

// wait pauses before attempt n+1; false means that the context ended.
func (c *Client) wait(ctx context.Context, n int) bool {
	t := time.NewTimer(pause(n, c.cfg.RetryMin, c.cfg.RetryMax, rand.Float64()))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return ctx.Err() == nil
	}
}

func (c *Client) pick() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leader != "" {
		return c.leader
	}
	addr := c.cfg.Addresses[c.turn%len(c.cfg.Addresses)]
	c.turn++
	return addr
}

func (c *Client) setLeader(addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leader = addr
}

func (c *Client) drop(addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leader == addr {
		c.leader = ""
	}
}

// follow takes a node's word for who leads, and returns the address.
func (c *Client) follow(hint *api.NotLeaderError) string {
	// One that does not parse leaves no leader.
	addr, _ := api.ParseAddress(hint.LeaderAddress)
	c.setLeader(addr.HTTP)
	return addr.HTTP
}

func (c *Client) note(stream evtlog.StreamName, w evtid.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen[stream].Less(w) {
		c.seen[stream] = w
	}
}

func (c *Client) known(stream evtlog.StreamName) evtid.ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen[stream]
}

func (c *Client) stub(addr string) pb.ArchiveServiceClient {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.stubs[addr]; ok {
		return s
	}
	scheme := "http://"
	if c.cfg.TLS != nil {
		scheme = "https://"
	}
	creds := api.Credentials{Token: c.cfg.Token, Identity: c.whoAmI}
	s := pb.NewArchiveServiceClient(c.http, scheme+addr, connect.WithInterceptors(creds, watchIdentity{c}))
	c.stubs[addr] = s
	return s
}

func (c *Client) whoAmI() api.Identity {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.identity
}

// order returns the addresses to read from: the leader first, as it is the most
// up to date, then the others.
func (c *Client) order() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]string, 0, len(c.cfg.Addresses)+1)
	if c.leader != "" {
		out = append(out, c.leader)
	}
	for _, a := range c.cfg.Addresses {
		if !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}
