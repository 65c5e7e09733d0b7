package replica

import (
	"testing"
	"time"
)

func TestLogSuffices(t *testing.T) {
	for _, c := range []struct {
		name       string
		end, first uint64
		want       bool
	}{
		{"an empty node and a whole log", 0, 1, true},
		{"an empty node and a log that was cut", 0, 2, false},
		{"a leader that does not say", 9, 0, false},
		{"nothing is missing", 9, 3, true},
		{"the next entry is the first", 9, 10, true},
		{"one entry is gone", 9, 11, false},
	} {
		if got := logSuffices(c.end, c.first); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

// snapshotNear waits until a node has cut its log behind index and has a snapshot
// that is fewer than a threshold of shortLog behind its log.
func snapshotNear(t *testing.T, c *testCluster, n *Node, index uint64) {
	t.Helper()
	snapshotBeyond(t, n, index)
	eventually(t, 60*time.Second, "snapshot near the end of the log", func() bool {
		newest, err := n.engine().coveredSnapshot()
		return err == nil && newest.index+32 >= c.lastIndex()
	})
}

// TestNothingIsSentTwice: what raft sends from its log is not pulled, and what was
// pulled is not sent again.
func TestNothingIsSentTwice(t *testing.T) {
	t.Parallel()
	t.Run("the log suffices", func(t *testing.T) {
		c := newCluster(t, 3, nil)
		w := &writer{stream: scores, arch: c.client(), size: 100}
		w.mustFold(t, 20, 5)
		c.waitEqual(scores, 20)
		gone := c.follower().ID()
		c.stop(gone)
		w.mustFold(t, 100, 5)
		n := c.start(gone)
		c.waitEqual(scores, 120)
		if got := n.pulledCommits.Load(); got != 0 {
			t.Errorf("%d commits were pulled that raft sends", got)
		}
		w.check(t, n.Archive())
	})
	t.Run("up to the snapshot", func(t *testing.T) {
		c := newCluster(t, 3, shortLog)
		w := &writer{stream: scores, arch: c.client(), size: 100}
		w.mustFold(t, 20, 5)
		c.waitEqual(scores, 20)
		gone := c.follower().ID()
		c.stop(gone)
		before := c.lastIndex()
		w.mustFold(t, 220, 5)
		lead := c.leader()
		snapshotNear(t, c, lead, before+1)
		newest, err := lead.engine().coveredSnapshot()
		if err != nil || len(newest.volumes) != 1 {
			t.Fatalf("%+v, %v", newest, err)
		}
		n := c.start(gone)
		c.waitEqual(scores, 240)
		later, err := lead.engine().coveredSnapshot()
		if err != nil {
			t.Fatal(err)
		}
		// An entry of the leader's own may have brought about another snapshot.
		least, most := newest.volumes[0].LSN-20, later.volumes[0].LSN-20
		if got := n.pulledCommits.Load(); got < least || got > most {
			t.Errorf("%d commits were pulled; the leader's snapshot names %d to %d more than the node had", got, least, most)
		}
		// The content is there before raft begins.
		eventually(t, 60*time.Second, "the node counts what its snapshot brought", func() bool {
			return n.engine().fsm.last.Load() >= newest.volumes[0].RaftIndex
		})
		w.check(t, n.Archive())
	})
}
