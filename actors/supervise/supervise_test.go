package supervise_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/supervise"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quick is a policy for tests that run in real time.
var quick = supervise.Policy{Min: time.Microsecond, Max: 10 * time.Microsecond}

// journal is an observer that keeps what it saw.
type journal struct {
	mu     sync.Mutex
	events []evtlog.Event
}

func (j *journal) observe(e evtlog.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, e)
}

// states returns the states that a component went through.
func (j *journal) states(component string) []evtlog.State {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []evtlog.State
	for _, e := range j.events {
		if s, ok := e.(evtlog.StateChanged); ok && s.Component == component {
			out = append(out, s.State)
		}
	}
	return out
}

func (j *journal) restarts(component string) []evtlog.Restarted {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []evtlog.Restarted
	for _, e := range j.events {
		if r, ok := e.(evtlog.Restarted); ok && r.Component == component {
			out = append(out, r)
		}
	}
	return out
}

// within is the deadline of everything that should take no time.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// spec makes a permanent component of a function.
func spec(name string, run supervise.RunFunc) supervise.Spec {
	return supervise.Spec{Name: name, New: func() (supervise.Runner, error) { return run, nil }}
}

// serve is a component that is ready at once and stops when told to.
func serve(ctx context.Context, ready func()) error {
	ready()
	<-ctx.Done()
	return ctx.Err()
}

func mustStop(t *testing.T, s *supervise.System) {
	t.Helper()
	if err := s.Stop(within(t)); err != nil {
		t.Errorf("stop: %v", err)
	}
}

func find(s *supervise.System, path string) (supervise.Node, bool) {
	for _, n := range s.Tree() {
		if n.Path == path {
			return n, true
		}
	}
	return supervise.Node{}, false
}

// await waits until cond holds.
func await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	ctx := within(t)
	for !cond() {
		if err := supervise.Wait(ctx, time.Millisecond); err != nil {
			t.Fatalf("waiting until %s: %v", what, err)
		}
	}
}

func equalStates(a, b []evtlog.State) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestComponentsStartInOrderAndStopInReverse(t *testing.T) {
	var mu sync.Mutex
	var log []string
	note := func(s string) { mu.Lock(); defer mu.Unlock(); log = append(log, s) }
	component := func(name string) supervise.Spec {
		return spec(name, func(ctx context.Context, ready func()) error {
			note("start " + name)
			_ = supervise.Wait(ctx, 2*time.Millisecond)
			note("ready " + name)
			ready()
			<-ctx.Done()
			_ = supervise.Wait(context.Background(), 2*time.Millisecond)
			note("end " + name)
			return nil
		})
	}
	var j journal
	s := supervise.NewSystem(supervise.Config{Observer: j.observe})
	b, err := s.Branch(within(t), "stream/cm/feed", component("a"), component("b"), component("c"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"stream/cm/feed", "stream/cm/feed/a", "stream/cm/feed/b", "stream/cm/feed/c"} {
		if n, ok := find(s, path); !ok || n.State != evtlog.Ready {
			t.Errorf("%s is %v, found %v; want ready", path, n.State, ok)
		}
	}
	if err := b.Stop(within(t)); err != nil {
		t.Fatal(err)
	}
	want := []string{"start a", "ready a", "start b", "ready b", "start c", "ready c", "end c", "end b", "end a"}
	for i := range want {
		if i >= len(log) || log[i] != want[i] {
			t.Fatalf("order:\n got %v\nwant %v", log, want)
		}
	}
	if got := j.states("stream/cm/feed"); !equalStates(got, []evtlog.State{evtlog.Starting, evtlog.Ready, evtlog.Stopped}) {
		t.Errorf("branch went through %v", got)
	}
	if len(s.Tree()) != 0 {
		t.Errorf("the stopped branch is still in the tree: %+v", s.Tree())
	}
	mustStop(t, s)
}

func TestAFailingComponentIsRestartedAndRecovers(t *testing.T) {
	var j journal
	s := supervise.NewSystem(supervise.Config{Policy: quick, Observer: j.observe})
	defer mustStop(t, s)
	boom := errors.New("boom")
	fails := 3
	_, err := s.Branch(within(t), "b", spec("c", func(ctx context.Context, ready func()) error {
		if fails--; fails >= 0 {
			return boom
		}
		return serve(ctx, ready)
	}))
	if err != nil {
		t.Fatal(err)
	}
	restarts := j.restarts("b/c")
	if len(restarts) != 3 || restarts[2].Restarts != 3 || !errors.Is(restarts[0].Reason, boom) {
		t.Errorf("restarts: %+v", restarts)
	}
	if got := j.states("b/c"); !equalStates(got, []evtlog.State{evtlog.Starting, evtlog.Degraded, evtlog.Ready}) {
		t.Errorf("states: %v", got)
	}
	if n, _ := find(s, "b/c"); n.Restarts != 3 || !errors.Is(n.Err, boom) {
		t.Errorf("node: %+v", n)
	}
}
