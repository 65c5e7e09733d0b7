package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/replica"
	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/archive/volume"
	"github.com/evtlog/evtlog/evtid"
)

// Numbers of records of a full run.
const (
	smallSnapshot = 10_000
	largeSnapshot = 10_000_000
	caughtUp      = 1_000_000
	// snapshots is how many are taken at each size.
	snapshots = 15
	// foldsBetween brings about a snapshot.
	foldsBetween = 16
)

// snapshotTest compares snapshots of a large archive with those of a small one.
func snapshotTest(ctx context.Context, e *env) ([]Row, error) {
	watch := &snapshotWatch{}
	c, err := e.newCluster(ctx, 1, func(_ int, cfg *replica.Config) error {
		cfg.SnapshotThreshold, cfg.SnapshotInterval = foldsBetween/2, 50*time.Millisecond
		cfg.Logger = slog.New(watch)
		return nil
	})
	if err != nil {
		return nil, err
	}
	defer c.close()
	s := &snapshotter{node: c.nodes[0], dir: c.cfgs[0].Dir, watch: watch, stream: evtlog.StreamName{Queue: queue, Name: "snapshot"}}
	large := e.pick(largeSnapshot, 100_000)
	smallTook, smallBytes, err := s.at(ctx, smallSnapshot)
	if err != nil {
		return nil, err
	}
	largeTook, largeBytes, err := s.at(ctx, large)
	if err != nil {
		return nil, err
	}
	row := Row{
		Name: "snapshot", Against: fmt.Sprintf("itself at %d records", smallSnapshot), Unit: "ms", Product: largeTook, Limit: smallTook,
		Note: fmt.Sprintf("at %d records; bytes %.0f against %.0f; the ratio is the larger one of duration and bytes", large, largeBytes, smallBytes),
	}
	return []Row{row.judge(max(ratio(largeTook, smallTook), ratio(largeBytes, smallBytes)), atMost(1.5))}, nil
}

type snapshotter struct {
	node   *replica.Node
	dir    string
	watch  *snapshotWatch
	stream evtlog.StreamName
	folded int
}

// trailing is more than the entries that stay in the log behind a snapshot.
const trailing = 1_100

// at returns the medians of duration, in milliseconds, and of size of snapshots
// at so many records. A snapshot also cuts the log, which takes as long as the
// entries are large; so they are the same at any number of records: small ones.
func (s *snapshotter) at(ctx context.Context, records int) (took, bytes float64, err error) {
	if err := s.fold(ctx, records-trailing-s.folded, 1000); err != nil {
		return 0, 0, err
	}
	if err := s.fold(ctx, trailing, 1); err != nil {
		return 0, 0, err
	}
	var durations, sizes []float64
	for range snapshots {
		seen := s.watch.count()
		if err := s.fold(ctx, foldsBetween, 1); err != nil {
			return 0, 0, err
		}
		err := until(ctx, "a snapshot is taken", func() (bool, error) { return s.watch.count() > seen, nil })
		if err != nil {
			return 0, 0, err
		}
		size, err := newestSize(filepath.Join(s.dir, "snapshots"))
		if err != nil {
			return 0, 0, err
		}
		durations, sizes = append(durations, s.watch.last().Seconds()*1e3), append(sizes, size)
	}
	return median(durations), median(sizes), nil
}

func (s *snapshotter) fold(ctx context.Context, n, each int) error {
	if err := foldUpTo(ctx, s.node.Archive(), s.stream, s.folded, s.folded+n, each); err != nil {
		return err
	}
	s.folded += n
	return nil
}

// newestSize is the size of the newest file of a directory.
func newestSize(dir string) (float64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	var newest os.FileInfo
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && (newest == nil || info.ModTime().After(newest.ModTime())) {
			newest = info
		}
	}
	if newest == nil {
		return 0, fmt.Errorf("%s holds no snapshot", dir)
	}
	return float64(newest.Size()), nil
}

// snapshotWatch is a log handler that measures what raft says about snapshots.
type snapshotWatch struct {
	mu    sync.Mutex
	begun time.Time
	took  []time.Duration
}

// Enabled implements slog.Handler.
func (w *snapshotWatch) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (w *snapshotWatch) Handle(_ context.Context, r slog.Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case strings.Contains(r.Message, "starting snapshot up to"):
		w.begun = time.Now()
	case strings.Contains(r.Message, "snapshot complete up to"):
		w.took = append(w.took, time.Since(w.begun))
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (w *snapshotWatch) WithAttrs([]slog.Attr) slog.Handler { return w }

// WithGroup implements slog.Handler.
func (w *snapshotWatch) WithGroup(string) slog.Handler { return w }

func (w *snapshotWatch) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.took)
}

func (w *snapshotWatch) last() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.took[len(w.took)-1]
}

