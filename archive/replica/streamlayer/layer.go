package streamlayer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/evtlog/evtlog/archive/replica/api"
)

// Config configures a Layer. Listener and Advertise are required.
type Config struct {
	// Listener accepts the raft connections. The Layer closes it.
	Listener net.Listener
	// Advertise is the address of this node that the others know.
	Advertise api.Address
	// Identity is asked at each handshake.
	Identity func() api.Identity
	// TLS, when not nil, is used on both ends: it needs Certificates, RootCAs,
	// ClientCAs and ClientAuth.
	TLS *tls.Config
	// Dial opens outgoing connections; nil uses the system's dialler. Tests put a
	// faulty network here.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// HandshakeTimeout bounds a handshake on both ends. Zero means 5 s.
	HandshakeTimeout time.Duration
	// MaxHandshakes bounds the incoming handshakes under way. Zero means 64.
	MaxHandshakes int
	// Logger gets refused handshakes. nil discards.
	Logger *slog.Logger
}

// Layer implements raft.StreamLayer.
type Layer struct {
	cfg      Config
	accepted chan net.Conn
	ctx      context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup
	slots    chan struct{}

	mu   sync.Mutex
	open map[net.Conn]struct{}
}

var _ raft.StreamLayer = (*Layer)(nil)

// New starts accepting on cfg.Listener. Close it.
func New(cfg Config) *Layer {
	if cfg.HandshakeTimeout == 0 {
		cfg.HandshakeTimeout = 5 * time.Second
	}
	if cfg.MaxHandshakes == 0 {
		cfg.MaxHandshakes = 64
	}
	if cfg.Dial == nil {
		cfg.Dial = (&net.Dialer{}).DialContext
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	l := &Layer{cfg: cfg, accepted: make(chan net.Conn), slots: make(chan struct{}, cfg.MaxHandshakes), open: map[net.Conn]struct{}{}}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.wg.Go(l.listen)
	return l
}

// Accept implements net.Listener: connections whose handshake succeeded.
func (l *Layer) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close stops accepting and closes every connection that was opened through the
// layer, so that no raft message of a stopped node arrives late.
func (l *Layer) Close() error {
	l.cancel()
	err := l.cfg.Listener.Close()
	l.mu.Lock()
	conns := slices.Collect(maps.Keys(l.open))
	l.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
	l.wg.Wait()
	return err
}

// Addr implements net.Listener: the address the other nodes know.
func (l *Layer) Addr() net.Addr { return advertised(l.cfg.Advertise.String()) }

type advertised string

func (advertised) Network() string  { return "tcp" }
func (a advertised) String() string { return string(a) }

// listen accepts until the listener is closed. Handshakes run beside it, each
// with a deadline: a silent connection must not hold up the others.
func (l *Layer) listen() {
	for l.ctx.Err() == nil {
		conn, err := l.cfg.Listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			l.cfg.Logger.Error("accept of a raft connection failed", "error", err)
			l.rest(50 * time.Millisecond)
			continue
		}
		select {
		case l.slots <- struct{}{}:
			l.wg.Go(func() {
				defer func() { <-l.slots }()
				l.welcome(conn)
			})
		default:
			_ = conn.Close()
			l.cfg.Logger.Warn("raft connection refused: too many handshakes under way", "from", conn.RemoteAddr().String())
		}
	}
}

func (l *Layer) rest(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.ctx.Done():
	}
}

func (l *Layer) welcome(raw net.Conn) {
	conn := l.track(raw, "")
	if err := l.answer(conn); err != nil {
		_ = conn.Close()
		l.cfg.Logger.Warn("raft connection refused", "from", raw.RemoteAddr().String(), "error", err)
		return
	}
	select {
	case l.accepted <- conn:
	case <-l.ctx.Done():
		_ = conn.Close()
	}
}

// answer is the acceptor's half of the handshake.
func (l *Layer) answer(conn net.Conn) error {
	if err := conn.SetDeadline(time.Now().Add(l.cfg.HandshakeTimeout)); err != nil {
		return err
	}
	theirs, err := readHello(conn)
	if err != nil {
		return err
	}
	ours := l.identity()
	mismatch := ours.Matches(theirs)
	refusal := ""
	if mismatch != nil {
		refusal = mismatch.Error()
	}
	if _, err := conn.Write(appendAnswer(nil, ours, refusal)); err != nil {
		return err
	}
	if mismatch != nil {
		return mismatch
	}
	return conn.SetDeadline(time.Time{})
}

// Dial implements raft.StreamLayer. address is an api.Address. A node of another
// cluster is an *api.ForeignClusterError.
func (l *Layer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	target, err := api.ParseAddress(string(address))
	if err != nil {
		return nil, err
	}
	timeout = min(timeout, l.cfg.HandshakeTimeout)
	ctx, cancel := context.WithTimeout(l.ctx, timeout)
	defer cancel()
	raw, err := l.cfg.Dial(ctx, "tcp", target.Raft)
	if err != nil {
		return nil, fmt.Errorf("replica: dial %s: %w", target.Raft, err)
	}
	host, _, err := net.SplitHostPort(target.Raft)
	if err != nil {
		return nil, err
	}
	conn := l.track(raw, host)
	if err := l.introduce(conn, timeout); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("replica: dial %s: %w", target.Raft, err)
	}
	return conn, nil
}

// introduce is the dialler's half of the handshake.
func (l *Layer) introduce(conn net.Conn, timeout time.Duration) error {
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	ours := l.identity()
	if _, err := conn.Write(appendHello(nil, ours)); err != nil {
		return err
	}
	theirs, refusal, err := readAnswer(conn)
	if err != nil {
		return err
	}
	if err := ours.Matches(theirs); err != nil {
		return err
	}
	if refusal != "" {
		return fmt.Errorf("%w: refused by the other side: %s", errHandshake, refusal)
	}
	return conn.SetDeadline(time.Time{})
}

func (l *Layer) identity() api.Identity {
	if l.cfg.Identity == nil {
		return api.Identity{}
	}
	return l.cfg.Identity()
}

// track wraps a connection in TLS, if asked for, and remembers it for Close.
// dialled is the host it leads to; empty for an accepted one.
func (l *Layer) track(raw net.Conn, dialled string) net.Conn {
	conn := raw
	switch {
	case l.cfg.TLS != nil && dialled == "":
		conn = tls.Server(raw, l.cfg.TLS)
	case l.cfg.TLS != nil:
		cfg := l.cfg.TLS.Clone()
		if cfg.ServerName == "" {
			cfg.ServerName = dialled
		}
		conn = tls.Client(raw, cfg)
	}
	t := &tracked{Conn: conn, layer: l}
	l.mu.Lock()
	l.open[t] = struct{}{}
	l.mu.Unlock()
	if l.ctx.Err() != nil {
		_ = conn.Close()
	}
	return t
}

// tracked leaves the layer's list when it is closed.
type tracked struct {
	net.Conn
	layer *Layer
}

// Close implements net.Conn.
func (t *tracked) Close() error {
	t.layer.mu.Lock()
	delete(t.layer.open, t)
	t.layer.mu.Unlock()
	return t.Conn.Close()
}
