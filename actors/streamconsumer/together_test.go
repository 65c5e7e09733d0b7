package streamconsumer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

// byNumber keys the world's records by their running number, modulo n.
func byNumber(n int) func(evtlog.Delivery) string {
	return func(d evtlog.Delivery) string {
		var i int
		v, _ := d.Get("n")
		_, _ = fmt.Sscan(v, &i) // the world wrote a number
		return fmt.Sprint(i % n)
	}
}

func workers(n int, key func(evtlog.Delivery) string) option {
	return with(func(c *Config) { c.Workers, c.Key = n, key })
}

// Entries of one key are handled one at a time and in order, different keys at
// the same time, and each once.
func TestWorkersKeepOrderPerKey(t *testing.T) {
	w := newWorld(t)
	ids := w.append(300)
	key := byNumber(5)
	var (
		mu      sync.Mutex
		perKey  = map[string][]evtid.ID{}
		inside  = map[string]int{}
		most    int
		running int
	)
	handler := func(_ context.Context, d evtlog.Delivery) error {
		k := key(d)
		mu.Lock()
		perKey[k] = append(perKey[k], d.ID)
		inside[k]++
		running++
		most = max(most, running)
		if inside[k] > 1 {
			t.Errorf("two entries of key %s at a time", k)
		}
		mu.Unlock()
		<-time.After(time.Duration(rand.IntN(1000)) * time.Microsecond)
		mu.Lock()
		inside[k]--
		running--
		mu.Unlock()
		return nil
	}
	m := w.start("a", handler, workers(4, key))
	until(t, "all are done", func() bool { return w.allDone(ids[len(ids)-1]) })
	m.halt()
	handled := 0
	for k, got := range perKey {
		handled += len(got)
		if !slices.IsSortedFunc(got, evtid.ID.Compare) {
			t.Errorf("key %s was handled in the order %v", k, got)
		}
	}
	if handled != len(ids) || most < 2 || most > 4 {
		t.Errorf("%d handled, at most %d at a time; want %d, 2 to 4", handled, most, len(ids))
	}
	if s := m.Stats(); s.Acked != int64(len(ids)) || s.NotOwned != 0 || s.Running != 0 || s.InHand != 0 {
		t.Errorf("Stats = %+v", s)
	}
}

// A key that hangs holds no other key up: not what was read with it, and not
// what comes later.
func TestSlowKeyHoldsNoOtherUp(t *testing.T) {
	w := newWorld(t)
	ids := w.append(4)
	release := make(chan struct{})
	j := journal{then: func(ctx context.Context, d evtlog.Delivery) error {
		if d.ID == ids[0] {
			<-release
		}
		return nil
	}}
	m := w.start("a", j.handle, workers(2, byNumber(2)))
	until(t, "the other key is handled", func() bool { return j.times(ids[3]) == 1 })
	later := w.append(2)
	until(t, "what came later is handled and acknowledged", func() bool {
		p := w.pending()
		return j.times(later[1]) == 1 && len(p) == 3
	})
	if j.times(ids[2]) != 0 || j.times(later[0]) != 0 {
		t.Error("an entry overtook another one of its key")
	}
	s := m.Stats()
	if s.Running != 1 || s.Handling != ids[0] || s.InHand != 2 {
		t.Errorf("Stats = %+v", s)
	}
	close(release)
	until(t, "all are done", func() bool { return w.allDone(later[1]) })
}

