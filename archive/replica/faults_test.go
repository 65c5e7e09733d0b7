package replica

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/evtlog/evtlog/archive/replica/api"
)

func TestPartitionedLeaderNeverAcknowledges(t *testing.T) {
	t.Parallel()
	network := newTestNet()
	c := newCluster(t, 3, func(id string, cfg *Config) { cfg.faults.dial = network.dialer(id) })
	for _, n := range c.nodes {
		network.own(n)
	}
	w := &writer{stream: scores, arch: c.client()}
	w.mustFold(t, 10, 2)
	c.waitEqual(scores, 10)
	old := c.leader()
	network.isolate(old.ID())
	// What the cut-off leader takes is never acknowledged.
	stale := &writer{stream: scores, arch: old.Archive(), w: w.w, n: w.n}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	err := stale.fold(ctx, 1)
	if !errors.Is(err, api.ErrUncertain) && !errors.Is(err, api.ErrNoLeader) {
		t.Fatalf("fold into a cut-off leader: %v", err)
	}
	if _, err := old.Archive().Watermark(ctx, scores); err == nil {
		t.Error("a cut-off leader answered a linearizable read")
	}
	eventually(t, 30*time.Second, "new leader", func() bool {
		for _, n := range c.nodes {
			if n != old && n.notLeading() == nil {
				return true
			}
		}
		return false
	})
	// The others go on. The same records as the stale ones: the uncertain fold is
	// settled by its own repetition.
	w.mustFold(t, 10, 1)
	network.heal(old.ID())
	c.waitEqual(scores, 20)
	w.check(t, old.Archive())
}

func TestDiskFullStepsAsideAndComesBack(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]func(full *atomic.Bool, cfg *Config){
		"no space left": func(full *atomic.Bool, cfg *Config) {
			cfg.faults.free = func() (uint64, error) {
				if full.Load() {
					return 1000, nil
				}
				return 1 << 40, nil
			}
		},
		"write fails": func(full *atomic.Bool, cfg *Config) {
			cfg.faults.write = func() error {
				if full.Load() {
					return fmt.Errorf("the test fills the disk: %w", syscall.ENOSPC)
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			full := map[string]*atomic.Bool{"a": {}, "b": {}, "c": {}}
			c := newCluster(t, 3, func(id string, cfg *Config) { how(full[id], cfg) })
			w := &writer{stream: scores, arch: c.client()}
			w.mustFold(t, 10, 2)
			victim := c.leader()
			full[victim.ID()].Store(true)
			w.mustFold(t, 20, 2)
			eventually(t, 30*time.Second, "node that stepped aside", func() bool { return victim.aside.Load() != nil })
			w.mustFold(t, 20, 2)
			full[victim.ID()].Store(false)
			eventually(t, 60*time.Second, "node that is back", func() bool { return victim.Status().LeaderID != "" && victim.aside.Load() == nil })
			c.waitEqual(scores, 50)
			w.check(t, victim.Archive())
		})
	}
}

// A node is not ready before it has applied what was folded while it was away.
func TestNotReadyWhileBehind(t *testing.T) {
	t.Parallel()
	var slow atomic.Pointer[chan struct{}]
	c := newCluster(t, 3, func(_ string, cfg *Config) {
		cfg.faults.lateStart = true
		cfg.faults.write = func() error {
			if gate := slow.Load(); gate != nil {
				<-*gate
			}
			return nil
		}
	})
	w := &writer{stream: scores, arch: c.client()}
	w.mustFold(t, 10, 2)
	c.waitEqual(scores, 10)
	victim := c.follower().ID()
	c.stop(victim)
	w.mustFold(t, 20, 2)
	for _, n := range c.nodes {
		eventually(t, 30*time.Second, "all folds on "+n.ID(), func() bool { return headOn(n, scores).LSN == 30 })
	}
	gate := make(chan struct{})
	slow.Store(&gate)
	n := c.start(victim)
	eventually(t, 30*time.Second, "a log that is complete", func() bool {
		r := n.engine().raft.Load()
		return n.Status().LeaderID != "" && r.LastIndex() >= c.leader().engine().raft.Load().LastIndex()
	})
	looked := time.Now()
	eventually(t, 30*time.Second, "more than two looks of the node at itself", func() bool {
		if text, ok := probe(n.checks()); ok || !strings.Contains(text, "[-]caught-up ") {
			t.Fatalf("ready at LSN %d of 30:\n%s", headOn(n, scores).LSN, text)
		}
		return time.Since(looked) > 3*askEvery
	})
	slow.Store(nil)
	close(gate)
	eventually(t, 30*time.Second, "a node that is ready", func() bool { _, ok := probe(n.checks()); return ok })
	if lsn := headOn(n, scores).LSN; lsn != 30 {
		t.Errorf("ready at LSN %d of 30", lsn)
	}
}

