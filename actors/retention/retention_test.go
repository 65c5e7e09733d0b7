package retention

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/internal/fakelog"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var id = fakelog.ID

func stream(t testing.TB) keyspace.Stream {
	t.Helper()
	s, err := keyspace.NewStream("cm", "feed")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// events collects what an observer is told.
type events struct {
	mu  sync.Mutex
	all []evtlog.Event
}

func (e *events) observe(ev evtlog.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, ev)
}

func (e *events) lost() (out []evtlog.Lost) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, ev := range e.all {
		if l, ok := ev.(evtlog.Lost); ok {
			out = append(out, l)
		}
	}
	return out
}

func build(t testing.TB, log Log, keep evtlog.Keep) (*Retention, *events) {
	t.Helper()
	seen := &events{}
	r, err := New(Config{
		Stream: stream(t), Keep: keep, Observer: seen.observe,
		Now: func() time.Time { return time.UnixMilli(evtid.EpochMillis).Add(time.Hour) },
	}, log)
	if err != nil {
		t.Fatal(err)
	}
	return r, seen
}

func exactly(k evtlog.Keep) evtlog.Keep {
	k.Exact = true
	return k
}

func filled(to int) *fakelog.Log {
	log := &fakelog.Log{}
	log.Append(1, to)
	return log
}

func TestTrimKeepsWhatThePolicySays(t *testing.T) {
	since := func(n int) evtlog.Keep {
		return KeepSince(time.UnixMilli(evtid.EpochMillis + int64(n)))
	}
	for _, c := range []struct {
		name        string
		keep        evtlog.Keep
		length      int
		first, left int
	}{
		{"all", evtlog.Keep{}, 500, 1, 500},
		{"last, exact", exactly(KeepLast(100)), 500, 401, 100},
		{"last, exact, few are due", exactly(KeepLast(495)), 500, 6, 495},
		{"last, one node over", KeepLast(400), 500, 101, 400},
		{"last, less than a node over", KeepLast(401), 500, 1, 500},
		{"last, long", exactly(KeepLast(70_000)), 140_000, 70_001, 70_000},
		{"since, exact", exactly(since(11)), 500, 11, 490},
		{"since, less than a node", since(11), 500, 1, 500},
		{"since, later than all", exactly(since(9999)), 500, 0, 0},
		{"for", exactly(KeepFor(time.Hour - 5*time.Millisecond)), 500, 5, 496},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := filled(c.length)
			r, _ := build(t, log, c.keep)
			res, err := r.Trim(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			ids := log.IDs()
			if len(ids) != c.left || c.left > 0 && ids[0] != id(c.first) {
				t.Fatalf("%d are left, want %d from %d", len(ids), c.left, c.first)
			}
			if int(res.Removed) != c.length-c.left {
				t.Errorf("Removed is %d", res.Removed)
			}
			if again, err := r.Trim(t.Context()); err != nil || again.Removed != 0 {
				t.Errorf("a second trim: %+v, %v", again, err)
			}
		})
	}
}

func TestTrimWorksOffALongBacklogInSteps(t *testing.T) {
	log := filled(200_000)
	trims := 0
	log.Hook = func(_ context.Context, op string, after bool) error {
		if op == "trim" && after {
			trims++
		}
		return nil
	}
	r, _ := build(t, log, exactly(KeepLast(150_000)))
	if res, err := r.Trim(t.Context()); err != nil || res.Removed != 50_000 || trims != 1 {
		t.Fatalf("%+v %v in %d trims", res, err, trims)
	}
	log.Append(200_001, 300_000)
	if res, err := r.Trim(t.Context()); err != nil || res.Removed != 100_000 || trims != 3 {
		t.Fatalf("%+v %v in %d trims", res, err, trims)
	}
}

// An append at any moment of a trim is never trimmed.
func TestAppendsDuringATrimStay(t *testing.T) {
	log := filled(300)
	top := 300
	log.Hook = func(_ context.Context, _ string, _ bool) error {
		top++
		log.Append(top, top)
		return nil
	}
	r, _ := build(t, log, exactly(KeepLast(100)))
	for range 20 {
		before := top
		if _, err := r.Trim(t.Context()); err != nil {
			t.Fatal(err)
		}
		ids := log.IDs()
		if got := len(ids); got < 100 {
			t.Fatalf("only %d are left", got)
		}
		if i := slices.Index(ids, id(before+1)); i < 0 || len(ids)-i != top-before {
			t.Fatalf("of the appends %d..%d some are gone", before+1, top)
		}
	}
}

