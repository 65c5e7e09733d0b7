package supervise

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Runner is one incarnation of a component's work.
type Runner interface {
	// Run works until ctx ends. It calls ready exactly once, when it can serve;
	// further calls do nothing. It frees everything it holds before it returns.
	//
	// nil after ctx has ended is a clean stop, and so is ctx's own error. Any
	// other error, or a panic, is a failure; see Restart and Terminal.
	Run(ctx context.Context, ready func()) error
}

// RunFunc is a function that is a Runner.
type RunFunc func(ctx context.Context, ready func()) error

// Run calls f.
func (f RunFunc) Run(ctx context.Context, ready func()) error { return f(ctx, ready) }

// Spec describes one component of a branch.
type Spec struct {
	// Name is the last element of the path, unique in the branch and without '/'.
	Name string
	// Restart says when it is started again. The zero value is Permanent.
	Restart Restart
	// New builds one incarnation. It runs on the incarnation's own goroutine, so
	// it may block, but it has no context: what can hang belongs into Run. State
	// that outlives an incarnation lives outside of it.
	New func() (Runner, error)
	// StopTimeout is how long a stop waits for Run to return. After that the
	// incarnation is abandoned: the stop goes on, and its error names it. Zero
	// means 10 s.
	StopTimeout time.Duration
	// Depth returns how much waits in front of the component, for Tree. It is
	// called at any time from any goroutine. nil means nothing ever waits.
	Depth func() int
}

func (s Spec) withDefaults() Spec {
	s.StopTimeout = orDefault(s.StopTimeout, DefaultStopTimeout)
	return s
}

func (s Spec) validate() error {
	switch {
	case s.Name == "" || strings.Contains(s.Name, "/"):
		return fmt.Errorf("supervise: Spec.Name %q: it must not be empty or contain '/'", s.Name)
	case s.Restart > Temporary:
		return fmt.Errorf("supervise: Spec.Restart of %s is %d: use Permanent, Transient or Temporary", s.Name, s.Restart)
	case s.New == nil:
		return fmt.Errorf("supervise: Spec.New of %s is nil: it must build the component", s.Name)
	case s.StopTimeout < 0:
		return fmt.Errorf("supervise: Spec.StopTimeout of %s is %s: it must not be negative; 0 means %s", s.Name, s.StopTimeout, DefaultStopTimeout)
	}
	return nil
}

func checkSpecs(branch string, specs []Spec) error {
	if branch == "" {
		return fmt.Errorf("supervise: the branch name is empty: name it, such as stream/cm/feed")
	}
	if len(specs) == 0 {
		return fmt.Errorf("supervise: branch %s has no components: give at least one Spec", branch)
	}
	seen := map[string]bool{}
	for _, s := range specs {
		if err := s.validate(); err != nil {
			return fmt.Errorf("branch %s: %w", branch, err)
		}
		if seen[s.Name] {
			return fmt.Errorf("supervise: branch %s has two components named %s: rename one", branch, s.Name)
		}
		seen[s.Name] = true
	}
	return nil
}

type reportKey struct{}

// Report tells the supervisor how the component is doing between ready and its
// end. A non-nil err makes it Degraded because of err, such as a lost connection
// that Run is working to replace; nil makes it Ready again. Repeating the same
// condition is free of events. ctx is the one that Run was given, or one derived
// from it; with any other context Report does nothing.
func Report(ctx context.Context, err error) {
	if f, ok := ctx.Value(reportKey{}).(func(error)); ok {
		f(err)
	}
}
