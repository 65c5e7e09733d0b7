package replica

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/archive/replica/client"
	pb "github.com/evtlog/evtlog/archive/replica/replicapb"
)

// Node is one member of a replicated archive, inside this process. It is safe
// for concurrent use.
type Node struct {
	cfg     Config
	address api.Address

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	http     *http.Server
	peerHTTP *http.Client
	stubMu   sync.Mutex
	stubs    map[string]pb.ArchiveServiceClient
	// formerPeers are the members that a node knew before it rejoined.
	formerPeers []string
	archive     *embedded

	// raftListener is handed to the first engine; later ones listen anew.
	raftListener net.Listener

	eng   atomic.Pointer[engine]
	who   atomic.Pointer[api.Identity]
	aside atomic.Pointer[error]

	pulledBytes, pulledCommits, elections atomic.Uint64
	alarms                                alarmLog
	installs                              installWatch
	// restoreTook is how long the last pull took that moved anything, in ns.
	restoreTook atomic.Int64

	stopOnce sync.Once
	stopErr  error
	done     chan struct{}
	err      error
}

// Start starts a node and returns when it takes part in the cluster, or at least
// could: raft runs, though a leader may still have to be elected. Until then ctx
// bounds the start; afterwards the node lives until Stop.
//
// An empty node without Bootstrap waits for a peer to learn the cluster from. A
// node whose disk lacks what its snapshot names pulls it first. Errors: a bad
// Config or an unknown past wraps api.ErrBadRequest, api.ErrMembership or
// api.ErrForeignCluster; archive.ErrLocked says that another process uses Dir.
func Start(ctx context.Context, cfg Config) (*Node, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("replica: %w", err)
	}
	n := &Node{cfg: cfg, stubs: map[string]pb.ArchiveServiceClient{}, done: make(chan struct{})}
	n.who.Store(&api.Identity{Cluster: cfg.Cluster})
	n.ctx, n.cancel = context.WithCancel(context.Background())
	if err := n.listen(); err != nil {
		n.abandon()
		return nil, err
	}
	first, err := n.startEngine(ctx)
	if err != nil {
		n.abandon()
		return nil, err
	}
	n.wg.Go(func() { n.supervise(first) })
	return n, nil
}

// listen opens both ports and begins to serve: other nodes may need what this
// one has before it can run itself.
func (n *Node) listen() error {
	raftL, err := net.Listen("tcp", n.cfg.RaftListen)
	if err != nil {
		return fmt.Errorf("replica: listen for raft: %w", err)
	}
	n.raftListener = raftL
	httpL, err := net.Listen("tcp", n.cfg.HTTPListen)
	if err != nil {
		return fmt.Errorf("replica: listen for HTTP: %w", err)
	}
	// Port 0 has become a real one; a restarted engine must get the same.
	n.cfg.RaftListen, n.cfg.HTTPListen = raftL.Addr().String(), httpL.Addr().String()
	n.address = api.Address{
		Raft: advertise(n.cfg.RaftAdvertise, n.cfg.RaftListen),
		HTTP: advertise(n.cfg.HTTPAdvertise, n.cfg.HTTPListen),
	}
	if _, err := api.ParseAddress(n.address.String()); err != nil {
		_ = httpL.Close()
		return fmt.Errorf("replica: set RaftAdvertise and HTTPAdvertise: %w", err)
	}
	n.peerHTTP = newPeerHTTP(n.cfg)
	remote, err := client.New(client.Config{
		Addresses: append([]string{n.address.HTTP}, n.cfg.Peers...), Cluster: n.cfg.Cluster,
		Token: n.cfg.Token, TLS: n.cfg.TLS, Logger: n.cfg.Logger, Dial: n.cfg.faults.dial,
	})
	if err != nil {
		_ = httpL.Close()
		return err
	}
	n.archive = &embedded{n: n, remote: remote}
	n.http = n.newHTTPServer()
	n.wg.Go(func() { n.serveHTTP(httpL) })
	return nil
}

// advertise fills in what was left open of an advertised address: all of it, or
// a port 0.
func advertise(configured, listening string) string {
	if configured == "" {
		return listening
	}
	host, port, err := net.SplitHostPort(configured)
	_, actual, lerr := net.SplitHostPort(listening)
	if err == nil && lerr == nil && port == "0" {
		return net.JoinHostPort(host, actual)
	}
	return configured
}

func (n *Node) serveHTTP(l net.Listener) {
	var err error
	if n.cfg.TLS != nil {
		n.http.TLSConfig = n.cfg.TLS.Clone()
		err = n.http.ServeTLS(l, "", "")
	} else {
		err = n.http.Serve(l)
	}
	if !errors.Is(err, http.ErrServerClosed) {
		n.alarm(Alarm{Kind: "http", Err: fmt.Errorf("replica: the HTTP port has failed: %w", err)})
	}
}

