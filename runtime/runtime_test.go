package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/streamconsumer"
	"github.com/evtlog/evtlog/archive/archivetest"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/feed"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/redislog"
	"github.com/evtlog/evtlog/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const job = "JOB0KHTOWnGLuC"

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func start(t *testing.T, cfg runtime.Config) *runtime.Runtime {
	t.Helper()
	rt, err := runtime.Start(bounded(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Stop(context.Background()); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return rt
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

func TestAnnounceIsSeenLiveAndKept(t *testing.T) {
	srv := redistest.Start(t)
	rt := start(t, runtime.Config{
		Redis: redislog.Config{URL: srv.URL()}, Streams: []runtime.Stream{{Queue: "q", Name: "s"}},
	})
	ctx := bounded(t)
	log, err := rt.Stream("q", "s")
	if err != nil {
		t.Fatal(err)
	}
	events, err := rt.Subscribe(ctx, "q")
	if err != nil {
		t.Fatal(err)
	}
	var ids []evtid.ID
	for i := range 3 {
		id, err := log.Announce(ctx, "scored", job, evtlog.F("n", fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	var got []feed.Announcement
	for a, err := range events {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, a); len(got) == 4 {
			break
		}
		if len(got) == 3 {
			// Not earlier: a receipt does not wait for its publication.
			if _, err := rt.Publish(ctx, "q", feed.Announcement{Event: "over", Job: job}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, a := range got[:3] {
		if a.ID != ids[i] || a.Event != "scored" || a.Job != job || a.Extra[0].Value != fmt.Sprint(i) {
			t.Errorf("announcement %d is %+v", i, a)
		}
		if i > 0 && a.Prev != ids[i-1] {
			t.Errorf("announcement %d says %s stood before it, it was %s", i, a.Prev, ids[i-1])
		}
	}
	if last := got[3]; last.Event != "over" || !last.ID.IsZero() {
		t.Errorf("the bare announcement is %+v", last)
	}
	i := 0
	for rec, err := range log.Read(ctx, evtlog.Window{}) {
		if err != nil {
			t.Fatal(err)
		}
		if event, _ := rec.Get("event"); rec.ID != ids[i] || event != "scored" {
			t.Errorf("record %d is %#v", i, rec)
		}
		i++
	}
	if i != 3 {
		t.Errorf("%d records are kept", i)
	}
}

func TestPublishRefusesABadJob(t *testing.T) {
	srv := redistest.Start(t)
	rt := start(t, runtime.Config{Redis: redislog.Config{URL: srv.URL()}})
	_, err := rt.Publish(bounded(t), "q", feed.Announcement{Event: "e", Job: "nope"})
	if !errors.Is(err, evtid.ErrMalformed) {
		t.Errorf("error %v", err)
	}
}

func TestSubscriptionComesBack(t *testing.T) {
	srv := redistest.Start(t)
	rt := start(t, runtime.Config{Redis: redislog.Config{URL: srv.URL()}})
	ctx := bounded(t)
	events, err := rt.Subscribe(ctx, "q")
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(stop)
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				_, _ = rt.Publish(ctx, "q", feed.Announcement{Event: "tick", Job: job})
			}
		}
	})
	seen, lost := 0, 0
	for _, err := range events {
		var conn *redislog.ConnError
		switch {
		case errors.As(err, &conn):
			lost++
		case err != nil:
			t.Fatal(err)
		default:
			seen++
		}
		if seen == 1 && lost == 0 {
			srv.Do("CLIENT", "KILL", "TYPE", "pubsub")
		}
		if lost > 0 && seen > 3 {
			break
		}
	}
	if lost != 1 {
		t.Errorf("the lost connection was told %d times", lost)
	}
}

// TestDrainAndStop drains a pipeline in which a handler appends to a second
// stream, and stops it twice.
func TestDrainAndStop(t *testing.T) {
	srv := redistest.Start(t)
	store := archivetest.NewMemory()
	var feedLog *runtime.Log
	attached := make(chan struct{})
	rt := start(t, runtime.Config{
		Redis: redislog.Config{URL: srv.URL()},
		Streams: []runtime.Stream{
			{Queue: "q", Name: "work"},
			{Queue: "q", Name: "feed", Retention: evtlog.KeepLast(5), Durability: runtime.Commit, Archive: store},
		},
		Consumers: []runtime.Consumer{{
			Queue: "q", Stream: "work", Group: "g", Name: "m", Start: streamconsumer.FromHead,
			Handler: func(ctx context.Context, d evtlog.Delivery) error {
				<-attached
				_, err := feedLog.Append(ctx, evtlog.F("work", d.ID.String()))
				return err
			},
		}},
	})
	ctx := bounded(t)
	work, err := rt.Stream("q", "work")
	if err != nil {
		t.Fatal(err)
	}
	if feedLog, err = rt.Stream("q", "feed"); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if _, err := work.Append(ctx); err != nil {
			t.Fatal(err)
		}
	}
	impatient, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if err := rt.Drain(impatient); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("drain with a handler that waits: %v", err)
	}
	close(attached)
	if err := rt.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	if err := feedLog.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	info, err := feedLog.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	w, err := feedLog.Watermark(ctx)
	if err != nil || info.Length != 5 || w != info.Last {
		t.Errorf("after a sweep %d records are live and the archive reaches %s of %s (%v)", info.Length, w, info.Last, err)
	}
	read := 0
	for _, err := range feedLog.Read(ctx, evtlog.Window{}) {
		if err != nil {
			t.Fatal(err)
		}
		read++
	}
	if read != 100 {
		t.Errorf("%d of 100 facts are readable", read)
	}
	if s := rt.Consumers()[0]; s.Name != "m" || s.Acked != 100 {
		t.Errorf("the consumer's counters are %+v", s)
	}
	if h := rt.Health(); !h.OK() || len(h.Components) == 0 {
		t.Errorf("health %+v", h)
	}
	for range 2 {
		if err := rt.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
	}
	if _, err := work.Append(ctx); !errors.Is(err, evtlog.ErrStopped) {
		t.Errorf("append after stop: %v", err)
	}
}

func TestUnknownStream(t *testing.T) {
	srv := redistest.Start(t)
	rt := start(t, runtime.Config{Redis: redislog.Config{URL: srv.URL()}})
	if _, err := rt.Stream("q", "s"); !errors.Is(err, runtime.ErrUnknownStream) {
		t.Errorf("error %v", err)
	}
}

func TestCancelReachesTheHandler(t *testing.T) {
	srv := redistest.Start(t)
	why := errors.New("no longer wanted")
	running := make(chan evtid.ID, 1)
	ended := make(chan error, 1)
	rt := start(t, runtime.Config{
		Redis: redislog.Config{URL: srv.URL()}, Streams: []runtime.Stream{{Queue: "q", Name: "s"}},
		Consumers: []runtime.Consumer{{
			Queue: "q", Stream: "s", Group: "g", Name: "m", Start: streamconsumer.FromHead,
			Handler: func(ctx context.Context, d evtlog.Delivery) error {
				running <- d.ID
				<-ctx.Done()
				ended <- context.Cause(ctx)
				return nil
			},
		}},
	})
	log, err := rt.Stream("q", "s")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.Append(bounded(t)); err != nil {
		t.Fatal(err)
	}
	id := <-running
	if rt.Cancel(log.Name(), "g", evtid.Max, why) {
		t.Error("a delivery that does not run was cancelled")
	}
	if !rt.Cancel(log.Name(), "g", id, why) {
		t.Error("the running delivery was not found")
	}
	if cause := <-ended; !errors.Is(cause, why) {
		t.Errorf("the cause is %v", cause)
	}
}

// TestEachChangeIsReportedOnce stops the server under an idle runtime and
// starts it again.
func TestEachChangeIsReportedOnce(t *testing.T) {
	srv := redistest.Start(t)
	var mu sync.Mutex
	changes := map[string][]evtlog.State{}
	rt := start(t, runtime.Config{
		Redis: redislog.Config{URL: srv.URL()}, Streams: []runtime.Stream{{Queue: "q", Name: "s"}},
		Consumers: []runtime.Consumer{{
			Queue: "q", Stream: "s", Group: "g", Name: "m", Start: streamconsumer.FromHead,
			Handler: func(context.Context, evtlog.Delivery) error { return nil },
		}},
		Observer: func(e evtlog.Event) {
			if c, ok := e.(evtlog.StateChanged); ok {
				mu.Lock()
				defer mu.Unlock()
				changes[c.Component] = append(changes[c.Component], c.State)
			}
		},
	})
	state := func(want evtlog.State) func() bool {
		return func() bool { return rt.Health().State == want }
	}
	await(t, "ready", state(evtlog.Ready))
	srv.Kill()
	await(t, "degraded", state(evtlog.Degraded))
	srv.Restart()
	await(t, "ready again", state(evtlog.Ready))
	mu.Lock()
	defer mu.Unlock()
	for component, states := range changes {
		for i := 1; i < len(states); i++ {
			if states[i] == states[i-1] {
				t.Errorf("%s was reported as %v", component, states)
			}
		}
	}
}

func TestTwoRuntimesInOneProcess(t *testing.T) {
	srv := redistest.Start(t)
	for _, name := range []string{"a", "b"} {
		rt := start(t, runtime.Config{
			Redis: redislog.Config{URL: srv.URL()}, Streams: []runtime.Stream{{Queue: "q", Name: name}},
		})
		log, err := rt.Stream("q", name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := log.Append(bounded(t)); err != nil {
			t.Fatal(err)
		}
	}
}
