// Package integration tests the whole system on real parts: a redis-server that
// each test starts itself, archives in real files, processes that are killed.
package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive/volume"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/redislog"
	"github.com/evtlog/evtlog/runtime"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(memberEnv); text != "" {
		runMember(text)
		return
	}
	goleak.VerifyTestMain(m)
}

const (
	queue = "q"
	name  = "s"
	key   = "emq:{q}:stream:s"
)

var streamName = evtlog.StreamName{Queue: queue, Name: name}

// testContext ends when the test has run for too long.
func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// random returns a source of random numbers whose seed is printed.
func random(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// start starts a runtime and stops it at the end of the test, which fails when
// it does not stop cleanly.
func start(t *testing.T, cfg runtime.Config) *runtime.Runtime {
	t.Helper()
	rt, err := runtime.Start(testContext(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, rt) })
	return rt
}

func stop(t *testing.T, rt *runtime.Runtime) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := rt.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// oneStream is a runtime on a fresh server with the given stream, called q/s.
func oneStream(t *testing.T, srv *redistest.Server, s runtime.Stream) (*runtime.Runtime, *runtime.Log) {
	t.Helper()
	s.Queue, s.Name = queue, name
	rt := start(t, runtime.Config{Redis: redislog.Config{URL: srv.URL()}, Node: 1, Streams: []runtime.Stream{s}})
	log, err := rt.Stream(queue, name)
	if err != nil {
		t.Fatal(err)
	}
	return rt, log
}

// openVolume opens an archive in a file of the test, and verifies its chain at
// the end.
func openVolume(t *testing.T) *volume.Store {
	t.Helper()
	store, err := volume.Open(filepath.Join(t.TempDir(), "archive.db"), volume.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := store.Verify(context.Background(), streamName); err != nil {
			t.Errorf("verify: %v", err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// client opens a connection of the test's own.
func client(t *testing.T, srv *redistest.Server) *redislog.Log {
	t.Helper()
	c, err := redislog.Open(testContext(t), redislog.Config{URL: srv.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	s, err := keyspace.NewStream(queue, name)
	if err != nil {
		t.Fatal(err)
	}
	return c.Log(s)
}

// collect reads a whole window.
func collect(t *testing.T, r evtlog.Reader, w evtlog.Window) []evtlog.Record {
	t.Helper()
	var out []evtlog.Record
	for rec, err := range r.Read(testContext(t), w) {
		if err != nil {
			t.Fatalf("read %+v: %v", w, err)
		}
		out = append(out, rec)
	}
	return out
}

// eventually waits for a condition.
func eventually(t *testing.T, limit time.Duration, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", limit, what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// receipts is the set of ids that appends were acknowledged with.
type receipts struct {
	mu  sync.Mutex
	ids map[evtid.ID]string
}

func newReceipts() *receipts { return &receipts{ids: map[evtid.ID]string{}} }

// add keeps one receipt together with the value that was appended.
func (r *receipts) add(t *testing.T, id evtid.ID, value string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old, twice := r.ids[id]; twice {
		t.Errorf("id %s was given to %q and to %q", id, old, value)
	}
	r.ids[id] = value
}

func (r *receipts) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ids)
}

// check compares a complete read with the receipts: each is there once, with
// its own value, and ids ascend. Extra ids are records whose receipt was not
// learned; allowed says whether there may be any.
func (r *receipts) check(t *testing.T, records []evtlog.Record, extraAllowed bool) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var last evtid.ID
	found, extra := 0, 0
	for _, rec := range records {
		if !last.Less(rec.ID) {
			t.Fatalf("%s came after %s", rec.ID, last)
		}
		last = rec.ID
		value, known := r.ids[rec.ID]
		if !known {
			extra++
			continue
		}
		found++
		if got, _ := rec.Get("v"); got != value {
			t.Fatalf("%s holds %q, %q was appended", rec.ID, got, value)
		}
	}
	if found != len(r.ids) {
		t.Errorf("%d of %d acknowledged records are readable", found, len(r.ids))
	}
	if extra > 0 && !extraAllowed {
		t.Errorf("%d records are readable that were never acknowledged", extra)
	}
}

// appendLoop appends from several callers until ctx ends or each has made n
// appends (0: no limit), and keeps the receipts. Appends that were refused or
// are uncertain are passed to failed, which may be nil: then they fail the test.
func appendLoop(ctx context.Context, t *testing.T, log *runtime.Log, callers, n int, got *receipts, failed func(err error)) {
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for i := 0; (n == 0 || i < n) && ctx.Err() == nil; i++ {
				value := fmt.Sprintf("%d-%d", caller, i)
				id, err := log.Append(ctx, evtlog.F("v", value))
				switch {
				case err == nil:
					got.add(t, id, value)
				case ctx.Err() != nil:
					return
				case failed == nil:
					t.Errorf("append %s: %v", value, err)
					return
				default:
					failed(err)
				}
			}
		})
	}
	wg.Wait()
}
