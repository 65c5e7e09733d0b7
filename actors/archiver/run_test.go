package archiver

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/archive/archivetest"
	"github.com/evtlog/evtlog/redislog"
)

// during runs the component in simulated time while f does, then stops it.
func during(t *testing.T, a *Archiver, f func()) error {
	t.Helper()
	spec := a.Spec()
	if spec.Name != "archiver" || spec.Restart != supervise.Transient {
		t.Errorf("spec %+v", spec)
	}
	runner, err := spec.New()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ready := 0
	done := make(chan error)
	go func() { done <- runner.Run(ctx, func() { ready++ }) }()
	f()
	stop()
	err = <-done
	if ready != 1 {
		t.Errorf("ready was called %d times", ready)
	}
	return err
}

func TestRunFoldsOnNudge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.archiver(evtlog.KeepLast(10), Dial{Commit: true})
		err := during(t, a, func() {
			for n := 1; n <= 50; n++ {
				time.Sleep(time.Millisecond)
				w.append(1)
				a.Nudge()
				a.Nudge()
				synctest.Wait()
				if got := w.watermark(); got != id(n) {
					t.Fatalf("watermark %q after append %d", got, n)
				}
			}
			if got := len(w.log.IDs()); got != 50 {
				t.Errorf("trimmed between ticks: %d are left", got)
			}
			time.Sleep(1200 * time.Millisecond)
			if got := len(w.log.IDs()); got != 10 {
				t.Errorf("not trimmed by the tick: %d are left", got)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		w.check()
	})
}

// An alarm about trimming stands until the next tick, however well nudged folds
// go in between: it is reported once.
func TestAlarmStandsBetweenTicks(t *testing.T) {
	w := newWorld(t)
	w.append(200)
	w.log.Foreign = "5-1"
	a := w.archiver(evtlog.KeepLast(100), Dial{Commit: true})
	_ = a.tick(t.Context())
	w.log.Foreign = ""
	w.append(1)
	if _, err := a.turnOf(t.Context(), order{}); !errors.Is(err, evtlog.ErrForeignEntry) || w.watermark() != id(201) {
		t.Fatalf("watermark %s, %v", w.watermark(), err)
	}
	if err := a.tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.append(1)
	if _, err := a.turnOf(t.Context(), order{}); err != nil {
		t.Fatal(err)
	}
}

func TestRunLooksAtAWindowAFewTimesASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		looks := 0
		w.log.Hook = func(_ context.Context, op string, after bool) error {
			if op == "info" && after {
				looks++
			}
			return nil
		}
		a := w.archiver(evtlog.KeepLast(100), Dial{Window: 50})
		_ = during(t, a, func() {
			for range 800 {
				time.Sleep(time.Millisecond)
				w.append(1)
				a.Nudge()
				if behind := len(w.ids) - len(w.archived()); behind > 50+40 {
					t.Fatalf("%d records are not archived", behind)
				}
			}
		})
		if looks < 20 || looks > 60 {
			t.Errorf("looked %d times in 0.8 s", looks)
		}
	})
}

func TestRunBlocksAndRecoversWhenTheArchiveIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var mu sync.Mutex
		down, tries := true, 0
		w.arch.SetHook(func(ctx context.Context, _ archivetest.Step) error {
			mu.Lock()
			defer mu.Unlock()
			if !down || isQuiet(ctx) {
				return nil
			}
			tries++
			return errDown
		})
		a := w.archiver(evtlog.KeepLast(10), Dial{Commit: true})
		err := during(t, a, func() {
			for range 60 * 100 {
				time.Sleep(10 * time.Millisecond)
				w.append(1)
				a.Nudge()
			}
			mu.Lock()
			if got := len(w.log.IDs()); got != 6000 || tries < 5 || tries > 60 {
				t.Errorf("after a minute: %d live, %d tries", got, tries)
			}
			down = false
			mu.Unlock()
			time.Sleep(12 * time.Second)
			if got := len(w.log.IDs()); got != 10 || w.watermark() != id(6000) {
				t.Errorf("after the outage: %d live, watermark %q", got, w.watermark())
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		w.check()
	})
}

func TestRunEndsOnWhatNeedsAPerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.append(100)
		w.log.Hook = func(_ context.Context, op string, _ bool) error {
			if op == "seal" {
				return &redislog.ServerError{Prefix: "WRONGTYPE", Class: redislog.Terminal}
			}
			return nil
		}
		a := w.archiver(evtlog.KeepLast(10), Dial{Commit: true})
		err := during(t, a, func() { time.Sleep(time.Second) })
		var refusal *redislog.ServerError
		if !errors.As(err, &refusal) || !supervise.IsTerminal(err) {
			t.Fatal(err)
		}
	})
}

