package replica

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive/replica/api"
)

// short logs and frequent snapshots make a follower that was away need one.
func shortLog(_ string, c *Config) {
	c.TrailingLogs, c.SnapshotThreshold, c.SnapshotInterval = 128, 32, 100*time.Millisecond
}

// snapshotBeyond waits until a node has a snapshot of its own behind an index,
// and has cut its log.
func snapshotBeyond(t *testing.T, n *Node, index uint64) {
	t.Helper()
	eventually(t, 60*time.Second, "snapshot", func() bool {
		first, err := n.engine().logs.FirstIndex()
		return err == nil && first > index
	})
}

func TestDeltaCatchUp(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"before raft starts": false, "inside raft's restore": true} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 3, func(id string, cfg *Config) {
				shortLog(id, cfg)
				cfg.faults.lateStart = late
			})
			w := &writer{stream: scores, arch: c.client(), size: 200}
			w.mustFold(t, 50, 20)
			c.waitEqual(scores, 50)
			gone := c.follower().ID()
			c.stop(gone)
			before := c.lastIndex()
			w.mustFold(t, 220, 20)
			for _, n := range c.nodes {
				snapshotNear(t, c, n, before+1)
			}
			n := c.start(gone)
			c.waitEqual(scores, 270)
			st := n.Status()
			size := commitSize(t, n, scores)
			missed := 220 * size
			t.Logf("missed %d bytes, pulled %d", missed, st.PulledBytes)
			if st.PulledBytes < missed*8/10 || st.PulledBytes > missed*11/10 {
				t.Errorf("pulled %d bytes where about %d were missed", st.PulledBytes, missed)
			}
			w.check(t, n.Archive())
		})
	}
}

// commitSize returns the size of one stored commit, as it travels.
func commitSize(t *testing.T, n *Node, stream evtlog.StreamName) uint64 {
	t.Helper()
	for c, err := range n.engine().store.commits(context.Background(), stream, 0, 1) {
		if err != nil {
			t.Fatal(err)
		}
		return uint64(len(c))
	}
	t.Fatal("no commit")
	return 0
}

// TestStartUpHole is the order in which a node once lost what it had: a restore
// that fails, a change of leader, a restart.
func TestStartUpHole(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	c := newCluster(t, 3, func(id string, cfg *Config) {
		shortLog(id, cfg)
		cfg.faults.lateStart = true
		cfg.faults.restore = func(context.Context) error {
			if broken.Load() {
				return errors.New("the test breaks the restore")
			}
			return nil
		}
	})
	w := &writer{stream: scores, arch: c.client(), size: 100}
	w.mustFold(t, 60, 5)
	c.waitEqual(scores, 60)
	victim := c.follower().ID()
	c.stop(victim)
	before := c.lastIndex()
	w.mustFold(t, 220, 5)
	for _, n := range c.nodes {
		snapshotBeyond(t, n, before+1)
	}
	broken.Store(true)
	n := c.start(victim)
	eventually(t, 60*time.Second, "pending snapshot at the victim", func() bool {
		all, err := n.engine().snaps.All()
		return err == nil && len(all) > 0 && len(all[0].Gaps) > 0
	})
	if _, err := c.leader().Transfer(context.Background(), ""); err != nil {
		t.Logf("transfer: %v", err)
	}
	c.stop(victim)
	if _, err := os.Stat(filepath.Join(c.cfgs[victim].Dir, snapshotsDir)); err != nil {
		t.Fatal(err)
	}
	// It starts from where it was, with the pending snapshot not in the way.
	n = c.start(victim)
	eventually(t, 30*time.Second, "leader known to the victim", func() bool { return n.Status().LeaderID != "" })
	broken.Store(false)
	w.mustFold(t, 20, 5)
	c.waitEqual(scores, 300)
	w.check(t, n.Archive())
}

func TestFreshNodeJoinsAndOneIsRemovedUnderLoad(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, shortLog)
	w := &writer{stream: scores, arch: c.client(), size: 500}
	w.mustFold(t, 150, 20)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if err := w.fold(context.Background(), 20); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	fourth := c.add("d", nil)
	c.waitVoters(fourth, 4)
	gone := c.nodes["a"]
	if err := fourth.Remove(context.Background(), "a", false); err != nil {
		t.Fatalf("remove: %v", err)
	}
	c.waitVoters(fourth, 3)
	<-gone.Done()
	if !errors.Is(gone.Err(), errRemoved) {
		t.Errorf("the removed node ended with %v", gone.Err())
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatalf("fold under load: %v", err)
	}
	c.stop("a")
	c.waitEqual(scores, 150)
	w.check(t, fourth.Archive())
	cfg := c.cfgs["a"]
	refused := func() error {
		n, err := Start(context.Background(), cfg)
		if err != nil {
			return err
		}
		// No leader could be asked before the start; it is told when it asks to join.
		defer func() { _ = n.Stop(context.Background()) }()
		select {
		case <-n.Done():
			return n.Err()
		case <-time.After(30 * time.Second):
			return nil
		}
	}()
	if !errors.Is(refused, api.ErrMembership) && !errors.Is(refused, api.ErrRemoved) {
		t.Errorf("a removed node was let in again without being asked to rejoin: %v", refused)
	}
	cfg.Rejoin = true
	c.cfgs["a"] = cfg
	c.waitVoters(c.start("a"), 4)
	c.waitEqual(scores, 150)
}
