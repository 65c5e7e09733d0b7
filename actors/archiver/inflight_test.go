package archiver

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/archivetest"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// tenAFold makes records of which ten are a fold.
var tenAFold = strings.Repeat("x", maxBytes/10-1<<10)

// trouble disturbs folds in flight, by chance: it delays and fails them, before
// and after they are done, and lets a rival fold in between.
type trouble struct {
	w   *world
	mu  sync.Mutex
	rnd *rand.Rand
	// failures and rivals are chances in a thousand.
	failures, rivals int
	failed, rivalled int
}

func (x *trouble) at(ctx context.Context, step archivetest.Step) error {
	if isQuiet(ctx) {
		return nil
	}
	x.mu.Lock()
	fails, rivals := x.rnd.IntN(1000) < x.failures, x.rnd.IntN(1000) < x.rivals
	delay, n := time.Duration(x.rnd.IntN(20))*time.Millisecond, 1+x.rnd.IntN(25)
	x.mu.Unlock()
	time.Sleep(delay)
	if err := x.w.fault(); err != nil {
		x.w.t.Errorf("at %s: %v", step, err)
	}
	if rivals && x.rival(n) {
		x.mu.Lock()
		x.rivalled++
		x.mu.Unlock()
	}
	if !fails {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.failed++
	return errDown
}

// rival folds the next n records, as another archiver would.
func (x *trouble) rival(n int) bool {
	mark, err := x.w.arch.Watermark(quiet, feed)
	if err != nil {
		return false
	}
	page, _, err := x.w.log.Page(quiet, mark, evtid.Max, n)
	if err != nil || len(page) == 0 {
		return false
	}
	_, err = x.w.arch.Fold(quiet, feed, mark, page)
	return err == nil
}

// TestTroubleInAWindow folds streams of chance into an archive that takes four
// folds at a time and fails at any of them. At each step every record is in the
// archive or in the stream, once, and nothing is trimmed above the watermark; at
// the end the archive holds all of them.
func TestTroubleInAWindow(t *testing.T) {
	most, failed, rivalled := 0, 0, 0
	for run := range 150 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(run), func(t *testing.T) {
			t.Logf("seed %d", seed)
			synctest.Test(t, func(t *testing.T) {
				x := troubleRun(t, rand.New(rand.NewPCG(seed, 0)))
				most = max(most, x.w.piped.MostInFlight())
				failed, rivalled = failed+x.failed, rivalled+x.rivalled
			})
		})
	}
	t.Logf("%d failures, %d folds of a rival", failed, rivalled)
	if most != 4 || failed == 0 || rivalled == 0 {
		t.Errorf("%d folds in flight at most, %d failures, %d folds of a rival: the test tests nothing", most, failed, rivalled)
	}
}

func troubleRun(t *testing.T, rnd *rand.Rand) *trouble {
	w := newPipedWorld(t)
	w.body = tenAFold
	x := &trouble{w: w, rnd: rand.New(rand.NewPCG(rnd.Uint64(), 0)), failures: rnd.IntN(200), rivals: rnd.IntN(60)}
	w.arch.SetHook(x.at)
	s := scenario{keep: evtlog.KeepLast(int64(1 + rnd.IntN(80))), d: Dial{Commit: true}}
	a := w.archiver(s.keep, s.d)
	for range 6 {
		w.append(1 + rnd.IntN(120))
		o := order{tick: rnd.IntN(2) == 0}
		o.trim = o.tick
		at, err := a.turnOf(t.Context(), o)
		var back *SetBackError
		if errors.As(err, &back) {
			t.Errorf("the archive was said to be set back: %v", err)
		}
		if w.watermark().Less(at) {
			t.Errorf("watermark %s was told, the archive has %s", at, w.watermark())
		}
		w.check()
	}
	w.arch.SetHook(nil)
	w.finish(s)
	w.checkFolded()
	if got := a.Stats(); got.Lost != 0 {
		t.Errorf("losses were reported: %+v", got)
	}
	return x
}

// checkFolded looks at the events of folds: in order, each of records that are
// there, none twice.
func (w *world) checkFolded() {
	w.t.Helper()
	var at evtid.ID
	for _, f := range events[evtlog.Folded](w) {
		if f.After.Less(at) {
			w.t.Errorf("a fold of (%q, %s] was told behind one that ended at %s", f.After, f.To, at)
		}
		at = f.To
		n := 0
		for _, k := range w.archived() {
			if f.After.Less(k) && !f.To.Less(k) {
				n++
			}
		}
		if n != f.Records {
			w.t.Errorf("a fold of %d records was told, (%q, %s] has %d", f.Records, f.After, f.To, n)
		}
	}
}

