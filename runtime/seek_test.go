package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/streamconsumer"
	"github.com/evtlog/evtlog/archive/archivetest"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/redislog"
	"github.com/evtlog/evtlog/runtime"
)

var sq = evtlog.StreamName{Queue: "q", Name: "s"}

// ledger is a handler that counts.
type ledger struct {
	mu    sync.Mutex
	times map[evtid.ID]int
	order []evtid.ID
}

func (l *ledger) handle(_ context.Context, d evtlog.Delivery) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.times == nil {
		l.times = map[evtid.ID]int{}
	}
	l.times[d.ID]++
	l.order = append(l.order, d.ID)
	return nil
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.order)
}

// archived starts a runtime whose stream keeps the last few of n records live.
func archived(t *testing.T, n int, h evtlog.Handler) (*runtime.Runtime, *runtime.Log, []evtid.ID) {
	t.Helper()
	srv := redistest.Start(t)
	rt := start(t, runtime.Config{
		Redis: redislog.Config{URL: srv.URL()},
		Streams: []runtime.Stream{{
			Queue: "q", Name: "s", Archive: archivetest.NewMemory(), Durability: runtime.Commit,
			Retention: evtlog.Keep{Last: 5, Exact: true},
		}},
		Consumers: []runtime.Consumer{{
			Queue: "q", Stream: "s", Group: "g", Name: "m", Start: streamconsumer.FromHead, Handler: h,
			Block: 50 * time.Millisecond,
		}},
	})
	log, err := rt.Stream("q", "s")
	if err != nil {
		t.Fatal(err)
	}
	var ids []evtid.ID
	for i := range n {
		id, err := log.Append(bounded(t), evtlog.F("n", fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return rt, log, ids
}

func TestPauseSeekResume(t *testing.T) {
	var l ledger
	rt, log, ids := archived(t, 20, l.handle)
	ctx := bounded(t)
	await(t, "all are handled", func() bool { return l.count() == 20 })
	if err := rt.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	if err := log.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	dry, err := rt.Seek(ctx, sq, "g", runtime.After(ids[3]), true)
	if err != nil || dry.RepeatedRecords != 16 || dry.SkippedRecords != 0 || !dry.Exact || dry.Done {
		t.Fatalf("dry run: %+v, %v; want 16 repeated", dry, err)
	}
	if err := rt.Pause(ctx, sq, "g"); err != nil {
		t.Fatal(err)
	}
	if h := rt.Health(); h.OK() || h.State != evtlog.Degraded {
		t.Errorf("a paused consumer: health %s", h.State)
	}
	done, err := rt.Seek(ctx, sq, "g", runtime.After(ids[3]), false)
	if err != nil || done.RepeatedRecords != 16 || !done.Done {
		t.Fatalf("Seek: %+v, %v", done, err)
	}
	if s := rt.Consumers()[0]; !s.Paused || l.count() != 20 {
		t.Errorf("it resumed what was paused before: %+v", s.Stats)
	}
	lags, err := rt.Lag(ctx)
	if err != nil || len(lags) != 1 || !lags[0].Known || lags[0].Entries != 16 || lags[0].Oldest != ids[4] {
		t.Errorf("lag = %+v, %v; want 16 from %v", lags, err, ids[4])
	}
	if err := rt.Resume(sq, "g"); err != nil {
		t.Fatal(err)
	}
	await(t, "the rest is handled again", func() bool { return l.count() == 36 })
	for i, id := range ids {
		want := 2
		if i < 4 {
			want = 1
		}
		if l.times[id] != want {
			t.Errorf("record %d was handled %d times, want %d", i, l.times[id], want)
		}
	}
	await(t, "it is ready again", func() bool { return rt.Health().OK() })
	if lags, err = rt.Lag(ctx); err != nil || !lags[0].Known || lags[0].Entries > 16 {
		t.Errorf("lag = %+v, %v", lags, err)
	}
}

func TestSeekToInstants(t *testing.T) {
	var l ledger
	rt, _, ids := archived(t, 10, l.handle)
	ctx := bounded(t)
	await(t, "all are handled", func() bool { return l.count() == 10 })
	if err := rt.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	r, err := rt.Seek(ctx, sq, "g", runtime.FromInstant(ids[0].Time()), true)
	if err != nil || r.RepeatedRecords != 10 {
		t.Errorf("to the first record's instant: %+v, %v", r, err)
	}
	if r, err = rt.Seek(ctx, sq, "g", runtime.FromInstant(time.Now().Add(time.Hour)), false); err != nil || r.Target != ids[9] {
		t.Errorf("to the future: %+v, %v; want the end", r, err)
	}
	if r, err = rt.Seek(ctx, sq, "g", runtime.Position{}, true); err != nil || r.RepeatedRecords != 10 {
		t.Errorf("to the head: %+v, %v", r, err)
	}
	if _, err = rt.Seek(ctx, sq, "none", runtime.Position{}, true); !errors.Is(err, evtlog.ErrNoGroup) {
		t.Errorf("no such group: %v", err)
	}
	if _, err = rt.Seek(ctx, evtlog.StreamName{Queue: "q", Name: "x"}, "g", runtime.Position{}, true); !errors.Is(err, runtime.ErrUnknownStream) {
		t.Errorf("no such stream: %v", err)
	}
	if err := rt.Pause(ctx, sq, "none"); !errors.Is(err, runtime.ErrUnknownGroup) {
		t.Errorf("pausing a stranger: %v", err)
	}
	if err := rt.Resume(sq, "none"); !errors.Is(err, runtime.ErrUnknownGroup) {
		t.Errorf("resuming a stranger: %v", err)
	}
}

// A group that vanishes after it was moved is made anew where it was moved to,
// and not where its members had got to before.
func TestGroupThatVanishesAfterASeekIsMadeAnewThere(t *testing.T) {
	var l ledger
	srv := redistest.Start(t)
	rt := start(t, runtime.Config{
		Redis: redislog.Config{URL: srv.URL()}, Streams: []runtime.Stream{{Queue: "q", Name: "s"}},
		Consumers: []runtime.Consumer{{
			Queue: "q", Stream: "s", Group: "g", Name: "m", Start: streamconsumer.FromHead, Handler: l.handle,
			Block: 50 * time.Millisecond,
		}},
	})
	log, err := rt.Stream("q", "s")
	if err != nil {
		t.Fatal(err)
	}
	ctx := bounded(t)
	var ids []evtid.ID
	for i := range 5 {
		id, err := log.Append(ctx, evtlog.F("n", fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	await(t, "all are handled", func() bool { return l.count() == 5 })
	if err := rt.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	if err := rt.Pause(ctx, sq, "g"); err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Seek(ctx, sq, "g", runtime.After(ids[1]), false); err != nil {
		t.Fatal(err)
	}
	stream, err := keyspace.NewStream("q", "s")
	if err != nil {
		t.Fatal(err)
	}
	if answer := srv.Do("XGROUP", "DESTROY", stream.Key(), "g"); answer != ":1" {
		t.Fatal(answer)
	}
	if err := rt.Resume(sq, "g"); err != nil {
		t.Fatal(err)
	}
	await(t, "what it was moved back over is handled again", func() bool { return l.count() >= 8 })
	if l.times[ids[1]] != 1 || l.times[ids[2]] != 2 || l.times[ids[4]] != 2 {
		t.Errorf("handled %v of %v", l.times, ids)
	}
}
