package replica

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/evtlog/evtlog/archive/replica/api"
	pb "github.com/evtlog/evtlog/archive/replica/replicapb"
)

// A damaged log is noticed before it can spread. The node leaves the cluster and
// is let in anew, without an operator, but not twice in a short time.
func TestDamagedLogIsMended(t *testing.T) {
	t.Parallel()
	entries := func(t *testing.T, path string) { flipAll(t, path, []byte("body"), 40) }
	for name, damage := range map[string]func(*testing.T, string){
		"entries": entries,
		"term":    func(t *testing.T, path string) { flipAll(t, path, []byte(currentTerm), 7) },
		"vote":    func(t *testing.T, path string) { flipAll(t, path, []byte("LastVoteCand"), 2) },
		"beyond opening": func(t *testing.T, path string) {
			flipAt(t, path, 16, 4096+16)
		},
		"structure": func(t *testing.T, path string) {
			st, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			// The kind of every page but the two that say where to begin.
			var at []int64
			for page := int64(2); page < st.Size()/4096; page++ {
				at = append(at, page*4096+8)
			}
			flipAt(t, path, at...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 3, nil)
			w := &writer{stream: scores, arch: c.client(), size: 100}
			w.mustFold(t, 50, 3)
			c.waitEqual(scores, 50)
			victim := c.follower().ID()
			if name == "vote" {
				// It votes for itself at least.
				if _, err := c.leader().Transfer(context.Background(), victim); err != nil {
					t.Fatal(err)
				}
			}
			c.stop(victim)
			cfg := c.cfgs[victim]
			cfg.Peers = c.httpAddresses()
			c.cfgs[victim] = cfg
			path := filepath.Join(cfg.Dir, raftFile)
			damage(t, path)
			w.mustFold(t, 5, 3)
			n := c.start(victim)
			c.waitVoters(n, 3)
			c.waitEqual(scores, 55)
			w.check(t, n.Archive())
			wantAlarm(t, n, kindLog)
			eventually(t, 30*time.Second, "end of the rejoin", func() bool { return !n.isRejoining() })
			if name != "entries" {
				return
			}
			w.mustFold(t, 20, 3)
			c.waitEqual(scores, 75)
			c.stop(victim)
			entries(t, path)
			startFails(t, cfg, errDamaged)
			cfg.Rejoin = true
			c.cfgs[victim] = cfg
			c.waitVoters(c.start(victim), 3)
			c.waitEqual(scores, 75)
		})
	}
}

func flipAt(t *testing.T, path string, offsets ...int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, at := range offsets {
		var b [1]byte
		if _, err := f.ReadAt(b[:], at); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 0xff
		if _, err := f.WriteAt(b[:], at); err != nil {
			t.Fatal(err)
		}
	}
}

func wantAlarm(t *testing.T, n *Node, kind string) {
	t.Helper()
	alarms := n.Status().Alarms
	if !slices.ContainsFunc(alarms, func(a string) bool { return strings.Contains(a, " "+kind+": ") }) {
		t.Errorf("no alarm of kind %q among %q", kind, alarms)
	}
}

// Damage that is found while the node runs, here on the leader, takes the same
// way: it is named, the leadership moves, and the node comes back.
func TestVerifyMendsARunningNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, shortLog)
	w := &writer{stream: scores, arch: c.client(), size: 100}
	w.mustFold(t, 200, 3)
	c.waitEqual(scores, 200)
	lead := c.leader()
	snapshotBeyond(t, lead, 1)
	dir := c.cfgs[lead.ID()].Dir
	ctx := context.Background()
	// Also the founder, which is still told to found a cluster.
	t.Logf("the leader is %s", lead.ID())

	for _, path := range snapshotFiles(t, dir) {
		flipAll(t, path, []byte("EVTLOGMF"), 30)
	}
	wantFinding(t, lead, snapshotsDir)
	wantAlarm(t, lead, kindSnapshot)
	w.mustFold(t, 60, 3)
	eventually(t, 30*time.Second, "new snapshot", func() bool {
		all, err := lead.engine().snaps.All()
		return err == nil && len(all) > 0 && len(all[0].Gaps) == 0
	})

	flipInPlace(t, filepath.Join(dir, raftFile), []byte("body"), 40)
	wantFinding(t, lead, raftFile)
	w.mustFold(t, 20, 3)
	eventually(t, 60*time.Second, "node that is back with a sound log", func() bool {
		e := lead.engine()
		if e == nil || !e.settled.Load() || lead.aside.Load() != nil {
			return false
		}
		_, err := e.logs.verify(ctx)
		return err == nil
	})
	c.waitVoters(lead, 3)
	c.waitEqual(scores, 280)
	w.check(t, lead.Archive())
}

func snapshotFiles(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, snapshotsDir, "*.snapshot"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no snapshot: %v", err)
	}
	return files
}

func wantFinding(t *testing.T, n *Node, what string) {
	t.Helper()
	found := n.verifyRaft(context.Background())
	for _, f := range found {
		if f.GetWhat() == what && !f.GetOk() {
			t.Log(f.GetDetail())
			return
		}
	}
	t.Errorf("damage in %s was not named: %v", what, found)
}