func TestTrimReportsWhatGroupsMiss(t *testing.T) {
	log := filled(300)
	log.Group("idle", id(10))
	log.Group("busy", id(300), id(40), id(60))
	log.Group("done", id(300))
	r, seen := build(t, log, exactly(KeepLast(100)))
	res, err := r.Trim(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := seen.lost()
	if len(got) != 2 || len(res.Lost) != 2 {
		t.Fatalf("%+v", got)
	}
	for i, want := range []evtlog.Lost{{Group: "busy", After: id(40).Prev(), To: id(60)}, {Group: "idle", After: id(10), To: id(200)}} {
		if g := got[i]; g.Group != want.Group || g.After != want.After || g.To != want.To {
			t.Errorf("event %d: %+v", i, g)
		}
	}
	if s := r.Stats(); s.Lost != 2 || s.Trimmed != 200 || s.Through != id(200) {
		t.Errorf("%+v", s)
	}
}

func TestTrimThatRemovesTooMuchStopsTrimming(t *testing.T) {
	log := filled(300)
	log.Eager = 3
	r, _ := build(t, log, exactly(KeepLast(100)))
	var fault *FaultError
	if _, err := r.Trim(t.Context()); !errors.As(err, &fault) || fault.Missing != id(201) || fault.Through != id(200) {
		t.Fatalf("%v", err)
	}
	log.Eager = 0
	log.Append(301, 600)
	if res, err := r.Trim(t.Context()); !errors.As(err, &fault) || res.Removed != 0 {
		t.Fatalf("trimmed on: %+v %v", res, err)
	}
	if got := len(log.IDs()); got != 397 {
		t.Errorf("%d are left", got)
	}
}

func TestTrimWithoutEffectIsAnAlarm(t *testing.T) {
	log := filled(300)
	log.Lazy = true
	r, _ := build(t, log, KeepLast(100))
	var stalled *StalledError
	for i := range 5 {
		_, err := r.Trim(t.Context())
		if got, want := errors.As(err, &stalled), i >= 2; got != want {
			t.Fatalf("trim %d: %v", i, err)
		}
	}
	log.Lazy = false
	if res, err := r.Trim(t.Context()); err != nil || res.Removed != 200 {
		t.Fatalf("%+v %v", res, err)
	}
}

func TestForeignEntryIsToldOnceAndTrimmed(t *testing.T) {
	log := filled(300)
	log.Foreign = "5-1"
	r, _ := build(t, log, exactly(KeepLast(100)))
	var foreign *evtlog.ForeignEntryError
	res, err := r.Trim(t.Context())
	if !errors.As(err, &foreign) || foreign.Entry != "5-1" || res.Removed != 200 {
		t.Fatalf("%+v %v", res, err)
	}
	if _, err := r.Trim(t.Context()); err != nil {
		t.Fatalf("told twice: %v", err)
	}
}

func TestVanishedRecordsAreReported(t *testing.T) {
	for _, c := range []struct {
		name      string
		keep      evtlog.Keep
		change    func(*fakelog.Log)
		after, to evtid.ID
	}{
		{"key evicted", KeepLast(1000), func(l *fakelog.Log) { l.Delete() }, id(1).Prev(), id(50)},
		{"key made anew", KeepLast(1000), func(l *fakelog.Log) { l.Delete(); l.Append(60, 61) }, id(1).Prev(), id(60).Prev()},
		{"trimmed below the policy", KeepLast(1000), func(l *fakelog.Log) { l.Remove(10) }, id(1).Prev(), id(11).Prev()},
		{"keeps everything", evtlog.Keep{}, func(l *fakelog.Log) { l.Remove(10) }, id(1).Prev(), id(11).Prev()},
		{"trimmed by the same policy", KeepLast(40), func(l *fakelog.Log) { l.Remove(10) }, evtid.ID{}, evtid.ID{}},
		{"appended", KeepLast(1000), func(l *fakelog.Log) { l.Append(51, 60) }, evtid.ID{}, evtid.ID{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := filled(50)
			r, seen := build(t, log, c.keep)
			for i := range 3 {
				if i == 1 {
					c.change(log)
				}
				if _, err := r.Trim(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			got := seen.lost()
			if c.to.IsZero() {
				if len(got) != 0 {
					t.Fatalf("%+v", got)
				}
				return
			}
			if len(got) != 1 || got[0].After != c.after || got[0].To != c.to || got[0].Group != "" {
				t.Fatalf("%+v, want one of (%s, %s]", got, c.after, c.to)
			}
		})
	}
}

func TestConfigIsRefusedByField(t *testing.T) {
	s := stream(t)
	for field, cfg := range map[string]Config{
		"Config.Stream": {},
		"Config.Every":  {Stream: s, Every: -1},
		"Config.Keep":   {Stream: s, Keep: evtlog.Keep{Last: 1, For: 1}},
	} {
		if _, err := New(cfg, &fakelog.Log{}); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestTrimsTakeTurns(t *testing.T) {
	log := filled(300)
	entered, leave := make(chan struct{}), make(chan struct{})
	var once sync.Once
	log.Hook = func(_ context.Context, _ string, _ bool) error {
		once.Do(func() { close(entered); <-leave })
		return nil
	}
	r, _ := build(t, log, exactly(KeepLast(100)))
	done := make(chan error)
	go func() { _, err := r.Trim(t.Context()); done <- err }()
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := r.Trim(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second trim did not wait: %v", err)
	}
	close(leave)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestRun runs the component for a simulated minute over a log with faults.
func TestRun(t *testing.T) {
	for _, c := range []struct {
		name     string
		err      error
		trims    [2]int
		terminal bool
	}{
		{"healthy", nil, [2]int{55, 67}, false},
		{"unavailable", evtlog.ErrUnavailable, [2]int{5, 60}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := filled(10)
				calls := 0
				log.Hook = func(_ context.Context, op string, after bool) error {
					if op == "info" && !after {
						calls++
					}
					return c.err
				}
				r, _ := build(t, log, exactly(KeepLast(5)))
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				ready := 0
				if err := runOnce(ctx, t, r.Spec(), func() { ready++ }); err != nil || ready != 1 {
					t.Fatalf("%v, ready %d times", err, ready)
				}
				if calls < c.trims[0] || calls > c.trims[1] {
					t.Errorf("%d passes in a minute", calls)
				}
			})
		})
	}
}

func runOnce(ctx context.Context, t *testing.T, spec supervise.Spec, ready func()) error {
	t.Helper()
	if spec.Name != "retention" || spec.Restart != supervise.Transient {
		t.Errorf("spec %+v", spec)
	}
	runner, err := spec.New()
	if err != nil {
		t.Fatal(err)
	}
	return runner.Run(ctx, ready)
}
