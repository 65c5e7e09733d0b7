package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/archive/replica/manifest"
	"github.com/evtlog/evtlog/archive/replica/snapstore"
)

// Names of the other things in a node's directory.
const (
	volumesFile   = "archive.db"
	snapshotsDir  = "snapshots"
	quarantineDir = "quarantine"
)

// engine is one incarnation of a node's inside: the open files, raft, and the
// loops around it. A node that steps aside stops its engine and starts another.
type engine struct {
	n      *Node
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	store  *store
	logs   *raftStore
	snaps  *snapstore.Store
	fsm    *fsm
	puller *puller
	trans  *raft.NetworkTransport
	raft   atomic.Pointer[raft.Raft]
	// empty: raft had no past when this engine started, and has none yet.
	empty atomic.Bool
	// asked counts the questions to raft that have no answer yet.
	asked atomic.Int64
	// pending counts the commands handed to raft that it has not answered.
	pending atomic.Int64
	// lanes keep the folds of a stream in order on their way to raft.
	lanes *lanes
	// restoring is true while a snapshot's content is pulled inside raft.
	restoring atomic.Bool
	// member: the node has been let in, now or in the past.
	member atomic.Bool
	// damage is the first damage found in the log.
	damage atomic.Pointer[error]
	// past is the membership as the node's own disk has it.
	past []raft.Server
	// settled: the node is the member it wants to be.
	settled atomic.Bool
	// caughtUp: the node has applied what the cluster had when it started.
	caughtUp atomic.Bool
	elected  chan bool
	mends    chan mend

	failOnce sync.Once
	failed   chan error
	stopOnce sync.Once
}

// fail ends the engine; only the first reason counts.
func (e *engine) fail(err error) {
	e.failOnce.Do(func() { e.failed <- err })
}

// startEngine opens the files and brings raft up, in the order that loses
// nothing: open the volumes and serve them to others; find out what the node is;
// get what the newest snapshot names; get what else the leader has; only then
// start raft; only then ask for membership.
func (n *Node) startEngine(ctx context.Context) (_ *engine, err error) {
	e := &engine{n: n, lanes: newLanes(), failed: make(chan error, 1), elected: make(chan bool, 16), mends: make(chan mend, 256)}
	e.ctx, e.cancel = context.WithCancel(n.ctx)
	defer func() {
		if err != nil {
			n.eng.CompareAndSwap(e, nil)
			e.stop()
		}
	}()
	if err := e.open(); err != nil {
		return nil, err
	}
	n.eng.Store(e)
	how, err := e.decide(ctx)
	if err != nil {
		return nil, err
	}
	if how == startRejoin {
		return n.rejoin(ctx, e)
	}
	e.member.Store(how == startExisting || how == startBootstrap)
	if err := e.coverSnapshots(ctx); err != nil {
		return nil, err
	}
	e.pullAhead(ctx)
	if err := e.startRaft(how == startBootstrap); err != nil {
		return nil, err
	}
	e.startLoops()
	return e, nil
}

// open opens the volumes, the log and the snapshots.
func (e *engine) open() error {
	n := e.n
	var err error
	if e.store, err = openStore(filepath.Join(n.cfg.Dir, volumesFile), n.cfg.Logger, n.cfg.faults.write, n.alarm); err != nil {
		return err
	}
	if e.logs, err = e.openLog(); err != nil {
		return err
	}
	e.snaps, err = snapstore.Open(snapstore.Config{
		Dir: filepath.Join(n.cfg.Dir, snapshotsDir), Missing: e.store.missing, Logger: n.cfg.Logger,
		Accept: func(m manifest.Manifest) error { return n.identity().Matches(m.Identity) },
	})
	if err != nil {
		return err
	}
	if e.past, err = e.lastMembership(); errors.Is(err, errDamaged) {
		e.noteDamage(err)
	} else if err != nil {
		return err
	}
	e.puller = &puller{
		store: e.store, stub: n.stub, sources: n.pullSources, stall: n.cfg.PullStall,
		alarm: n.alarm, log: n.cfg.Logger, bytes: &n.pulledBytes, commits: &n.pulledCommits,
	}
	e.fsm = &fsm{
		store: e.store, source: n.address.String(), log: n.cfg.Logger,
		stop: e.fail, alarm: n.alarm, mend: e.suspect, restore: e.restore, installed: e.installed, ctx: e.ctx,
	}
	return nil
}

