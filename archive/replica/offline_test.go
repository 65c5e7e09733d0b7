package replica

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/archive/replica/portable"
)

func recoverConfig(c *testCluster, id string) RecoverConfig {
	cfg := c.cfgs[id]
	return RecoverConfig{Dir: cfg.Dir, ID: id, Cluster: cfg.Cluster, Address: api.Address{Raft: cfg.RaftListen, HTTP: cfg.HTTPListen}}
}

func TestRecoverFromLostMajority(t *testing.T) {
	t.Parallel()
	for name, withoutLog := range map[string]bool{"with its log": false, "from the volumes alone": true} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 3, shortLog)
			w := &writer{stream: scores, arch: c.client(), size: 50}
			w.mustFold(t, 180, 3)
			c.waitEqual(scores, 180)
			rc := recoverConfig(c, "b")
			if _, err := Recover(context.Background(), rc); !errors.Is(err, archive.ErrLocked) {
				t.Fatalf("recover of a running node: %v", err)
			}
			c.stopAll()
			if withoutLog {
				for _, name := range []string{raftFile, snapshotsDir} {
					if err := os.RemoveAll(filepath.Join(rc.Dir, name)); err != nil {
						t.Fatal(err)
					}
				}
			}
			rc.DryRun = true
			dry, err := Recover(context.Background(), rc)
			if err != nil || dry.FromVolumes != withoutLog || dry.LastIndex == 0 {
				t.Fatalf("dry run: %+v, %v", dry, err)
			}
			if _, err := os.Stat(filepath.Join(rc.Dir, raftFile)); (err != nil) != withoutLog {
				t.Fatalf("the dry run changed whether there is a log: %v", err)
			}
			rc.DryRun = false
			plan, err := Recover(context.Background(), rc)
			if err != nil || plan.LastIndex != dry.LastIndex || len(plan.Volumes) != 1 {
				t.Fatalf("recover: %+v, %v", plan, err)
			}
			b := c.start("b")
			w = &writer{stream: scores, arch: b.Archive(), w: w.w, n: w.n, acked: w.acked, size: 50}
			w.mustFold(t, 10, 2)
			// The others belong to the former incarnation, until they rejoin.
			cfg := c.cfgs["c"]
			cfg.Peers = c.httpAddresses()
			startFails(t, cfg, api.ErrForeignCluster)
			if err := os.RemoveAll(cfg.Dir); err != nil {
				t.Fatal(err)
			}
			c.cfgs["c"] = cfg
			n := c.start("c")
			c.waitVoters(n, 2)
			c.waitEqual(scores, 190)
			w.check(t, n.Archive())
		})
	}
}

func TestExportAndImport(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	w := &writer{stream: scores, arch: c.client(), size: 400}
	w.mustFold(t, 30, 20)
	ctx := context.Background()
	var file bytes.Buffer
	sum, err := portable.Export(ctx, portable.FromNode(c.client(), c.leader().Address().HTTP), &file)
	if err != nil || sum.Commits != 30 || sum.Records != 600 {
		t.Fatalf("export: %+v, %v", sum, err)
	}
	fresh := newCluster(t, 1, func(_ string, cfg *Config) { cfg.Cluster = "fresh" })
	into := fresh.leader().Archive()
	for range 2 {
		checked, err := portable.Check(ctx, bytes.NewReader(file.Bytes()))
		if err != nil || len(checked.Volumes) == 0 || checked.Volumes[0].Watermark != sum.Volumes[0].Watermark || checked.Volumes[0].Watermark.IsZero() {
			t.Errorf("check: %+v, %v; exported %+v", checked.Volumes, err, sum.Volumes)
		}
		got, err := portable.Import(ctx, bytes.NewReader(file.Bytes()), into)
		if err != nil || got.Records != 600 {
			t.Fatalf("import: %+v, %v", got, err)
		}
	}
	w.check(t, into)
	for _, at := range []int{3, 200, file.Len() / 2, file.Len() - 5} {
		bad := bytes.Clone(file.Bytes())
		bad[at] ^= 1
		if _, err := portable.Check(ctx, bytes.NewReader(bad)); !errors.Is(err, portable.ErrBadFile) {
			t.Errorf("check with a flipped bit at %d: %v", at, err)
		}
		if _, err := portable.Check(ctx, bytes.NewReader(file.Bytes()[:at])); !errors.Is(err, portable.ErrBadFile) {
			t.Errorf("check of the first %d bytes: %v", at, err)
		}
	}
}

func TestCompactAndVerifyDirectory(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, shortLog)
	w := &writer{stream: scores, arch: c.leader().Archive(), size: 400}
	w.mustFold(t, 300, 10)
	dir := c.cfgs["a"].Dir
	ctx := context.Background()
	if _, err := Compact(ctx, dir); !errors.Is(err, archive.ErrLocked) {
		t.Fatalf("compaction of a running node: %v", err)
	}
	if _, err := VerifyDir(ctx, dir); !errors.Is(err, archive.ErrLocked) {
		t.Fatalf("verification of a running node: %v", err)
	}
	c.stop("a")
	done, err := Compact(ctx, dir)
	if err != nil || len(done) != 2 {
		t.Fatalf("compact: %+v, %v", done, err)
	}
	if done[1].After >= done[1].Before {
		t.Errorf("the log did not get smaller: %+v", done[1])
	}
	wantSound(t, dir, "")
	c.start("a")
	w.check(t, c.leader().Archive())
	c.stop("a")

	flipAll(t, filepath.Join(dir, raftFile), []byte("body"), 40)
	wantSound(t, dir, raftFile)
	snaps, err := filepath.Glob(filepath.Join(dir, snapshotsDir, "*"))
	if err != nil || len(snaps) == 0 {
		t.Fatalf("no snapshot: %v", err)
	}
	flipAll(t, snaps[0], []byte("EVTLOGMF"), 30)
	wantSound(t, dir, snapshotsDir)
}

// wantSound verifies a directory; only what, if anything, may be damaged.
func wantSound(t *testing.T, dir, what string) {
	t.Helper()
	found, err := VerifyDir(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	named := what == ""
	for _, f := range found {
		if f.What == what {
			named = !f.OK
			t.Log(f.Detail)
		}
	}
	if !named {
		t.Errorf("damage in %s was not named: %+v", what, found)
	}
}

// flipAll flips a bit behind every occurrence of a text, since a file of bbolt
// also holds pages that are not in use.
func flipAll(t *testing.T, path string, after []byte, offset int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	flips := 0
	for at := 0; ; flips++ {
		i := bytes.Index(b[at:], after)
		if at += i + len(after) + offset; i < 0 || at >= len(b) {
			break
		}
		b[at] ^= 1
	}
	if flips == 0 {
		t.Fatalf("%q is not in %s", after, path)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