func TestRollingRestart(t *testing.T) {
	c := newCluster(t, 3, nil)
	w := &writer{stream: scores, arch: c.client()}
	w.mustFold(t, 10, 2)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	var worst time.Duration
	go func() {
		for ctx.Err() == nil {
			began := time.Now()
			if err := w.fold(context.Background(), 2); err != nil {
				done <- err
				return
			}
			worst = max(worst, time.Since(began))
		}
		done <- nil
	}()
	for _, id := range []string{"a", "b", "c"} {
		c.stop(id)
		n := c.start(id)
		eventually(t, 30*time.Second, "node that has caught up", func() bool { return n.Status().LeaderID != "" && n.engine().settled.Load() })
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatalf("fold during the restarts: %v", err)
	}
	t.Logf("the longest fold took %s", worst)
	if worst > 3*time.Second {
		t.Errorf("a fold took %s; a restart should cost one election at most", worst)
	}
	c.waitEqual(scores, 10)
	w.check(t, c.leader().Archive())
}

func TestAddressMayChange(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	w := &writer{stream: scores, arch: c.leader().Archive()}
	w.mustFold(t, 5, 1)
	id := c.follower().ID()
	c.stop(id)
	cfg := c.cfgs[id]
	cfg.RaftListen, cfg.HTTPListen = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Peers = c.httpAddresses()
	c.cfgs[id] = cfg
	n := c.start(id)
	eventually(t, 30*time.Second, "new address in the membership", func() bool {
		for _, s := range c.leader().Status().Servers {
			if s.ID == id {
				return s.Address == n.Address().String() && s.Voter
			}
		}
		return false
	})
	w = &writer{stream: scores, arch: c.client(), w: w.w, n: w.n, acked: w.acked}
	w.mustFold(t, 5, 1)
	c.waitVoters(n, 3)
	c.waitEqual(scores, 10)
}

// A state that differs on one node alone is found by the comparison and replaced.
func TestDivergedFollowerIsReplaced(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	w := &writer{stream: scores, arch: c.client()}
	w.mustFold(t, 10, 1)
	c.waitEqual(scores, 10)
	victim := c.follower()
	// Another history of the same length, behind raft's back.
	if err := victim.engine().store.quarantine(scores); err != nil {
		t.Fatal(err)
	}
	forge(t, victim, 10)
	w.mustFold(t, 1, 1)
	eventually(t, 60*time.Second, "diverged volume that was replaced", func() bool {
		return headOn(victim, scores).Chain == headOn(c.leader(), scores).Chain && headOn(victim, scores).Parked == ""
	})
	w.mustFold(t, 5, 1)
	c.waitEqual(scores, 16)
	w.check(t, victim.Archive())
}

func TestLeadershipTransferIsFast(t *testing.T) {
	c := newCluster(t, 3, nil)
	ctx := context.Background()
	to := c.follower().ID()
	began := time.Now()
	got, err := c.leader().Transfer(ctx, to)
	if err != nil || got != to {
		t.Fatalf("transfer to %s: %q, %v", to, got, err)
	}
	t.Logf("transfer took %s", time.Since(began))
	if _, err := c.leader().Transfer(ctx, "nobody"); !errors.Is(err, api.ErrMembership) {
		t.Errorf("transfer to a stranger: %v", err)
	}
	if err := c.leader().Remove(ctx, "a", false); !errors.Is(err, api.ErrMembership) {
		t.Errorf("removal below three voters without force: %v", err)
	}
}

// A leader whose disk hangs goes on sending heartbeats, so nobody would replace
// it: it has to notice by itself.
func TestHangingDiskIsNoticed(t *testing.T) {
	var hang atomic.Bool
	release := make(chan struct{})
	var victim string
	c := newCluster(t, 3, func(id string, cfg *Config) {
		cfg.CommitWatchdog = time.Second
		cfg.faults.stopGrace = 2 * time.Second
		// One command in hand only: raft never answers those that wait behind a
		// state machine that hangs until the shutdown.
		cfg.CompareEvery = time.Hour
		cfg.faults.write = func() error {
			if hang.Load() && id == victim {
				<-release
			}
			return nil
		}
	})
	w := &writer{stream: scores, arch: c.client()}
	w.mustFold(t, 5, 1)
	lead := c.leader()
	victim = lead.ID()
	hang.Store(true)
	began := time.Now()
	w.mustFold(t, 5, 1)
	t.Logf("folding went on after %s", time.Since(began))
	<-lead.Done()
	if !errors.Is(lead.Err(), errStalled) {
		t.Errorf("the node ended with %v", lead.Err())
	}
	close(release)
	c.stop(victim)
	c.waitEqual(scores, 10)
}