// flipInPlace flips bits under a process that has the file open.
func flipInPlace(t *testing.T, path string, after []byte, offset int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var at []int64
	for from := 0; ; {
		i := bytes.Index(b[from:], after)
		if from += i + len(after) + offset; i < 0 || from >= len(b) {
			break
		}
		at = append(at, int64(from))
	}
	if len(at) == 0 {
		t.Fatalf("%q is not in %s", after, path)
	}
	flipAt(t, path, at...)
}

// What a leader says of its members before they are committed does not let a
// node forget its vote.
func TestUncommittedRemovalIsNotBelieved(t *testing.T) {
	t.Parallel()
	network := newTestNet()
	c := newCluster(t, 3, func(id string, cfg *Config) {
		cfg.faults.dial = network.dialer(id)
		// The leader goes on for half of this when it is cut off.
		cfg.ElectionTimeout = 2 * time.Second
	})
	for _, n := range c.nodes {
		network.own(n)
	}
	// A fold behind the last change of members: the leader begins no other change
	// before that one is committed.
	w := &writer{stream: scores, arch: c.client()}
	w.mustFold(t, 1, 1)
	lead, gone := c.leader(), c.follower().ID()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	asker := &Node{cfg: Config{ID: gone, Logger: slog.New(slog.DiscardHandler)}, peerHTTP: httpForTests, stubs: map[string]pb.ArchiveServiceClient{}}
	id := lead.identity()
	asker.who.Store(&id)
	e := &engine{n: asker}
	ask := func() *pb.StatusResponse {
		res, err := asker.stub(lead.Address().HTTP).Status(ctx, connect.NewRequest(&pb.StatusRequest{}))
		if err != nil {
			t.Fatal(err)
		}
		return res.Msg
	}
	network.isolate(lead.ID())
	removed := make(chan error, 1)
	go func() { removed <- lead.remove(ctx, gone, true) }()
	var st *pb.StatusResponse
	eventually(t, time.Second, "removal in the leader's log", func() bool {
		st = ask()
		return !viewOf(st, gone).member
	})
	if !viewOf(st, gone).leads {
		t.Fatal("the leader stepped down before it was asked")
	}
	if e.confirmed(ctx, st, notMember) || e.confirmed(ctx, st, notVoter) {
		t.Error("an uncommitted removal was believed")
	}
	if err := <-removed; err == nil {
		t.Error("a leader without a majority removed a node")
	}
	network.heal(lead.ID())
	lead = c.leader()
	if err := lead.Remove(ctx, gone, true); err != nil && !errors.Is(err, api.ErrMembership) {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "committed removal that is believed", func() bool {
		for _, n := range c.nodes {
			if n.ID() != gone && n.notLeading() == nil {
				lead = n
				return e.confirmed(ctx, ask(), notMember)
			}
		}
		return false
	})
}

// A node without a vote has none to forget: its directory may be emptied.
func TestWipedNonVoterJoinsAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	w := &writer{stream: scores, arch: c.leader().Archive()}
	w.mustFold(t, 10, 2)
	c.add("r", func(cfg *Config) { cfg.NonVoter = true })
	c.waitEqual(scores, 10)
	c.stop("r")
	if err := os.RemoveAll(c.cfgs["r"].Dir); err != nil {
		t.Fatal(err)
	}
	w.mustFold(t, 5, 2)
	n := c.start("r")
	c.waitEqual(scores, 15)
	c.waitVoters(n, 1)
	w.check(t, n.Archive())
}

func TestSeal(t *testing.T) {
	key, val := []byte(currentTerm), []byte{0, 0, 0, 0, 0, 0, 0, 9}
	sealed := seal(key, val)
	if got, err := unseal(key, sealed); err != nil || !bytes.Equal(got, val) {
		t.Fatalf("unseal: %x, %v", got, err)
	}
	for bit := range 8 * len(sealed) {
		bad := bytes.Clone(sealed)
		bad[bit/8] ^= 1 << (bit % 8)
		if _, err := unseal(key, bad); !errors.Is(err, errDamaged) {
			t.Errorf("bit %d flipped: %v", bit, err)
		}
	}
	if _, err := unseal([]byte("LastVoteTerm"), sealed); !errors.Is(err, errDamaged) {
		t.Errorf("value of another key: %v", err)
	}
	if _, err := unseal(key, sealed[:3]); !errors.Is(err, errDamaged) {
		t.Errorf("cut value: %v", err)
	}
}

func TestMendedLately(t *testing.T) {
	dir := t.TempDir()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	if mendedLately(dir, now) || mendedLately(filepath.Join(dir, "none"), now) {
		t.Error("nothing was set aside yet")
	}
	for age, want := range map[time.Duration]bool{2 * time.Hour: false, 30 * time.Minute: true} {
		if err := os.Mkdir(filepath.Join(dir, now.Add(-age).Format(asideFormat)), 0o700); err != nil {
			t.Fatal(err)
		}
		if want && !mendedLately(dir, now) {
			t.Errorf("set aside %s ago, not noticed", age)
		}
	}
	if mendedLately(dir, now.Add(2*time.Hour)) {
		t.Error("set aside hours ago counts for ever")
	}
}
