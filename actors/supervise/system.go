package supervise

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/evtlog/evtlog"
)

// Config configures a System. The zero value is valid.
type Config struct {
	// Policy is the patience of every branch.
	Policy Policy
	// Observer receives evtlog.StateChanged and evtlog.Restarted. nil is none.
	Observer evtlog.Observer
	// Logger receives the same as log lines. nil discards them.
	Logger *slog.Logger
	// Rand returns a random number in [0, 1) for the jitter of restarts and must
	// be safe for concurrent use. nil means math/rand/v2.
	Rand func() float64
}

func (c Config) withDefaults() Config {
	c.Policy = c.Policy.withDefaults()
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Rand == nil {
		c.Rand = rand.Float64
	}
	return c
}

// System is one supervision tree with an actor system of its own. All methods
// are safe for concurrent use. It holds no goroutine while nothing runs in it.
type System struct {
	cfg    Config
	cfgErr error
	logger *slog.Logger
	actors *actor.ActorSystem
	root   *actor.PID

	mu       sync.Mutex
	branches []*Branch
	stopping bool
	// stopped is closed when everything has ended and the actor system was shut
	// down; rootGone when the root actor has ended.
	stopped, rootGone chan struct{}
}

// NewSystem returns a System without branches. A Policy that cannot be applied
// is refused by the first Branch.
func NewSystem(cfg Config) *System {
	s := &System{
		cfgErr:   cfg.Policy.withDefaults().validate(),
		cfg:      cfg.withDefaults(),
		stopped:  make(chan struct{}),
		rootGone: make(chan struct{}),
	}
	s.logger = s.cfg.Logger
	s.actors = actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(warnings{s.logger.Handler()}) }),
		// The throttle holds a goroutine for one interval after a dead letter.
		actor.WithDeadLetterThrottleInterval(time.Millisecond),
	)
	s.root = s.actors.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return &rootActor{system: s} }, actor.WithGuardian(containment{s})))
	return s
}

// Branch starts the components in order, each when the one before it is ready,
// and returns when all are ready. Components that fail meanwhile are restarted
// as always. name is the path, such as "stream/cm/feed".
//
// When a component is given up before that, or when ctx ends, what was started
// is stopped again and the error says which component was not ready and why. It
// is a *FailedError in the first case. Other errors: ErrExists when the name is
// taken, evtlog.ErrStopped when the System was stopped, or what is wrong with a
// Spec. ctx bounds the start only.
func (s *System) Branch(ctx context.Context, name string, order ...Spec) (*Branch, error) {
	if err := errors.Join(s.cfgErr, checkSpecs(name, order)); err != nil {
		return nil, err
	}
	b := newBranch(s, name, order)
	if err := s.register(b); err != nil {
		return nil, err
	}
	select {
	case <-b.started:
	case <-ctx.Done():
		b.askStop(time.Time{})
		return nil, b.notReady(context.Cause(ctx))
	}
	err := b.startError()
	if err == nil {
		return b, nil
	}
	select {
	case <-b.done:
	case <-ctx.Done():
	}
	return nil, err
}

// register takes the name and tells the root to spawn. Both happen under the
// lock that Stop takes, so that no stop can overtake the start: sending only
// puts the message into a mailbox.
func (s *System) register(b *Branch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return b.wrap("start", evtlog.ErrStopped)
	}
	if slices.ContainsFunc(s.branches, func(o *Branch) bool { return o.node.path == b.node.path }) {
		return b.wrap("start", ErrExists)
	}
	s.branches = append(s.branches, b)
	s.actors.Root.Send(s.root, spawnBranch{branch: b})
	return nil
}

// Stop stops all branches in parallel, each in reverse start order, and then the
// actor system. It may be called at any time and any number of times. It returns
// when everything has ended, or at ctx's end with a *StopError that names what
// has not; the stop goes on all the same. An incarnation that ignored its
// StopTimeout is named too, and so is one that ended with an error.
func (s *System) Stop(ctx context.Context) error {
	s.mu.Lock()
	first := !s.stopping
	s.stopping = true
	branches := slices.Clone(s.branches)
	s.mu.Unlock()
	deadline, _ := ctx.Deadline()
	for _, b := range branches {
		b.askStop(deadline)
	}
	if first {
		go s.shutdown(branches)
	}
	select {
	case <-s.stopped:
		return stopErrors(branches)
	default:
	}
	select {
	case <-s.stopped:
		return stopErrors(branches)
	case <-ctx.Done():
		return s.unfinished(branches, context.Cause(ctx))
	}
}

// shutdown runs once. The order matters: the actor system's own Shutdown stops
// no actor.
func (s *System) shutdown(branches []*Branch) {
	for _, b := range branches {
		<-b.done
	}
	s.actors.Root.Stop(s.root)
	<-s.rootGone
	s.actors.Shutdown()
	close(s.stopped)
}

func stopErrors(branches []*Branch) error {
	var errs []error
	for _, b := range branches {
		errs = append(errs, b.stopError())
	}
	return errors.Join(errs...)
}

func (s *System) unfinished(branches []*Branch, cause error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := &StopError{Err: cause}
	for _, b := range branches {
		e.Components = append(e.Components, b.running()...)
	}
	return e
}

// warnings passes on what the actor library says at warning level and above:
// every failure it would tell about at Info is reported by this package.
type warnings struct{ slog.Handler }

func (h warnings) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && h.Handler.Enabled(ctx, l)
}

func (h warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{h.Handler.WithAttrs(attrs)}
}

func (h warnings) WithGroup(name string) slog.Handler { return warnings{h.Handler.WithGroup(name)} }
