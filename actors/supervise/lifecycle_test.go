package supervise_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/supervise"
)

var errBoom = errors.New("boom")

func TestAPanicAnywhereIsContained(t *testing.T) {
	for name, newRunner := range map[string]func(left *int) (supervise.Runner, error){
		"in Run": func(left *int) (supervise.Runner, error) {
			return supervise.RunFunc(func(ctx context.Context, ready func()) error {
				if *left--; *left >= 0 {
					panic("in Run")
				}
				return serve(ctx, ready)
			}), nil
		},
		"in New": func(left *int) (supervise.Runner, error) {
			if *left--; *left >= 0 {
				panic(errBoom)
			}
			return supervise.RunFunc(serve), nil
		},
		"after ready": func(left *int) (supervise.Runner, error) {
			return supervise.RunFunc(func(ctx context.Context, ready func()) error {
				ready()
				if *left--; *left >= 0 {
					panic(nil)
				}
				return serve(ctx, ready)
			}), nil
		},
		"Goexit": func(left *int) (supervise.Runner, error) {
			return supervise.RunFunc(func(ctx context.Context, ready func()) error {
				if *left--; *left >= 0 {
					runtime.Goexit()
				}
				return serve(ctx, ready)
			}), nil
		},
		"no Runner": func(left *int) (supervise.Runner, error) {
			if *left--; *left >= 0 {
				return nil, errBoom
			}
			return supervise.RunFunc(serve), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			var j journal
			s := supervise.NewSystem(supervise.Config{Policy: quick, Observer: j.observe})
			defer mustStop(t, s)
			left := 3
			if _, err := s.Branch(within(t), "b", supervise.Spec{Name: "c", New: func() (supervise.Runner, error) { return newRunner(&left) }}); err != nil {
				t.Fatal(err)
			}
			await(t, "three restarts", func() bool { return len(j.restarts("b/c")) == 3 })
			await(t, "it is ready", func() bool { n, _ := find(s, "b/c"); return n.State == evtlog.Ready })
		})
	}
}

func TestAPanickingObserverDoesNotEndTheTree(t *testing.T) {
	s := supervise.NewSystem(supervise.Config{Policy: quick, Observer: func(evtlog.Event) { panic("observer") }})
	b, err := s.Branch(within(t), "b", spec("c", serve))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Stop(within(t)); err != nil {
		t.Error(err)
	}
	mustStop(t, s)
}

func TestABranchFailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		s := supervise.NewSystem(supervise.Config{Observer: j.observe})
		fail := make(chan struct{})
		var first, after atomic.Int32
		counted := func(n *atomic.Int32) supervise.RunFunc {
			return func(ctx context.Context, ready func()) error {
				n.Add(1)
				defer n.Add(-1)
				return serve(ctx, ready)
			}
		}
		if _, err := s.Branch(within(t), "bad", spec("first", counted(&first)),
			spec("bad", func(ctx context.Context, ready func()) error {
				ready()
				<-fail
				return errBoom
			}), spec("after", counted(&after))); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Branch(within(t), "good", spec("c", counted(&first))); err != nil {
			t.Fatal(err)
		}
		close(fail)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := len(j.restarts("bad/bad")); got != supervise.DefaultMaxRestarts {
			t.Errorf("%d restarts, want %d", got, supervise.DefaultMaxRestarts)
		}
		for path, want := range map[string]evtlog.State{
			"bad": evtlog.Failed, "bad/first": evtlog.Ready, "bad/bad": evtlog.Failed, "bad/after": evtlog.Stopped,
			"good": evtlog.Ready, "good/c": evtlog.Ready,
		} {
			if n, _ := find(s, path); n.State != want {
				t.Errorf("%s is %v, want %v", path, n.State, want)
			}
		}
		if first.Load() != 2 || after.Load() != 0 {
			t.Errorf("%d components before the failed one run and %d after it; want 2 and 0", first.Load(), after.Load())
		}
		if got := slices.DeleteFunc(j.states("bad"), func(s evtlog.State) bool { return s != evtlog.Failed }); len(got) != 1 {
			t.Errorf("the failure of the branch was told %d times", len(got))
		}
		var failed *supervise.FailedError
		if n, _ := find(s, "bad"); !errors.As(n.Err, &failed) || failed.Component != "bad/bad" || !errors.Is(n.Err, errBoom) {
			t.Errorf("error of the branch: %v", n.Err)
		}
		mustStop(t, s)
	})
}

func TestAHealthyPeriodResetsThePatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		s := supervise.NewSystem(supervise.Config{Observer: j.observe, Rand: func() float64 { return 0.999 }})
		_, err := s.Branch(within(t), "b", spec("c", func(ctx context.Context, ready func()) error {
			ready()
			if err := supervise.Wait(ctx, 31*time.Second); err != nil {
				return nil
			}
			return errBoom
		}))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		restarts := j.restarts("b/c")
		if len(restarts) < 100 {
			t.Fatalf("%d restarts in an hour of failing every 31 s", len(restarts))
		}
		for _, r := range restarts {
			if r.Restarts != 1 || r.Delay >= supervise.DefaultMin {
				t.Fatalf("restart %+v; want each to count as the first", r)
			}
		}
		mustStop(t, s)
	})
}

func TestATerminalErrorFailsTheStartAtOnce(t *testing.T) {
	var j journal
	s := supervise.NewSystem(supervise.Config{Observer: j.observe})
	defer mustStop(t, s)
	ended := false
	_, err := s.Branch(within(t), "b", spec("a", func(ctx context.Context, ready func()) error {
		defer func() { ended = true }()
		return serve(ctx, ready)
	}), supervise.Spec{Name: "c", New: func() (supervise.Runner, error) { return nil, supervise.Terminal(evtlog.ErrDenied) }})
	var failed *supervise.FailedError
	if !errors.As(err, &failed) || failed.Component != "b/c" || !errors.Is(err, evtlog.ErrDenied) {
		t.Fatalf("error %v; want a FailedError of b/c", err)
	}
	if !ended {
		t.Error("the component before it still runs")
	}
	if len(j.restarts("b/c")) != 0 {
		t.Error("it was restarted")
	}
	if got := j.states("b"); !equalStates(got, []evtlog.State{evtlog.Starting, evtlog.Failed, evtlog.Stopped}) {
		t.Errorf("the branch went through %v", got)
	}
	if _, err := s.Branch(within(t), "b", spec("a", serve)); err != nil {
		t.Errorf("the name is not free again: %v", err)
	}
}

func TestTransientAndTemporaryMayEnd(t *testing.T) {
	s := supervise.NewSystem(supervise.Config{Policy: quick})
	defer mustStop(t, s)
	done := func(context.Context, func()) error { return nil }
	last := func(ctx context.Context, ready func()) error { ready(); return errBoom }
	a, b := spec("a", done), spec("b", last)
	a.Restart, b.Restart = supervise.Transient, supervise.Temporary
	if _, err := s.Branch(within(t), "x", a, b, spec("c", serve)); err != nil {
		t.Fatal(err)
	}
	await(t, "both have stopped", func() bool {
		na, _ := find(s, "x/a")
		nb, _ := find(s, "x/b")
		return na.State == evtlog.Stopped && nb.State == evtlog.Stopped && errors.Is(nb.Err, errBoom)
	})
	if n, _ := find(s, "x"); n.State != evtlog.Ready {
		t.Errorf("the branch is %v", n.State)
	}
}

