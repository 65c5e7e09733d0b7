package archiver

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive/archivetest"
)

// errCrash is what every command answers from the moment of a crash on.
var errCrash = errors.New("crashed")

// steps calls f before and after each command of the log and the archive,
// numbered from 0, and checks the world each time. An error of f fails the
// command. What the test itself does (see quiet) is not counted.
type steps struct {
	w  *world
	mu sync.Mutex
	n  int
	f  func(n int, what string) error
}

func watchSteps(w *world, f func(n int, what string) error) *steps {
	s := &steps{w: w, f: f}
	w.log.Hook = func(ctx context.Context, op string, after bool) error {
		return s.at(ctx, fmt.Sprintf("log %s after=%v", op, after))
	}
	w.arch.SetHook(func(ctx context.Context, step archivetest.Step) error {
		return s.at(ctx, "archive "+string(step))
	})
	return s
}

func (s *steps) at(ctx context.Context, what string) error {
	if isQuiet(ctx) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.w.fault(); err != nil {
		s.w.t.Errorf("at step %d, %s: %v", s.n, what, err)
		return errCrash
	}
	s.n++
	return s.f(s.n-1, what)
}

func (s *steps) stop() {
	s.w.log.Hook = nil
	s.w.arch.SetHook(nil)
}

// scenario is work that a crash or an error is put into.
type scenario struct {
	name string
	keep evtlog.Keep
	d    Dial
	work func(ctx context.Context, w *world, a *Archiver)
}

var scenarios = []scenario{
	{"window", evtlog.KeepLast(20), Dial{Window: 30}, func(ctx context.Context, w *world, a *Archiver) {
		w.append(40)
		_ = a.tick(ctx)
		w.append(10)
		_ = a.tick(ctx)
		w.append(90)
		_ = a.tick(ctx)
	}},
	{"commit", evtlog.KeepLast(5), Dial{Commit: true}, func(ctx context.Context, w *world, a *Archiver) {
		w.append(12)
		_ = a.tick(ctx)
		w.append(3)
		_, _ = a.turnOf(ctx, order{})
		w.append(1)
		_ = a.tick(ctx)
	}},
	{"several pages", evtlog.KeepLast(50), Dial{Commit: true}, func(ctx context.Context, w *world, a *Archiver) {
		w.append(firstRecords*5 + 30)
		_ = a.tick(ctx)
	}},
	{"drain", evtlog.KeepLast(5), Dial{Window: 1000}, func(ctx context.Context, w *world, a *Archiver) {
		w.append(12)
		_, _ = a.Fold(ctx, id(6))
		_, _ = a.FoldAll(ctx)
	}},
}

// finish lets a new process work undisturbed; everything must end up archived
// and trimmed to the policy.
func (w *world) finish(s scenario) {
	w.t.Helper()
	a := w.archiver(s.keep, s.d)
	if _, err := a.Fold(context.Background(), none); err != nil {
		w.t.Fatal(err)
	}
	w.check()
	all := w.appended()
	floor, sealed := w.log.Floor()
	if top := all[len(all)-1]; w.watermark() != top || floor != top || sealed != top {
		w.t.Fatalf("watermark %q, floor %q, sealed %q, top %s", w.watermark(), floor, sealed, top)
	}
	if got := len(w.log.IDs()); got != int(s.keep.Last) {
		w.t.Fatalf("%d are left", got)
	}
}

// inWorlds runs a test of a scenario in a world whose archive takes one fold at a
// time and in one where it takes several; there in simulated time, as folds behind
// a lost one wait for it.
func inWorlds(t *testing.T, f func(t *testing.T, s scenario, newWorld func(testing.TB) *world)) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) { f(t, s, newWorld) })
		t.Run(s.name+", several folds in flight", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, s, newPipedWorld) })
		})
	}
}

// TestCrashAtEveryStep lets the process die at each step in turn, before and
// after each command has run, while records are appended at every step.
func TestCrashAtEveryStep(t *testing.T) {
	inWorlds(t, func(t *testing.T, s scenario, newWorld func(testing.TB) *world) {
		at := 0
		for crashed := true; crashed; at++ {
			w := newWorld(t)
			crashed = false
			st := watchSteps(w, func(n int, what string) error {
				w.append(1)
				if n >= at {
					crashed = true
					return errCrash
				}
				return nil
			})
			s.work(t.Context(), w, w.archiver(s.keep, s.d))
			st.stop()
			w.check()
			w.finish(s)
			if t.Failed() {
				t.Fatalf("crash at step %d", at)
			}
		}
		if at < 20 {
			t.Errorf("only %d steps", at)
		}
	})
}

// TestErrorAtEveryStep fails each step in turn once, in a process that goes on.
// A step after a command hides that it was done, as a lost reply does.
func TestErrorAtEveryStep(t *testing.T) {
	inWorlds(t, func(t *testing.T, s scenario, newWorld func(testing.TB) *world) {
		failed := true
		for at := 0; failed; at++ {
			w := newWorld(t)
			failed = false
			st := watchSteps(w, func(n int, what string) error {
				w.append(1)
				if n == at {
					failed = true
					return errCrash
				}
				return nil
			})
			a := w.archiver(s.keep, s.d)
			s.work(t.Context(), w, a)
			_, err := a.FoldAll(t.Context())
			if err != nil {
				_, err = a.FoldAll(t.Context())
			}
			if err != nil {
				t.Fatalf("error at step %d lasts: %v", at, err)
			}
			st.stop()
			w.check()
			w.finish(s)
			if t.Failed() {
				t.Fatalf("error at step %d", at)
			}
		}
	})
}

// TestLateCommands lets commands of a dead process reach the server and the
// archive at any later time.
func TestLateCommands(t *testing.T) {
	for run := range 120 {
		newWorld, in := newWorld, t.Run
		if run%2 == 0 {
			newWorld = newPipedWorld
			in = func(name string, f func(*testing.T)) bool {
				return t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
			}
		}
		in(fmt.Sprint(run), func(t *testing.T) { lateCommandsRun(t, run, newWorld(t)) })
	}
}

func lateCommandsRun(t *testing.T, run int, w *world) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, uint64(run)))
	s := scenarios[rnd.IntN(len(scenarios))]
	t.Logf("seed %d, %s", seed, s.name)
	late := &lateCommands{w: w, rnd: rand.New(rand.NewPCG(seed, uint64(run)+1000))}
	for range 4 {
		at := rnd.IntN(60)
		st := watchSteps(w, func(n int, what string) error {
			w.append(rnd.IntN(2))
			late.runSome()
			if n >= at {
				return errCrash
			}
			return nil
		})
		a := w.archiver(s.keep, s.d)
		a.log, a.arch = late.log(), late.archive()
		s.work(t.Context(), w, a)
		st.stop()
	}
	late.runAll()
	w.check()
	w.finish(s)
}