// Without a key each entry stands for itself.
func TestWorkersWithoutAKey(t *testing.T) {
	w := newWorld(t)
	ids := w.append(3)
	var inside atomic.Int32
	all := make(chan struct{})
	handler := func(ctx context.Context, _ evtlog.Delivery) error {
		if inside.Add(1) == 3 {
			close(all)
		}
		select {
		case <-all:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	w.start("a", handler, workers(3, nil))
	until(t, "all are done", func() bool { return w.allDone(ids[2]) })
}

// A stop waits for every running handler, acknowledges each, and leaves the rest
// pending.
func TestStopWaitsForEveryWorker(t *testing.T) {
	w := newWorld(t)
	ids := w.append(6)
	var began sync.WaitGroup
	began.Add(2)
	j := journal{}
	j.then = func(ctx context.Context, d evtlog.Delivery) error {
		began.Done()
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), evtlog.ErrStopped) {
			t.Errorf("cause = %v", context.Cause(ctx))
		}
		if d.ID == ids[0] {
			return wait(context.WithoutCancel(ctx), 500*time.Millisecond)
		}
		return nil
	}
	m := w.start("a", j.handle, workers(2, nil))
	began.Wait()
	if err := m.halt(); err != nil {
		t.Errorf("Run = %v", err)
	}
	if got := len(j.ids()); got != 2 {
		t.Errorf("%d were handled, want the two in hand", got)
	}
	if p := w.pending(); len(p) != 4 || p[0].ID != ids[2] {
		t.Errorf("pending = %v, want the four that were not begun", p)
	}
	j.then = nil
	w.start("a", j.handle)
	until(t, "the rest is handled", func() bool { return w.allDone(ids[5]) })
	if j.len() != 6 {
		t.Errorf("handled %v", j.ids())
	}
}

// Cancel and a lost entry end the right one of the running handlers.
func TestCancelReachesTheRightWorker(t *testing.T) {
	w := newWorld(t)
	ids := w.append(3)
	boom := errors.New("boom")
	var mu sync.Mutex
	causes := map[evtid.ID]error{}
	release := make(chan struct{})
	handler := func(ctx context.Context, d evtlog.Delivery) error {
		select {
		case <-ctx.Done():
			mu.Lock()
			causes[d.ID] = context.Cause(ctx)
			mu.Unlock()
		case <-release:
		}
		return nil
	}
	cause := func(id evtid.ID) error {
		mu.Lock()
		defer mu.Unlock()
		return causes[id]
	}
	m := w.start("a", handler, workers(3, nil))
	until(t, "all run", func() bool { return m.Stats().Running == 3 })
	if !m.Cancel(ids[1], boom) {
		t.Error("the second is said not to run")
	}
	until(t, "the second is cancelled", func() bool { return errors.Is(cause(ids[1]), boom) })
	w.server.Do("XCLAIM", w.stream.Key(), testGroup, "thief", "0", ids[2].Entry(), "JUSTID")
	until(t, "the third learns that it was taken", func() bool { return errors.Is(cause(ids[2]), ErrNotOwner) })
	until(t, "the first alone runs", func() bool { return m.Stats().Running == 1 })
	if err := cause(ids[0]); err != nil {
		t.Errorf("the first was cancelled: %v", err)
	}
	close(release)
	until(t, "only the stolen one is pending", func() bool {
		p := w.pending()
		return len(p) == 1 && p[0].ID == ids[2] && p[0].Consumer == "thief"
	})
}

// While several handlers take longer than MinIdle, everything in hand is
// renewed, and a peer gets none of it.
func TestRenewalCoversEveryWorker(t *testing.T) {
	w := newWorld(t)
	ids := w.append(6)
	var g gauge
	var j journal
	j.then = func(ctx context.Context, d evtlog.Delivery) error {
		defer g.enter(d.ID)()
		return wait(ctx, 700*time.Millisecond)
	}
	w.start("a", j.handle, workers(2, nil))
	until(t, "it has read them", func() bool { return len(w.pending()) == 6 })
	w.start("b", j.handle, workers(2, nil))
	until(t, "all are done", func() bool { return w.allDone(ids[5]) })
	if g.overlaps() || j.len() != 6 {
		t.Errorf("overlap %v, %d deliveries; want none, 6", g.overlaps(), j.len())
	}
}

// Failures of several workers: each is tried again, the deadly ones end in the
// dead stream, the others are acknowledged, and nothing is handled twice at a time.
func TestWorkersRetryAndBury(t *testing.T) {
	w := newWorld(t)
	ids := w.append(200)
	bad := map[evtid.ID]bool{ids[3]: true, ids[77]: true, ids[150]: true}
	flaky := map[evtid.ID]bool{ids[10]: true, ids[11]: true, ids[90]: true}
	var g gauge
	j := journal{}
	j.then = func(_ context.Context, d evtlog.Delivery) error {
		defer g.enter(d.ID)()
		switch {
		case bad[d.ID]:
			return errors.New("never")
		case flaky[d.ID] && d.Attempts < 3:
			panic("not yet")
		}
		return nil
	}
	m := w.start("a", j.handle, workers(8, byNumber(16)), with(func(c *Config) { c.MaxDeliveries, c.Count = 4, 16 }))
	until(t, "all are done", func() bool { return w.allDone(ids[199]) })
	m.halt()
	for _, id := range ids {
		want := 1
		if bad[id] {
			want = 4
		} else if flaky[id] {
			want = 3
		}
		if got := j.times(id); got != want {
			t.Errorf("%s was delivered %d times, want %d", id, got, want)
		}
	}
	if n := len(w.records(w.deadLog())); n != 3 || g.overlaps() {
		t.Errorf("%d dead letters, overlap %v", n, g.overlaps())
	}
}