// openLog opens raft.db. One that cannot even be opened is moved aside under a
// name that tells every later start of the damage, until the node has rejoined.
func (e *engine) openLog() (*raftStore, error) {
	n := e.n
	path := filepath.Join(n.cfg.Dir, raftFile)
	damaged := func(index uint64, err error) {
		e.noteDamage(fmt.Errorf("replica: entry %d of %s: %w: %w", index, raftFile, errDamaged, err))
	}
	logs, err := openRaftStore(n.cfg.Dir, e.fail, damaged)
	if errors.Is(err, errDamaged) {
		n.cfg.Logger.Error("the log cannot be opened and is moved aside", "file", path, "error", err)
		if err := os.Rename(path, path+unreadable); err != nil {
			return nil, fmt.Errorf("replica: %w", err)
		}
		logs, err = openRaftStore(n.cfg.Dir, e.fail, damaged)
	}
	if _, statErr := os.Stat(path + unreadable); statErr == nil {
		e.noteDamage(fmt.Errorf("replica: %s could not be opened: %w", raftFile, errDamaged))
	}
	return logs, err
}

// noteDamage keeps the first damage found in the log. Once raft runs it ends the
// engine, before anything of it can be sent on.
func (e *engine) noteDamage(err error) {
	e.damage.CompareAndSwap(nil, &err)
	if e.raft.Load() != nil {
		e.fail(err)
	}
}

// raftConfig returns raft's settings. They were measured. A follower looks for the
// leader's silence at random times of one to two heartbeat time-outs, so it notes
// it after one to three of them, and an election needs a majority that has noted
// it: pre-vote sees to that. So the heartbeat time-out is what a failover costs,
// while a false alarm of one node costs nothing. 300 ms brought no false election
// on a small busy machine. Batches of 16 keep what a follower may have queued in
// bounds.
func (e *engine) raftConfig() *raft.Config {
	cfg := e.n.cfg
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(cfg.ID)
	c.HeartbeatTimeout = cfg.ElectionTimeout * 6 / 10
	c.ElectionTimeout = cfg.ElectionTimeout
	c.LeaderLeaseTimeout = cfg.ElectionTimeout / 2
	c.MaxAppendEntries = 16
	// Folds on their way together reach the log in one write.
	c.BatchApplyCh = true
	c.TrailingLogs = cfg.TrailingLogs
	c.SnapshotThreshold = cfg.SnapshotThreshold
	c.SnapshotInterval = cfg.SnapshotInterval
	c.Logger = raftLogger(cfg.Logger)
	// raft waits when nobody takes a notice, so a loop takes them at once.
	c.NotifyCh = e.elected
	return c
}

// logCache is how many entries stay in memory for followers.
const logCache = 64

func (e *engine) startRaft(bootstrap bool) error {
	n := e.n
	layer, err := e.streamLayer()
	if err != nil {
		return err
	}
	conf := e.raftConfig()
	e.trans = raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: layer, MaxPool: 3, Timeout: n.cfg.TransportTimeout, Logger: conf.Logger, MsgpackUseNewTimeFormat: true,
	})
	// The limit of an install is the time-out times size over scale, in whole
	// numbers.
	e.trans.TimeoutScale = max(1, manifest.PadTo/int(n.cfg.InstallTimeout/n.cfg.TransportTimeout))
	cache, err := raft.NewLogCache(logCache, e.logs)
	if err != nil {
		return err
	}
	if bootstrap {
		if err := e.bootstrap(conf, cache); err != nil {
			return err
		}
	}
	r, err := raft.NewRaft(conf, e.fsm, cache, e.logs, e.snaps, e.trans)
	if err != nil {
		return fmt.Errorf("replica: start raft: %w", err)
	}
	e.raft.Store(r)
	if err := e.damage.Load(); err != nil {
		return *err
	}
	return nil
}