// abandon undoes a start that failed.
func (n *Node) abandon() {
	n.cancel()
	if n.raftListener != nil {
		_ = n.raftListener.Close()
	}
	if e := n.eng.Swap(nil); e != nil {
		e.stop()
	}
	if n.http != nil {
		_ = n.http.Close()
	}
	n.wg.Wait()
	n.closeClients()
}

func (n *Node) closeClients() {
	if n.peerHTTP != nil {
		n.peerHTTP.CloseIdleConnections()
	}
	if n.archive != nil {
		_ = n.archive.remote.Close()
	}
}

// Stop hands the leadership over if the node has it, and ends the node. It is
// safe to call more than once; later calls return what the first did. ctx
// bounds the hand-over and the calls under way; what cannot wait is cut.
func (n *Node) Stop(ctx context.Context) error {
	n.stopOnce.Do(func() {
		stopping := fmt.Errorf("replica: node %s stops: %w", n.cfg.ID, api.ErrNotReady)
		n.aside.Store(&stopping)
		if e := n.engine(); e != nil {
			e.handOver(ctx)
		}
		n.cancel()
		if err := n.http.Shutdown(ctx); err != nil {
			n.stopErr = errors.Join(err, n.http.Close())
		}
		n.wg.Wait()
		n.closeClients()
	})
	return n.stopErr
}

// Done is closed when the node has ended, by Stop or for good after a failure
// that it cannot mend itself; Err says which.
func (n *Node) Done() <-chan struct{} { return n.done }

// Err returns why the node ended by itself; nil while it runs and after Stop.
func (n *Node) Err() error {
	select {
	case <-n.done:
		return n.err
	default:
		return nil
	}
}

// ID returns the node's id.
func (n *Node) ID() string { return n.cfg.ID }

// Address returns where others reach the node.
func (n *Node) Address() api.Address { return n.address }

// Archive returns the archive as this process reaches it best: directly when the
// node leads, through the leader when it does not; reads are local.
func (n *Node) Archive() archive.Archive { return n.archive }

func (n *Node) engine() *engine { return n.eng.Load() }

func (n *Node) identity() api.Identity { return *n.who.Load() }

func (n *Node) alarm(a Alarm) {
	n.cfg.Logger.Error("alarm", "kind", a.Kind, "error", a.Err)
	n.alarms.add(a)
	n.cfg.OnAlarm(a)
}

// supervise keeps an engine running: after a failure that passes, such as a full
// disk, it waits until it has passed and starts a new one.
func (n *Node) supervise(e *engine) {
	defer close(n.done)
	for attempt := 0; ; attempt++ {
		started := time.Now()
		var cause error
		select {
		case <-n.ctx.Done():
		case cause = <-e.failed:
		}
		if cause != nil {
			n.aside.Store(&cause)
			e.handOver(n.ctx)
		}
		n.eng.Store(nil)
		e.stop()
		if n.ctx.Err() != nil {
			return
		}
		if time.Since(started) > time.Minute {
			attempt = 0
		}
		f := classifyFailure(cause)
		n.alarm(Alarm{Kind: f.kind, Err: cause})
		final := cause
		if !f.fatal {
			e, final = n.restart(f, attempt)
		}
		if final != nil {
			n.err = final
			_ = n.http.Close()
			return
		}
		if e == nil {
			return
		}
		n.aside.Store(nil)
	}
}

// restart starts a new engine when the failure has passed. It returns nil when
// the node stops first, with an error when it cannot come back by itself.
func (n *Node) restart(f failure, attempt int) (*engine, error) {
	for {
		if !sleep(n.ctx, f.pause(attempt)) {
			return nil, nil
		}
		if f.kind == kindDisk && !n.hasSpace() {
			continue
		}
		e, err := n.startEngine(n.ctx)
		if err == nil {
			n.cfg.Logger.Info("the node is back", "node", n.cfg.ID)
			return e, nil
		}
		if n.ctx.Err() != nil {
			return nil, nil
		}
		if hopeless(err) {
			return nil, err
		}
		n.cfg.Logger.Error("the node cannot start again yet", "error", err)
		attempt++
	}
}

// hasSpace leaves some distance to the limit, so that a node does not step aside
// again at its first write.
func (n *Node) hasSpace() bool {
	free, err := n.freeSpace()
	return err == nil && free >= n.cfg.ReserveBytes+n.cfg.ReserveBytes/2
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// alarmLog keeps the last alarms for the status.
type alarmLog struct {
	mu   sync.Mutex
	last []string
	n    int
}

const keptAlarms = 16

func (l *alarmLog) add(a Alarm) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	l.last = append(l.last, strconv.Itoa(l.n)+" "+a.Kind+": "+a.Err.Error())
	if len(l.last) > keptAlarms {
		l.last = l.last[1:]
	}
}

func (l *alarmLog) list() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.last...)
}
