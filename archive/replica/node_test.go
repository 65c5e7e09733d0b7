package replica

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/replica/api"
)

func TestClusterFoldsAndReads(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	w := &writer{stream: scores, arch: c.client(), size: 50}
	w.mustFold(t, 20, 10)
	c.waitEqual(scores, 20)
	for _, n := range c.nodes {
		w.check(t, n.Archive())
		got, err := n.Archive().Watermark(context.Background(), scores)
		if err != nil || got != w.w {
			t.Errorf("watermark at %s = %q, %v; want %q", n.ID(), got, err, w.w)
		}
	}
	w.check(t, c.client())
	w.arch = c.follower().Archive()
	w.mustFold(t, 3, 1)
	w.arch = c.leader().Archive()
	w.mustFold(t, 3, 1)
	c.waitEqual(scores, 26)
}

func TestRepeatedFoldIsAnsweredAndConflictRefused(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	w := &writer{stream: scores}
	ctx := context.Background()
	recs := w.records(3)
	cl := c.client()
	for i := range 3 {
		if _, err := cl.Fold(ctx, scores, w.w, recs); err != nil {
			t.Fatalf("fold %d of the same records: %v", i, err)
		}
	}
	var conflict *archive.ConflictError
	_, err := cl.Fold(ctx, scores, w.w, w.records(1))
	if !errors.As(err, &conflict) || conflict.Watermark != recs[2].ID {
		t.Fatalf("fold on an old watermark: %v, want a conflict that names %s", err, recs[2].ID)
	}
	if h := headOn(c.leader(), scores); h.LSN != 1 {
		t.Fatalf("LSN %d after one fold and its repetitions", h.LSN)
	}
}

func TestRestartOfAll(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	w := &writer{stream: scores, arch: c.client(), size: 20}
	w.mustFold(t, 30, 5)
	ids := []string{"a", "b", "c"}
	for _, id := range ids {
		c.stop(id)
	}
	done := make(chan struct{})
	for _, id := range ids {
		cfg := c.cfgs[id]
		go func() {
			defer func() { done <- struct{}{} }()
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			n, err := Start(ctx, cfg)
			if err != nil {
				t.Errorf("start %s: %v", id, err)
				return
			}
			t.Cleanup(func() { _ = n.Stop(context.Background()) })
		}()
	}
	for range ids {
		<-done
	}
	w.mustFold(t, 5, 5)
	w.check(t, w.arch)
}

func TestStopIsSafeAtAnyTime(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	n := c.nodes["a"]
	ctx := context.Background()
	if err := n.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if err := n.Stop(ctx); err != nil {
		t.Fatalf("second stop: %v", err)
	}
	<-n.Done()
	if n.Err() != nil {
		t.Errorf("Err after Stop = %v", n.Err())
	}
	w := &writer{stream: scores, arch: n.Archive()}
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if err := w.fold(short, 1); !errors.Is(err, api.ErrNoLeader) {
		t.Errorf("fold after Stop: %v, want ErrNoLeader", err)
	}
	delete(c.nodes, "a")
}
