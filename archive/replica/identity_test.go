package replica

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/archive/replica/client"
	pb "github.com/evtlog/evtlog/archive/replica/replicapb"
)

// startFails starts a node that must be refused.
func startFails(t *testing.T, cfg Config, want error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	n, err := Start(ctx, cfg)
	if err == nil {
		_ = n.Stop(ctx)
	}
	if !errors.Is(err, want) {
		t.Fatalf("start: %v; want %v", err, want)
	}
}

func TestEmptyVoterIsRefusedUntilItRejoins(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	w := &writer{stream: scores, arch: c.client()}
	w.mustFold(t, 20, 3)
	c.waitEqual(scores, 20)
	victim := c.follower().ID()
	c.stop(victim)
	cfg := c.cfgs[victim]
	if err := os.RemoveAll(cfg.Dir); err != nil {
		t.Fatal(err)
	}
	cfg.Peers = c.httpAddresses()
	startFails(t, cfg, api.ErrMembership)
	// Nor does Bootstrap help: the cluster exists.
	withBootstrap := cfg
	withBootstrap.Bootstrap = true
	startFails(t, withBootstrap, api.ErrMembership)
	cfg.Rejoin = true
	c.cfgs[victim] = cfg
	n := c.start(victim)
	c.waitVoters(n, 3)
	c.waitEqual(scores, 20)
	w.check(t, n.Archive())
}

func TestForeignDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	one, other := newCluster(t, 1, nil), newCluster(t, 1, func(_ string, c *Config) { c.Cluster = "other" })
	w := &writer{stream: scores, arch: one.nodes["a"].Archive()}
	w.mustFold(t, 3, 1)
	one.stop("a")
	cfg := one.cfgs["a"]
	cfg.Cluster = "other"
	startFails(t, cfg, api.ErrForeignCluster)

	// The volumes of one cluster beside the log of another one.
	other.stop("a")
	b, err := os.ReadFile(filepath.Join(one.cfgs["a"].Dir, volumesFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other.cfgs["a"].Dir, volumesFile), b, 0o600); err != nil {
		t.Fatal(err)
	}
	startFails(t, other.cfgs["a"], api.ErrForeignCluster)
}

// Two clusters may be given one id and one list of peers: each is bootstrapped
// for itself, and they never mix.
func TestTwoClustersOfOneNameNeverMerge(t *testing.T) {
	t.Parallel()
	one, other := newCluster(t, 1, nil), newCluster(t, 1, nil)
	a, b := one.leader(), other.leader()
	ctx := context.Background()
	_, err := a.stub(b.Address().HTTP).Join(ctx, connect.NewRequest(&pb.JoinRequest{Id: "a2", Address: "127.0.0.1:1,127.0.0.1:2", Voter: true}))
	if err := api.FromWire(err); !errors.Is(err, api.ErrForeignCluster) {
		t.Fatalf("join across clusters: %v", err)
	}
	startFails(t, Config{
		Dir: t.TempDir(), ID: "z", Cluster: "test", RaftListen: "127.0.0.1:0", HTTPListen: "127.0.0.1:0",
		Peers: []string{a.Address().HTTP, b.Address().HTTP},
	}, api.ErrForeignCluster)
	cl, err := client.New(client.Config{Addresses: []string{a.Address().HTTP, b.Address().HTTP}})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	w := &writer{stream: scores, arch: cl}
	w.mustFold(t, 1, 1)
	one.stop("a")
	short, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := w.fold(short, 1); !errors.Is(err, api.ErrForeignCluster) && !errors.Is(err, api.ErrUncertain) {
		t.Fatalf("fold into the second cluster after the first: %v", err)
	}
	if h := headOn(b, scores); h.LSN != 0 {
		t.Fatalf("the second cluster got %d commits of the first", h.LSN)
	}
}

func TestFoldOverALateBootstrapIsRefused(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	w := &writer{stream: scores, arch: c.nodes["a"].Archive()}
	w.mustFold(t, 3, 1)
	c.stop("a")
	for _, name := range []string{raftFile, snapshotsDir} {
		if err := os.RemoveAll(filepath.Join(c.cfgs["a"].Dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	startFails(t, c.cfgs["a"], api.ErrMembership)
}

func TestFlippedByteIsNamedRepairedAndNotSpread(t *testing.T) {
	t.Parallel()
	for name, where := range map[string]int{"first copy": 0, "whole file shifted": 1} {
		t.Run(name, func(t *testing.T) { flipOnce(t, where) })
	}
}

func flipOnce(t *testing.T, extra int) {
	c := newCluster(t, 3, nil)
	w := &writer{stream: scores, arch: c.client(), size: 300}
	w.mustFold(t, 50, 10)
	c.waitEqual(scores, 50)
	victim := c.follower().ID()
	c.stop(victim)
	path := filepath.Join(c.cfgs[victim].Dir, volumesFile)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// Every copy of one record's body, in used and in freed pages of the file.
	body := []byte(w.records(1)[0].Fields[1].Value[:64])
	w.n--
	flipped := 0
	for at := 0; ; flipped++ {
		i := bytes.Index(b[at:], body)
		if i < 0 {
			break
		}
		b[at+i+extra] ^= 1
		at += i + 1
	}
	if flipped == 0 {
		t.Fatal("the body to flip is not in the file")
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	n := c.start(victim)
	findings, err := n.verify(context.Background(), scores)
	if err != nil || len(findings) != 1 || findings[0].GetOk() {
		t.Fatalf("verify of a flipped byte: %v, %v", findings, err)
	}
	t.Log(findings[0].GetDetail())
	eventually(t, 60*time.Second, "repaired volume", func() bool {
		return headOn(n, scores).Parked == "" && n.engine().store.verifyOne(context.Background(), scores) == nil
	})
	c.waitEqual(scores, 50)
	w.check(t, n.Archive())
	w.mustFold(t, 3, 1)
	c.waitEqual(scores, 53)
}

func TestMissingVolumesFileIsPulledBeforeRaftRuns(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, shortLog)
	w := &writer{stream: scores, arch: c.client(), size: 100}
	w.mustFold(t, 200, 5)
	c.waitEqual(scores, 200)
	victim := c.follower().ID()
	snapshotBeyond(t, c.nodes[victim], 1)
	c.stop(victim)
	if err := os.Truncate(filepath.Join(c.cfgs[victim].Dir, volumesFile), 5000); err != nil {
		t.Fatal(err)
	}
	n := c.start(victim)
	c.waitEqual(scores, 200)
	w.check(t, n.Archive())
	var _ archive.Archive = n.Archive()
}
