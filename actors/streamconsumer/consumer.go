package streamconsumer

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// Consumer is one member of a group. Its methods are safe for concurrent use.
type Consumer struct {
	cfg    Config
	ports  ports
	stream evtlog.StreamName
	count  counters
	// current is the incarnation at work.
	current atomic.Pointer[runner]
	pause   pauseSwitch

	mu sync.Mutex
	at position
}

// New returns a Consumer that does nothing until its Spec is run by a
// supervisor.
//
// log is the stream of cfg. arch is where records are read from that were
// trimmed before the group got them; nil means that there is no archive, and
// they are reported as evtlog.Lost. dead appends to the dead stream of the
// stream (keyspace.Stream.Dead); it is required.
//
// An error names the field of cfg that was refused.
func New(cfg Config, log *redislog.Log, arch archive.Archive, dead func(ctx context.Context, fields ...evtlog.Field) (evtid.ID, error)) (*Consumer, error) {
	if log == nil {
		return nil, fmt.Errorf("streamconsumer: log of group %s is nil: give the stream's redislog.Log", cfg.Group)
	}
	return newConsumer(cfg, ports{
		log: log,
		dial: func(ctx context.Context, member string) (groupReader, error) {
			return log.NewGroupReader(ctx, cfg.Group, member)
		},
		arch: arch,
		dead: dead,
		rnd:  rand.Float64,
	})
}

func newConsumer(cfg Config, p ports) (*Consumer, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if p.dead == nil {
		return nil, fmt.Errorf("streamconsumer: dead of group %s is nil: give the function that appends to %s", cfg.Group, cfg.Stream.Dead())
	}
	return &Consumer{
		cfg:    cfg,
		ports:  p,
		stream: evtlog.StreamName{Queue: cfg.Stream.Queue(), Name: cfg.Stream.Name()},
	}, nil
}

// Spec returns the component for a supervisor. It is permanent: it runs until
// it is stopped, and ends by itself only on an error that no retry can help,
// such as evtlog.ErrWrongType or evtlog.ErrDenied. Lost connections are made
// anew inside, and reported as evtlog.Degraded until they are back.
//
// A stop cancels the running handler's context, waits for it to return (within
// the Spec's StopTimeout), sends what is acknowledged, and closes.
func (c *Consumer) Spec() supervise.Spec {
	return supervise.Spec{
		Name:  cmp.Or(c.cfg.Name, "slot"),
		New:   func() (supervise.Runner, error) { return newRunner(c), nil },
		Depth: func() int { return c.Stats().InHand },
	}
}

// Cancel cancels the context of the delivery of id, if that is what the handler
// is working on, and reports whether it was. cause is what context.Cause gives
// the handler; nil means context.Canceled. What happens to the entry is up to
// the handler: nil acknowledges it, an error leaves it for another attempt.
func (c *Consumer) Cancel(id evtid.ID, cause error) bool {
	r := c.current.Load()
	return r != nil && r.hand.abort(id, cause)
}

// Stats returns what was counted so far.
func (c *Consumer) Stats() Stats {
	s := c.count.stats()
	s.Paused = c.pause.atRest()
	r := c.current.Load()
	if r == nil {
		// What starts from now on rests before it reads anything.
		s.Paused = c.Pausing()
	} else {
		r.hand.describe(&s)
		s.Member = r.member()
	}
	return s
}

// Moved tells the consumer that its group was moved: the next record is the first
// above to. A group that vanishes afterwards is then made anew there, and not where
// the work had got to before. Call it while the consumer is at rest.
func (c *Consumer) Moved(to evtid.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = position{existed: true, known: true, acked: to}
}

func (c *Consumer) position() position {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// done notes that ids are finished.
func (c *Consumer) done(ids ...evtid.ID) {
	c.mu.Lock()
	c.at = c.at.forward(ids...)
	c.mu.Unlock()
}

// rewind makes the position go back to before owed.
func (c *Consumer) rewind(owed evtid.ID) {
	c.mu.Lock()
	c.at = c.at.back(owed)
	c.mu.Unlock()
}