func TestFoldsInFlight(t *testing.T) {
	for _, c := range []struct{ takes, want int }{{0, 1}, {1, 1}, {2, 2}, {maxFlights, maxFlights}, {100, maxFlights}} {
		synctest.Test(t, func(t *testing.T) {
			w := newPipedWorld(t)
			w.body = tenAFold
			w.piped = archivetest.NewPipelined(w.arch, c.takes)
			w.append(200)
			w.arch.SetHook(func(ctx context.Context, step archivetest.Step) error {
				if !isQuiet(ctx) && step == archivetest.BeforeFold {
					time.Sleep(10 * time.Millisecond)
				}
				return nil
			})
			if err := w.archiver(evtlog.KeepLast(10), Dial{Commit: true}).tick(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.check()
			w.checkFolded()
			if got := w.piped.MostInFlight(); got != c.want {
				t.Errorf("%d folds in flight of an archive that takes %d, want %d", got, c.takes, c.want)
			}
			if got := len(events[evtlog.Folded](w)); got < 10 {
				t.Errorf("%d folds", got)
			}
		})
	}
}

// An archive that takes one fold at a time gets one at a time.
func TestOneFoldAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.body = tenAFold
		w.append(100)
		now := 0
		w.arch.SetHook(func(ctx context.Context, step archivetest.Step) error {
			switch step {
			case archivetest.BeforeFold:
				if now++; now > 1 {
					t.Error("two folds at a time")
				}
				time.Sleep(10 * time.Millisecond)
			case archivetest.AfterFold:
				now--
			}
			return nil
		})
		if err := w.archiver(evtlog.KeepLast(10), Dial{Commit: true}).tick(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// What was confirmed while the stream did not answer is told at once, and stays
// when the stream then fails.
func TestAnswersAreTakenWhileReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPipedWorld(t)
		w.append(200)
		pages := 0
		var told time.Time
		w.log.Hook = func(_ context.Context, op string, after bool) error {
			if op != "page" || after {
				return nil
			}
			if pages++; pages < 4 {
				return nil
			}
			time.Sleep(time.Minute)
			return &redislog.ConnError{Op: op, Err: errCrash}
		}
		began := time.Now()
		a := w.archiver(evtlog.Keep{}, Dial{Commit: true})
		observed := a.cfg.Observer
		a.cfg.Observer = func(e evtlog.Event) { told = time.Now(); observed(e) }
		if err := a.tick(t.Context()); !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		if late := told.Sub(began); told.IsZero() || late > time.Second {
			t.Errorf("the last fold was told after %s", late)
		}
		if s := a.Stats(); s.FoldedRecords == 0 || s.Watermark != w.watermark() {
			t.Errorf("%+v, archive at %q", s, w.watermark())
		}
	})
}

// A panic in one of several folds reaches the supervisor, and none of the others
// outlives it.
func TestPanicInAWindowReachesTheSupervisor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPipedWorld(t)
		w.body = tenAFold
		w.append(100)
		var folds atomic.Int64
		w.arch.SetHook(func(_ context.Context, step archivetest.Step) error {
			if step == archivetest.BeforeFold && folds.Add(1) == 3 {
				panic("odd archive")
			}
			return nil
		})
		a := w.archiver(evtlog.Keep{}, Dial{Commit: true})
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
			w.arch.SetHook(nil)
			if err := a.tick(t.Context()); err != nil {
				t.Errorf("after the panic: %v", err)
			}
			w.check()
		}()
		_ = a.tick(t.Context())
	})
}

// An archive that has lost what it acknowledged is noticed, although the fold that
// was asked about was another one.
func TestSetBackBehindALostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPipedWorld(t)
		w.body = tenAFold
		w.append(40)
		a := w.archiver(evtlog.KeepLast(1), Dial{Commit: true})
		a.arch = &forgetful{Pipelined: w.piped}
		var back *SetBackError
		if _, err := a.FoldAll(t.Context()); !errors.As(err, &back) || !back.Watermark.IsZero() {
			t.Fatal(err)
		}
		if got := len(w.log.IDs()); got != 40 {
			t.Errorf("%d records are left in the stream", got)
		}
	})
}

// forgetful loses the answer of the first fold, and later everything.
type forgetful struct{ archive.Pipelined }

func (f *forgetful) Fold(ctx context.Context, s evtlog.StreamName, prev evtid.ID, r []evtlog.Record) (evtid.ID, error) {
	_, err := f.Pipelined.Fold(ctx, s, prev, r)
	return evtid.ID{}, errors.Join(err, errDown)
}

func (f *forgetful) Watermark(context.Context, evtlog.StreamName) (evtid.ID, error) {
	return evtid.ID{}, nil
}
