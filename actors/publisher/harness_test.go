package publisher_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/publisher"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/redislog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func feedStream(t testing.TB) keyspace.Stream {
	t.Helper()
	s, err := keyspace.NewStream("cm", "feed")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// within is the deadline of what should take no time.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// client opens a client that is closed at the end of the test.
func client(t testing.TB, url string) *redislog.Client {
	t.Helper()
	c, err := redislog.Open(within(t), redislog.Config{URL: url, CommandTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// bench is one publisher under supervision.
type bench struct {
	*publisher.Publisher
	system *supervise.System
	log    *redislog.Log
	journal
}

// start runs a publisher on url and stops it at the end of the test.
func start(t testing.TB, url string, cfg publisher.Config, arch archive.Archive) *bench {
	t.Helper()
	b := &bench{}
	cfg.Stream, cfg.Observer = feedStream(t), b.observe
	b.log = client(t, url).Log(cfg.Stream)
	var err error
	if b.Publisher, err = publisher.New(cfg, b.log, arch); err != nil {
		t.Fatal(err)
	}
	b.system = supervise.NewSystem(supervise.Config{Observer: b.observe})
	if _, err := b.system.Branch(within(t), "stream/cm/feed", b.Spec()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// A test that expects an error of the stop has stopped before.
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = b.system.Stop(ctx)
	})
	return b
}

func running(t testing.TB, s *redistest.Server, cfg publisher.Config) *bench {
	t.Helper()
	return start(t, s.URL(), cfg, nil)
}

func (b *bench) stop(t testing.TB) {
	t.Helper()
	if err := b.system.Stop(within(t)); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// journal keeps the events.
type journal struct {
	mu     sync.Mutex
	events []evtlog.Event
}

func (j *journal) observe(e evtlog.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, e)
}

// seen returns the events of one type.
func seen[E evtlog.Event](j *journal) []E {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []E
	for _, e := range j.events {
		if e, ok := e.(E); ok {
			out = append(out, e)
		}
	}
	return out
}

// stored reads the whole live stream.
func stored(t testing.TB, log *redislog.Log) []evtlog.Record {
	t.Helper()
	var all []evtlog.Record
	after := evtid.ID{}
	for {
		page, _, err := log.Page(within(t), after, evtid.Max, 5000)
		if err != nil {
			t.Fatal(err)
		}
		if all = append(all, page...); len(page) < 5000 {
			return all
		}
		after = page[len(page)-1].ID
	}
}

// await waits until cond holds.
func await(t testing.TB, what string, cond func() bool) {
	t.Helper()
	ctx := within(t)
	for !cond() {
		if err := supervise.Wait(ctx, time.Millisecond); err != nil {
			t.Fatalf("waiting until %s: %v", what, err)
		}
	}
}
