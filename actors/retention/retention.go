package retention

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/internal/beat"
	"github.com/evtlog/evtlog/actors/internal/trimline"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// Log is what a retention needs of the stream. *redislog.Log implements it.
type Log interface {
	Info(ctx context.Context) (redislog.StreamInfo, error)
	Page(ctx context.Context, after, to evtid.ID, n int) ([]evtlog.Record, evtid.ID, error)
	PageBefore(ctx context.Context, after, to evtid.ID, n int) ([]evtlog.Record, error)
	TrimThrough(ctx context.Context, through evtid.ID) (redislog.TrimResult, error)
	FirstForeign(ctx context.Context) (entry string, found bool, err error)
}

// FaultError is a trim that removed a record above its line. Trimming has
// stopped for as long as this Retention lives.
type FaultError = trimline.FaultError

// StalledError is a stream that three trims in a row did not make shorter
// although entries are due. Trimming goes on.
type StalledError = trimline.StalledError

// Result is what one Trim did.
type Result struct {
	// Through is the newest id that was allowed to go, zero when nothing was due.
	Through evtid.ID
	// Removed counts the entries that went.
	Removed int64
	// Lost is what groups were not given, or had not acknowledged.
	Lost []evtlog.Lost
}

// Stats is what a Retention has done so far.
type Stats struct {
	// Trimmed counts removed entries, Lost the evtlog.Lost reported.
	Trimmed, Lost int64
	// Through is the newest id that has been trimmed through.
	Through evtid.ID
	// Length and Top are the length and the newest position of the stream, as
	// last seen.
	Length int64
	Top    evtid.ID
	// LastTick is when the last pass ended, by the clock of the configuration.
	LastTick time.Time
	// LastError is how the last pass went; nil when well.
	LastError error
}

// Retention trims one stream. Its methods are safe for concurrent use.
type Retention struct {
	cfg    Config
	log    Log
	stream evtlog.StreamName
	// turn is held by the pass that runs: ticks and manual trims take turns.
	turn chan struct{}

	// The following belong to the holder of turn.
	watch   trimline.Watch
	stall   trimline.Stall
	fault   error
	foreign string

	mu    sync.Mutex
	stats Stats
}

// New returns the retention of cfg.Stream on log. Nothing runs until Spec is
// started or Trim is called. The error names the field of cfg that was refused.
func New(cfg Config, log Log) (*Retention, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Retention{
		cfg:    cfg.withDefaults(),
		log:    log,
		stream: evtlog.StreamName{Queue: cfg.Stream.Queue(), Name: cfg.Stream.Name()},
		turn:   make(chan struct{}, 1),
	}, nil
}

// Spec returns the component for a branch of a supervise.System: transient,
// called "retention". It trims at once when started, then on each tick.
//
// Out of memory and cannot-persist answers do not stop it, as trimming is what
// helps; a lost connection is tried again with a growing pause; a key of another
// type, or missing rights, ends it for good.
func (r *Retention) Spec() supervise.Spec {
	run := func(ctx context.Context, ready func()) error {
		ready()
		b := beat.Beat{Every: r.cfg.Every, React: beat.React, Rand: rand.Float64}
		return b.Run(ctx, func(ctx context.Context, _ bool) error {
			_, err := r.Trim(ctx)
			return err
		})
	}
	return supervise.Spec{
		Name:    "retention",
		Restart: supervise.Transient,
		New:     func() (supervise.Runner, error) { return supervise.RunFunc(run), nil },
	}
}

// Trim applies the policy now. It is what a tick does, and waits for one that is
// running. It needs no running component.
//
// Errors: those of Redis, classified by redislog; *FaultError, *StalledError; a
// *evtlog.ForeignEntryError once for each foreign entry met, which the policy
// trims like any other. The Result counts what was done before the error.
func (r *Retention) Trim(ctx context.Context) (Result, error) {
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
	}
	defer func() { <-r.turn }()
	out, err := r.pass(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.LastTick, r.stats.LastError = r.cfg.Now(), err
	return out, err
}

// Stats returns the counters.
func (r *Retention) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stats
}
