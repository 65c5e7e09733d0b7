package archiver

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/redislog"
)

// real is a stream on a real server, with an appender.
type real struct {
	t      testing.TB
	server *redistest.Server
	client *redislog.Client
	log    *redislog.Log
	mint   *evtid.Minter

	mu     sync.Mutex
	writer *redislog.Writer
	acked  []evtid.ID
}

func newReal(t testing.TB, args ...string) *real {
	t.Helper()
	mint, err := evtid.NewMinter(evtid.MinterConfig{Node: 3, MaxSkew: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	r := &real{t: t, server: redistest.Start(t, args...), mint: mint}
	r.client = r.open()
	r.log = r.client.Log(stream(t))
	r.connect()
	t.Cleanup(func() { _ = r.writer.Close() })
	return r
}

func (r *real) open() *redislog.Client {
	r.t.Helper()
	c, err := redislog.Open(r.t.Context(), redislog.Config{URL: r.server.URL()})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (r *real) connect() {
	r.t.Helper()
	if r.writer != nil {
		_ = r.writer.Close()
	}
	w, err := r.log.NewWriter(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	r.writer = w
}

// reconnect replaces the test's own connections, which the server has cut. The
// archiver keeps the log it was given.
func (r *real) reconnect() {
	r.t.Helper()
	r.log = r.open().Log(stream(r.t))
	r.connect()
}

// append appends n records in one flush and waits for the answers.
func (r *real) append(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := make([]evtid.ID, n)
	for i := range ids {
		next, err := r.mint.Mint()
		if err != nil {
			r.t.Error(err)
			return
		}
		ids[i] = next
		r.writer.Append(next, []evtlog.Field{{Name: "n", Value: fmt.Sprint(len(r.acked) + i)}, {Name: "who", Value: "a player"}})
	}
	if err := r.writer.Flush(); err != nil {
		r.t.Error(err)
		return
	}
	for _, k := range ids {
		if err := r.writer.ReceiveAppend(k); err != nil {
			r.t.Error(err)
			return
		}
		r.acked = append(r.acked, k)
	}
}

func (r *real) snapshot() []evtid.ID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.acked)
}

// readAll compares archive and live stream, read as one, with what had been
// acknowledged before.
func (r *real) readAll(reader *archive.Reader) error {
	want := r.snapshot()
	i := 0
	for rec, err := range reader.Read(context.Background(), evtlog.Window{}) {
		if err != nil {
			return err
		}
		if i < len(want) && rec.ID != want[i] {
			return fmt.Errorf("record %d of %d is %s, want %s", i, len(want), rec.ID, want[i])
		}
		if n, _ := rec.Get("n"); n != fmt.Sprint(i) {
			return fmt.Errorf("record %d holds %q", i, n)
		}
		i++
	}
	if i < len(want) {
		return fmt.Errorf("read %d records, %d were acknowledged", i, len(want))
	}
	return nil
}

// appendFor runs four appenders for d; check is called over and over meanwhile.
func (r *real) appendFor(d time.Duration, nudge func(), check func() error) {
	r.t.Helper()
	var appenders sync.WaitGroup
	until := time.Now().Add(d)
	for range 4 {
		appenders.Go(func() {
			for time.Now().Before(until) && !r.t.Failed() {
				r.append(1 + rand.IntN(40))
				nudge()
			}
		})
	}
	for time.Now().Before(until) && !r.t.Failed() {
		if err := check(); err != nil {
			r.t.Error(err)
		}
	}
	appenders.Wait()
}

func (r *real) archiver(log Log, arch archive.Archive, d Dial, observe evtlog.Observer) *Archiver {
	r.t.Helper()
	a, err := New(Config{Stream: stream(r.t), Keep: evtlog.KeepLast(100), Fold: d, Every: 20 * time.Millisecond, Observer: observe}, log, arch)
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

// supervised runs components until the returned function is called.
func supervised(t testing.TB, observe evtlog.Observer, specs ...supervise.Spec) (stop func()) {
	t.Helper()
	s := supervise.NewSystem(supervise.Config{Observer: observe})
	for i, spec := range specs {
		if _, err := s.Branch(t.Context(), fmt.Sprintf("stream/cm/feed%d", i), spec); err != nil {
			t.Fatal(err)
		}
	}
	return sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
}

// eventually waits for a condition with a deadline.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// settled reports whether everything appended is archived, and Redis says so.
func (r *real) settled(arch archive.Archive) bool {
	top := r.snapshot()[len(r.acked)-1]
	w, err := arch.Watermark(r.t.Context(), feed)
	return err == nil && w == top && r.server.Do("GET", stream(r.t).Archived()) == top.String()
}

func (r *real) length() int {
	var n int
	_, _ = fmt.Sscanf(r.server.Do("XLEN", stream(r.t).Key()), ":%d", &n)
	return n
}