func TestReportMovesBetweenReadyAndDegraded(t *testing.T) {
	var j journal
	s := supervise.NewSystem(supervise.Config{Observer: j.observe})
	step := make(chan error)
	_, err := s.Branch(within(t), "b", spec("c", func(ctx context.Context, ready func()) error {
		ready()
		ready()
		for err := range step {
			supervise.Report(ctx, err)
		}
		<-ctx.Done()
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{nil, errBoom, errBoom, nil, nil, errBoom} {
		step <- err
	}
	close(step)
	want := []evtlog.State{evtlog.Starting, evtlog.Ready, evtlog.Degraded, evtlog.Ready, evtlog.Degraded}
	await(t, "the reports arrived", func() bool { return equalStates(j.states("b/c"), want) })
	await(t, "the branch follows", func() bool { return equalStates(j.states("b"), want) })
	supervise.Report(context.Background(), errBoom)
	mustStop(t, s)
}

func TestNoTwoIncarnationsAtOnce(t *testing.T) {
	// 1,000 restarts, and the number of goroutines does not grow.
	var running, most, runs atomic.Int32
	s := supervise.NewSystem(supervise.Config{Policy: supervise.Policy{Min: 1, Max: 1, MaxRestarts: 1 << 30}})
	defer mustStop(t, s)
	before := 0
	done := make(chan struct{})
	_, err := s.Branch(within(t), "b", spec("c", func(ctx context.Context, ready func()) error {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		switch n := runs.Add(1); {
		case n == 10:
			before = runtime.NumGoroutine()
		case n == 1010:
			close(done)
			return serve(ctx, ready)
		case n%2 == 0:
			ready()
			panic("again")
		}
		return errBoom
	}))
	if err != nil {
		t.Fatal(err)
	}
	<-done
	if most.Load() != 1 {
		t.Errorf("%d incarnations at once", most.Load())
	}
	await(t, "the goroutines are gone", func() bool { return runtime.NumGoroutine() <= before+3 })
}

func TestStopWhilePausing(t *testing.T) {
	s := supervise.NewSystem(supervise.Config{Policy: supervise.Policy{Min: time.Hour, Max: time.Hour}, Rand: func() float64 { return 0.9 }})
	b, err := s.Branch(within(t), "b", spec("c", func(ctx context.Context, ready func()) error { ready(); return errBoom }))
	if err != nil {
		t.Fatal(err)
	}
	await(t, "it pauses", func() bool { n, _ := find(s, "b/c"); return n.State == evtlog.Degraded })
	if err := b.Stop(within(t)); err != nil {
		t.Error(err)
	}
	mustStop(t, s)
}

func TestStopNamesWhatDidNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := supervise.NewSystem(supervise.Config{})
		let := make(chan struct{})
		var asked sync.WaitGroup
		asked.Add(2)
		b, err := s.Branch(within(t), "b", spec("a", func(ctx context.Context, ready func()) error {
			defer asked.Done()
			return serve(ctx, ready)
		}), spec("deaf", func(ctx context.Context, ready func()) error {
			ready()
			<-ctx.Done()
			asked.Done()
			<-let
			return nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		begin := time.Now()
		err = b.Stop(ctx)
		var late *supervise.StopError
		if !errors.As(err, &late) || !slices.Equal(late.Components, []string{"b/deaf"}) {
			t.Errorf("error %v; want it to name b/deaf only", err)
		}
		if took := time.Since(begin); took > 4*time.Second {
			t.Errorf("the stop took %s", took)
		}
		asked.Wait()
		if _, err := s.Branch(t.Context(), "b", spec("a", serve)); !errors.Is(err, supervise.ErrExists) {
			t.Errorf("a second branch beside the abandoned incarnation: %v", err)
		}
		close(let)
		synctest.Wait()
		if _, err := s.Branch(t.Context(), "b", spec("a", serve)); err != nil {
			t.Errorf("the name is not free: %v", err)
		}
		if err := b.Stop(ctx); !errors.As(err, &late) {
			t.Errorf("the second Stop says %v", err)
		}
		mustStop(t, s)
	})
}

func TestStopReportsAnUncleanEnd(t *testing.T) {
	s := supervise.NewSystem(supervise.Config{})
	_, err := s.Branch(within(t), "b", spec("c", func(ctx context.Context, ready func()) error {
		ready()
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), evtlog.ErrStopped) {
			t.Errorf("the cause is %v", context.Cause(ctx))
		}
		return errBoom
	}))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(within(t)); !errors.Is(err, errBoom) || !strings.Contains(err.Error(), "b/c") {
		t.Errorf("got %v; want the error of b/c", err)
	}
}

func TestBranchesStopInParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := supervise.NewSystem(supervise.Config{})
		for _, name := range []string{"a", "b", "c"} {
			if _, err := s.Branch(t.Context(), name, spec("slow", func(ctx context.Context, ready func()) error {
				ready()
				<-ctx.Done()
				time.Sleep(5 * time.Second)
				return nil
			})); err != nil {
				t.Fatal(err)
			}
		}
		begin := time.Now()
		mustStop(t, s)
		if took := time.Since(begin); took != 5*time.Second {
			t.Errorf("the stop took %s, want 5s", took)
		}
		for _, n := range s.Tree() {
			if n.State != evtlog.Stopped {
				t.Errorf("%s is %v", n.Path, n.State)
			}
		}
	})
}

func TestBranchIsBoundedByItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := supervise.NewSystem(supervise.Config{})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		ended := make(chan struct{})
		_, err := s.Branch(ctx, "b", spec("never", func(ctx context.Context, _ func()) error {
			defer close(ended)
			supervise.Report(ctx, errBoom)
			<-ctx.Done()
			return nil
		}))
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errBoom) || !strings.Contains(err.Error(), "b/never") {
			t.Errorf("got %v; want the deadline, the last error and the name", err)
		}
		<-ended
		mustStop(t, s)
	})
}

func TestBadInputIsRefused(t *testing.T) {
	s := supervise.NewSystem(supervise.Config{})
	defer mustStop(t, s)
	ok := spec("a", serve)
	for want, try := range map[string]func() error{
		"Spec.Name":      func() error { _, err := s.Branch(t.Context(), "b", spec("a/b", serve)); return err },
		"Spec.New":       func() error { _, err := s.Branch(t.Context(), "b", supervise.Spec{Name: "a"}); return err },
		"two components": func() error { _, err := s.Branch(t.Context(), "b", ok, ok); return err },
		"no components":  func() error { _, err := s.Branch(t.Context(), "b"); return err },
		"branch name":    func() error { _, err := s.Branch(t.Context(), "", ok); return err },
		"Policy.Min": func() error {
			_, err := supervise.NewSystem(supervise.Config{Policy: supervise.Policy{Min: -1}}).Branch(t.Context(), "b", ok)
			return err
		},
	} {
		if err := try(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v; want it to name %s", err, want)
		}
	}
	if _, err := s.Branch(within(t), "b", ok); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Branch(within(t), "b", ok); !errors.Is(err, supervise.ErrExists) {
		t.Errorf("got %v, want ErrExists", err)
	}
}

func TestTheLibrarysChatterIsLeftOut(t *testing.T) {
	var b lockedBuilder
	s := supervise.NewSystem(supervise.Config{Policy: quick, Logger: slog.New(slog.NewTextHandler(&b, nil))})
	left := 2
	if _, err := s.Branch(within(t), "b", spec("c", func(ctx context.Context, ready func()) error {
		if left--; left >= 0 {
			return errBoom
		}
		return serve(ctx, ready)
	})); err != nil {
		t.Fatal(err)
	}
	mustStop(t, s)
	if got := b.String(); strings.Contains(got, "[ACTOR]") || strings.Contains(got, "actor system") || strings.Count(got, "component restarts") != 2 {
		t.Errorf("log:\n%s", got)
	}
}

type lockedBuilder struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuilder) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuilder) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestDepthAddsWhatWaits(t *testing.T) {
	s := supervise.NewSystem(supervise.Config{})
	defer mustStop(t, s)
	c := spec("c", serve)
	c.Depth = func() int { return 42 }
	if _, err := s.Branch(within(t), "b", c); err != nil {
		t.Fatal(err)
	}
	await(t, "the mailbox is empty", func() bool { n, _ := find(s, "b/c"); return n.Depth == 42 })
}

func TestErrorsSayWhatToDo(t *testing.T) {
	for want, err := range map[string]error{
		"supervise: b/c given up after 3 restarts: boom; correct the cause and start it anew": &supervise.FailedError{Component: "b/c", Restarts: 3, Err: errBoom},
		"supervise: not stopped in time (boom): b/c, b/a":                                     &supervise.StopError{Components: []string{"b/c", "b/a"}, Err: errBoom},
		"panic: boom": &supervise.PanicError{Value: errBoom},
	} {
		if err.Error() != want || !errors.Is(err, errBoom) {
			t.Errorf("got %q, want %q", err, want)
		}
	}
	if supervise.Terminal(nil) != nil || supervise.IsTerminal(errBoom) {
		t.Error("only a marked error is terminal")
	}
}

func TestSystemStopNamesWhatStillRuns(t *testing.T) {
	s := supervise.NewSystem(supervise.Config{})
	let := make(chan struct{})
	b, err := s.Branch(within(t), "b", spec("a", serve), spec("deaf", func(ctx context.Context, ready func()) error {
		ready()
		<-let
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var late *supervise.StopError
	if err := s.Stop(ctx); !errors.As(err, &late) || !slices.Equal(late.Components, []string{"b/deaf", "b/a"}) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v; want both components named", err)
	}
	close(let)
	mustStop(t, s)
	<-b.Done()
	if b.Name() != "b" {
		t.Errorf("name %q", b.Name())
	}
}