// catchUpTest stops a follower, lets it miss a hundredth of the archive, more
// entries than the log keeps, and counts what it is sent when it comes back.
func catchUpTest(ctx context.Context, e *env) ([]Row, error) {
	if e.quick {
		return []Row{{Name: "catch-up", Skipped: "the 64 KiB of a snapshot weigh too much beside few records; run without -quick"}}, nil
	}
	var wires []*wire
	c, err := e.newCluster(ctx, 3, func(_ int, cfg *replica.Config) error {
		cfg.TrailingLogs, cfg.SnapshotThreshold, cfg.SnapshotInterval = 128, 64, 200*time.Millisecond
		w, err := newWire(cfg)
		wires = append(wires, w)
		return err
	})
	defer func() {
		for _, w := range wires {
			w.close()
		}
	}()
	if err != nil {
		return nil, err
	}
	defer c.close()
	stream := evtlog.StreamName{Queue: queue, Name: "catch-up"}
	have := caughtUp
	if err := foldUpTo(ctx, c.leader().Archive(), stream, 0, have, 1000); err != nil {
		return nil, err
	}
	away, err := c.follower()
	if err != nil {
		return nil, err
	}
	// What it misses is what is folded from here on.
	if err := c.caughtUp(ctx, away); err != nil {
		return nil, err
	}
	if err := c.stop(ctx, away); err != nil {
		return nil, err
	}
	missed, err := foldMissed(ctx, c.leader().Archive(), stream, have)
	if err != nil {
		return nil, err
	}
	// The log is cut by a snapshot, so that the follower needs more than the log.
	if err := pause(ctx, time.Second); err != nil {
		return nil, err
	}
	moved, err := c.comeBack(ctx, away, wires)
	if err != nil {
		return nil, err
	}
	total := float64(moved.raft + moved.http)
	row := Row{
		Name: "catch-up", Against: "the commits it missed", Unit: "bytes", Product: total, Limit: float64(missed),
		Note: fmt.Sprintf("%d records of %d were missed; pulled as whole commits: %d bytes; by raft, its snapshot included: %d; other calls and framing: %d",
			have/100, have, moved.pulled, moved.raft, moved.http-moved.pulled),
	}
	return []Row{row.judge(ratio(total, float64(missed)), atMost(1.1))}, nil
}

// foldMissed folds a hundredth more, in small commits, and returns their size.
func foldMissed(ctx context.Context, arch archive.Archive, stream evtlog.StreamName, have int) (bytes int, err error) {
	const commits = 250
	each := have / 100 / commits
	prev := recordID(have)
	for n := range commits {
		records := recordsFrom(have+1+n*each, each)
		for i := range records {
			// What travels may be compressed.
			records[i].Fields = []evtlog.Field{fields[0], evtlog.F("payload", randomText())}
		}
		b, err := volume.EncodeCommit(nil, stream, prev, records)
		if err != nil {
			return 0, err
		}
		bytes += len(b)
		var w evtid.ID
		if w, err = arch.Fold(ctx, stream, prev, records); err != nil {
			return 0, err
		}
		prev = w
	}
	return bytes, nil
}

// randomText cannot be compressed.
func randomText() string {
	var b [60]byte
	_, _ = rand.Read(b[:])
	return string(b[:])
}

// traffic is what a node was sent, in bytes: on its raft port, by calls of either
// side, and of these as commits that it pulled.
type traffic struct{ raft, http, pulled int64 }

// comeBack starts a node again and returns what it was sent until it had what the
// leader has.
func (c *cluster) comeBack(ctx context.Context, away int, wires []*wire) (traffic, error) {
	for _, w := range wires {
		w.reset()
	}
	if err := c.start(ctx, away); err != nil {
		return traffic{}, err
	}
	err := c.caughtUp(ctx, away)
	moved := traffic{raft: wires[away].raft.in.Load(), pulled: int64(c.nodes[away].Status().PulledBytes)}
	for i, w := range wires {
		if i == away {
			moved.http += w.http.in.Load()
		} else {
			moved.http += w.http.out.Load()
		}
	}
	return moved, err
}

// caughtUp waits until a node has what the leader has now: in its volumes, and as
// far as raft knows, so that nothing is on its way to it any more.
func (c *cluster) caughtUp(ctx context.Context, node int) error {
	want := c.leader().Status()
	return until(ctx, "the follower has caught up", func() (bool, error) {
		have := c.nodes[node].Status()
		return have.AppliedIndex >= want.AppliedIndex && sameVolumes(have.Volumes, want.Volumes), nil
	})
}

// sameVolumes reports whether one node's volumes are the other's.
func sameVolumes(a, b []api.Volume) bool {
	return slices.EqualFunc(a, b, func(x, y api.Volume) bool {
		return x.Stream == y.Stream && x.LSN == y.LSN && x.Chain == y.Chain
	})
}