// A key function that panics fails that entry and nothing else.
func TestPanicOfTheKeyIsContained(t *testing.T) {
	w := newWorld(t)
	ids := w.append(3)
	key := func(d evtlog.Delivery) string {
		if d.ID == ids[1] {
			panic("no key")
		}
		return "k"
	}
	var j journal
	m := w.start("a", j.handle, workers(2, key), with(func(c *Config) { c.MaxDeliveries = 2 }))
	until(t, "all are done", func() bool { return w.allDone(ids[2]) })
	equalIDs(t, "handled", j.ids(), []evtid.ID{ids[0], ids[2]})
	until(t, "the other one is buried", func() bool { return m.Stats().Dead == 1 })
	if failed := eventsOf[evtlog.HandlerFailed](m.events); len(failed) != 2 || !failed[0].Panicked {
		t.Errorf("failures = %v", failed)
	}
}

// After a crash with several in hand, an entry that may have caused it is
// offered while nothing else runs.
func TestSuspectsRunAlone(t *testing.T) {
	w := newWorld(t)
	ids := w.append(6)
	w.abandon("a", 6) // died with all six in hand, and once more after that
	reader, err := w.log.NewGroupReader(t.Context(), testGroup, "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reader.ReadPending(evtid.ID{}, 6); err != nil {
		t.Fatal(err)
	}
	_ = reader.Close()
	var inside, most atomic.Int32
	j := journal{then: func(context.Context, evtlog.Delivery) error {
		most.Store(max(most.Load(), inside.Add(1)))
		<-time.After(5 * time.Millisecond)
		inside.Add(-1)
		return nil
	}}
	w.start("a", j.handle, workers(4, nil))
	until(t, "all are done", func() bool { return w.allDone(ids[5]) })
	equalIDs(t, "handled", j.ids(), ids)
	if most.Load() != 1 {
		t.Errorf("%d suspects ran at a time", most.Load())
	}
}

// A connection that breaks again and again loses nothing, and nothing that was
// handled is offered again once its acknowledgement got through.
func TestWorkersOverABrokenConnection(t *testing.T) {
	w := newWorld(t)
	ids := w.append(400)
	j := journal{then: func(context.Context, evtlog.Delivery) error {
		<-time.After(time.Millisecond)
		return nil
	}}
	var g gauge
	m := w.start("a", func(ctx context.Context, d evtlog.Delivery) error {
		defer g.enter(d.ID)()
		return j.handle(ctx, d)
	}, workers(8, byNumber(32)))
	for n := 1; n < 4; n++ {
		until(t, "it goes on", func() bool { return j.len() >= n*80 })
		for _, id := range w.readerIDs() {
			w.server.Do("CLIENT", "KILL", "ID", id)
		}
	}
	until(t, "all are done", func() bool { return w.allDone(ids[len(ids)-1]) })
	if j.len() != len(ids) || g.overlaps() {
		t.Errorf("%d deliveries of %d, overlap %v", j.len(), len(ids), g.overlaps())
	}
	if m.Stats().Reconnects == 0 {
		t.Error("the connection was never cut")
	}
}

func TestConfigRefusesWorkers(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"negative":          func(c *Config) { c.Workers = -1 },
		"more than Count":   func(c *Config) { c.Workers, c.Count = 11, 10 },
		"one attempt alone": func(c *Config) { c.Workers, c.MaxDeliveries = 2, 1 },
	} {
		cfg := Config{Stream: testStream(t), Group: "g", Name: "a", Start: FromHead, Handler: (&journal{}).handle}
		change(&cfg)
		if err := cfg.withDefaults().validate(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