// Out of memory refuses the floor. What is below the floor already may go, and
// must, for that makes room.
func TestOutOfMemoryTrimsBelowTheFloor(t *testing.T) {
	w := newWorld(t)
	w.append(90)
	a := w.archiver(evtlog.KeepLast(100), Dial{Commit: true})
	if err := a.tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.append(60)
	w.log.Hook = func(_ context.Context, op string, _ bool) error {
		if op == "seal" {
			return &redislog.ServerError{Prefix: "OOM", Class: redislog.BackPressure}
		}
		return nil
	}
	var refusal *redislog.ServerError
	if err := a.tick(t.Context()); !errors.As(err, &refusal) {
		t.Fatal(err)
	}
	if got := len(w.log.IDs()); got != 100 {
		t.Errorf("%d are left", got)
	}
	w.check()
}

// A trim whose answer is lost has trimmed all the same. The window must not be
// judged by what was there before.
func TestWindowAfterATrimWithoutAnswer(t *testing.T) {
	w := newWorld(t)
	w.append(200)
	a := w.archiver(evtlog.KeepLast(100), Dial{Window: 20})
	w.log.Hook = func(_ context.Context, op string, after bool) error {
		if op == "trim" && after {
			return errCrash
		}
		return nil
	}
	if err := a.tick(t.Context()); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	w.log.Hook = nil
	w.append(20)
	// The error of the trim stands, the fold goes on.
	if _, err := a.turnOf(t.Context(), order{}); !errors.Is(err, errCrash) || w.watermark() != id(220) {
		t.Fatalf("watermark %s, %v", w.watermark(), err)
	}
}

// Two archivers and appenders at full speed; run with the race detector.
func TestTwoArchivers(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := newWorld(t)
	keep := evtlog.KeepLast(50)
	both := []*Archiver{w.archiver(keep, Dial{Commit: true}), w.archiver(keep, Dial{Window: 30})}
	var work sync.WaitGroup
	stop := make(chan struct{})
	for i, a := range both {
		rnd := rand.New(rand.NewPCG(seed, uint64(i)))
		work.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := a.turnOf(t.Context(), order{tick: true, trim: rnd.IntN(2) == 0}); err != nil {
					t.Errorf("archiver %d: %v", i, err)
					return
				}
			}
		})
	}
	for range 150 {
		w.append(20)
		// What leaves the stream is in the archive before: so in this order
		// nothing is seen in neither.
		all, live := w.appended(), w.log.IDs()
		archived := w.archived()
		if len(live) == 0 || live[len(live)-1] != all[len(all)-1] {
			t.Fatalf("the newest record is gone")
		}
		if missing := len(all) - len(live); len(archived) < missing {
			t.Fatalf("%d left the stream, only %d are in the archive", missing, len(archived))
		}
	}
	close(stop)
	work.Wait()
	w.check()
	for i, a := range both {
		if s := a.Stats(); s.Lost != 0 {
			t.Errorf("archiver %d reported losses: %+v", i, s)
		}
	}
}

// Another archiver folds and trims between the moments at which this one reads
// the watermark and the stream, and again before it reads the watermark anew: that
// is neither a loss nor a stream that ends below its watermark.
func TestAnotherArchiverInBetween(t *testing.T) {
	w := newWorld(t)
	one, other := w.archiver(evtlog.KeepLast(1), Dial{Commit: true}), w.archiver(evtlog.KeepLast(1), Dial{Commit: true})
	w.append(50)
	if err := one.tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	looks := 0
	w.log.Hook = func(ctx context.Context, op string, _ bool) error {
		if isQuiet(ctx) || op != "info" {
			return nil
		}
		if looks++; looks <= 2 {
			w.append(10)
			return other.tick(quiet)
		}
		return nil
	}
	if err := one.tick(t.Context()); err != nil || looks < 2 {
		t.Fatalf("%d looks, %v", looks, err)
	}
	w.log.Hook = nil
	w.check()
	if lost := events[evtlog.Lost](w); len(lost) != 0 {
		t.Errorf("%+v", lost)
	}
}

func TestFoldsTakeTurns(t *testing.T) {
	w := newWorld(t)
	w.append(100)
	entered, leave := make(chan struct{}), make(chan struct{})
	var once sync.Once
	w.log.Hook = func(context.Context, string, bool) error {
		once.Do(func() { close(entered); <-leave })
		return nil
	}
	a := w.archiver(evtlog.KeepLast(10), Dial{Commit: true})
	done := make(chan error)
	go func() { done <- a.tick(t.Context()) }()
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := a.FoldAll(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second cycle did not wait: %v", err)
	}
	close(leave)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestPanicWhileReadingReachesTheSupervisor(t *testing.T) {
	w := newWorld(t)
	w.append(500)
	pages := 0
	w.log.Hook = func(_ context.Context, op string, after bool) error {
		if pages++; op == "page" && pages > 5 {
			panic("odd reply")
		}
		return nil
	}
	a := w.archiver(evtlog.Keep{}, Dial{Commit: true})
	defer func() {
		if recover() == nil {
			t.Error("the panic was swallowed")
		}
		w.log.Hook = nil
		if err := a.tick(t.Context()); err != nil {
			t.Errorf("after the panic: %v", err)
		}
	}()
	_ = a.tick(t.Context())
}