func (e *engine) bootstrap(conf *raft.Config, logs raft.LogStore) error {
	self := raft.Server{Suffrage: raft.Voter, ID: conf.LocalID, Address: raft.ServerAddress(e.n.address.String())}
	err := raft.BootstrapCluster(conf, logs, e.logs, e.snaps, e.trans, raft.Configuration{Servers: []raft.Server{self}})
	if err != nil && !errors.Is(err, raft.ErrCantBootstrap) {
		return fmt.Errorf("replica: bootstrap: %w", err)
	}
	e.empty.Store(false)
	return nil
}

// listenRaft returns the listener of the first start, or a new one on the same
// port.
func (n *Node) listenRaft() (net.Listener, error) {
	if l := n.raftListener; l != nil {
		n.raftListener = nil
		return l, nil
	}
	l, err := net.Listen("tcp", n.cfg.RaftListen)
	if err != nil {
		return nil, fmt.Errorf("replica: listen for raft: %w", err)
	}
	return l, nil
}

// leader returns who leads, as a refusal that says so.
func (e *engine) leader() *api.NotLeaderError {
	r := e.raft.Load()
	if r == nil {
		return &api.NotLeaderError{}
	}
	addr, id := r.LeaderWithID()
	return &api.NotLeaderError{LeaderID: string(id), LeaderAddress: string(addr)}
}

// servers returns the membership, as far as this node knows it.
func (e *engine) servers() []raft.Server {
	r := e.raft.Load()
	if r == nil {
		return e.past
	}
	f := r.GetConfiguration()
	if f.Error() != nil {
		return nil
	}
	return f.Configuration().Servers
}

// handOver passes the leadership on before the engine is stopped, so that the
// cluster does without a leader for milliseconds, not for a time-out.
func (e *engine) handOver(ctx context.Context) {
	r := e.raft.Load()
	if r == nil || r.State() != raft.Leader || len(e.servers()) < 2 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*e.n.cfg.ElectionTimeout)
	defer cancel()
	if err := e.await(ctx, r.LeadershipTransfer, nil); err != nil {
		e.n.cfg.Logger.Warn("the leadership could not be handed over", "error", err)
	}
}

// stopGrace bounds the wait for raft to end: when its disk hangs it never does.
const stopGrace = 10 * time.Second

// stop ends the engine: first what raft could be waiting for, then raft, then
// the network, then the files. When the disk hangs, the last part is left to a
// goroutine that ends when the disk does.
func (e *engine) stop() {
	e.stopOnce.Do(func() {
		e.cancel()
		e.waitForAnswers()
		if e.logs != nil {
			e.logs.stop()
		}
		var ending raft.Future
		if r := e.raft.Load(); r != nil {
			// From here on no heartbeat is sent any more.
			ending = r.Shutdown()
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if ending != nil {
				e.closed(ending.Error())
			}
			e.closeNetwork()
			e.wg.Wait()
			e.closeFiles()
		}()
		t := time.NewTimer(cmp.Or(e.n.cfg.faults.stopGrace, stopGrace))
		defer t.Stop()
		select {
		case <-ended:
		case <-t.C:
			e.n.cfg.Logger.Error("the node did not end in time; its disk may hang", "node", e.n.cfg.ID)
			e.closeNetwork()
		}
	})
}

// answerGrace bounds the wait for raft's last answers.
const answerGrace = time.Second

// waitForAnswers returns when raft has answered all it was asked. With a hanging
// disk it never does.
func (e *engine) waitForAnswers() {
	ctx, cancel := context.WithTimeout(context.Background(), answerGrace)
	defer cancel()
	for e.asked.Load() > 0 && sleep(ctx, time.Millisecond) {
	}
}

func (e *engine) closeNetwork() {
	if e.trans != nil {
		e.trans.CloseStreams()
		e.closed(e.trans.Close())
	}
}

func (e *engine) closeFiles() {
	if e.logs != nil {
		e.closed(e.logs.close())
	}
	if e.store != nil {
		e.closed(e.store.close())
	}
}

func (e *engine) closed(err error) {
	if err != nil {
		e.n.cfg.Logger.Error("close", "error", err)
	}
}
