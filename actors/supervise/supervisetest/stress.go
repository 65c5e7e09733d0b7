// Package supervisetest puts a component through its life: started, stopped,
// stopped twice, stopped before and while it starts, started again. Every
// component of the system passes it.
package supervisetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/supervise"
)

const (
	rounds   = 10
	deadline = 30 * time.Second
	branch   = "stress"
)

// StressRunner runs the life-cycle tests as subtests. newSpec returns the Spec of
// a new, working component each time it is called; what it needs (a server, a
// pool) must be up and outlive the test. A component passes when it becomes
// ready, each stop ends in time and without an error, no incarnation outlives
// its stop or overlaps another, and no goroutine is left behind.
func StressRunner(t *testing.T, newSpec func() supervise.Spec) {
	t.Helper()
	for _, c := range []struct {
		name string
		run  func(*testing.T, func() supervise.Spec)
	}{
		{"start and stop", startAndStop},
		{"stop twice", stopTwice},
		{"stop before start", stopBeforeStart},
		{"stop while starting", stopWhileStarting},
		{"give up waiting for the start", giveUpStart},
		{"start again", startAgain},
	} {
		t.Run(c.name, func(t *testing.T) {
			alive := goleak.IgnoreCurrent()
			c.run(t, newSpec)
			goleak.VerifyNone(t, alive)
		})
	}
}

// watched counts the incarnations of a spec.
type watched struct {
	running, most, built atomic.Int32
}

func (w *watched) spec(s supervise.Spec) supervise.Spec {
	build := s.New
	s.New = func() (supervise.Runner, error) {
		w.built.Add(1)
		r, err := build()
		if err != nil {
			return nil, err
		}
		return supervise.RunFunc(func(ctx context.Context, ready func()) error {
			w.most.Store(max(w.most.Load(), w.running.Add(1)))
			defer w.running.Add(-1)
			return r.Run(ctx, ready)
		}), nil
	}
	return s
}

func (w *watched) check(t *testing.T) {
	t.Helper()
	if n := w.running.Load(); n != 0 {
		t.Errorf("%d incarnations run after the stop", n)
	}
	if n := w.most.Load(); n > 1 {
		t.Errorf("%d incarnations ran at once", n)
	}
}

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	t.Cleanup(cancel)
	return ctx
}

func start(t *testing.T, s *supervise.System, spec supervise.Spec) *supervise.Branch {
	t.Helper()
	b, err := s.Branch(bounded(t), branch, spec)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	return b
}

func noError(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

func startAndStop(t *testing.T, newSpec func() supervise.Spec) {
	for range rounds {
		var w watched
		s := supervise.NewSystem(supervise.Config{})
		start(t, s, w.spec(newSpec()))
		noError(t, "stop", s.Stop(bounded(t)))
		w.check(t)
	}
}

func stopTwice(t *testing.T, newSpec func() supervise.Spec) {
	var w watched
	s := supervise.NewSystem(supervise.Config{})
	b := start(t, s, w.spec(newSpec()))
	var stops sync.WaitGroup
	for range 4 {
		stops.Go(func() { noError(t, "one of many stops of the branch", b.Stop(bounded(t))) })
		stops.Go(func() { noError(t, "one of many stops of the system", s.Stop(bounded(t))) })
	}
	stops.Wait()
	noError(t, "a late stop of the branch", b.Stop(bounded(t)))
	noError(t, "a late stop of the system", s.Stop(bounded(t)))
	w.check(t)
}

func stopBeforeStart(t *testing.T, newSpec func() supervise.Spec) {
	var w watched
	s := supervise.NewSystem(supervise.Config{})
	spec := w.spec(newSpec())
	noError(t, "stop", s.Stop(bounded(t)))
	if _, err := s.Branch(bounded(t), branch, spec); !errors.Is(err, evtlog.ErrStopped) {
		t.Errorf("a start after the stop: %v, want ErrStopped", err)
	}
	if w.built.Load() != 0 {
		t.Error("it was built all the same")
	}
}

// pause returns a random short time, so that the stop meets each step of a start.
func pause(t *testing.T) func() time.Duration {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	return func() time.Duration { return time.Duration(r.ExpFloat64() * float64(500*time.Microsecond)) }
}

func stopWhileStarting(t *testing.T, newSpec func() supervise.Spec) {
	next := pause(t)
	for range rounds {
		var w watched
		s := supervise.NewSystem(supervise.Config{})
		spec, started := w.spec(newSpec()), make(chan error, 1)
		ctx := bounded(t)
		go func() {
			_, err := s.Branch(ctx, branch, spec)
			started <- err
		}()
		_ = supervise.Wait(ctx, next())
		noError(t, "stop", s.Stop(ctx))
		if err := <-started; err != nil && !errors.Is(err, evtlog.ErrStopped) {
			t.Errorf("the start that was cut short: %v, want ErrStopped", err)
		}
		w.check(t)
	}
}

func giveUpStart(t *testing.T, newSpec func() supervise.Spec) {
	next := pause(t)
	for range rounds {
		var w watched
		s := supervise.NewSystem(supervise.Config{})
		ctx, cancel := context.WithTimeout(t.Context(), next())
		_, err := s.Branch(ctx, branch, w.spec(newSpec()))
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the start that was given up: %v, want its deadline", err)
		}
		noError(t, "stop", s.Stop(bounded(t)))
		w.check(t)
	}
}

func startAgain(t *testing.T, newSpec func() supervise.Spec) {
	var w watched
	s := supervise.NewSystem(supervise.Config{})
	spec := w.spec(newSpec())
	for range rounds {
		noError(t, "stop of the branch", start(t, s, spec).Stop(bounded(t)))
	}
	noError(t, "stop", s.Stop(bounded(t)))
	w.check(t)
	if n := w.built.Load(); n != rounds {
		t.Errorf("%d incarnations were built, want %d", n, rounds)
	}
}
