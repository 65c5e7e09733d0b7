package archiver

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/internal/beat"
	"github.com/evtlog/evtlog/actors/internal/trimline"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// windowGap is the least time between two looks at a Window that the publisher
// nudges for.
const windowGap = 20 * time.Millisecond

// Log is what an archiver needs of the live stream. *redislog.Log implements it.
type Log interface {
	Info(ctx context.Context) (redislog.StreamInfo, error)
	Page(ctx context.Context, after, to evtid.ID, n int) ([]evtlog.Record, evtid.ID, error)
	PageBefore(ctx context.Context, after, to evtid.ID, n int) ([]evtlog.Record, error)
	Seal(ctx context.Context, w evtid.ID) error
	TrimThrough(ctx context.Context, through evtid.ID) (redislog.TrimResult, error)
	FirstForeign(ctx context.Context) (entry string, found bool, err error)
}

// Stats is what an Archiver has done so far and how far it is behind.
type Stats struct {
	// Watermark is the archive's, Top the last generated id of the stream, both
	// as last seen.
	Watermark, Top evtid.ID
	// Behind counts the records above the watermark, as last seen. It is the most
	// that it can be until the first complete fold of this process.
	Behind int64
	// Length counts the live entries, as last seen.
	Length int64
	// Folds and FoldedRecords count what was made durable, Conflicts the folds
	// that found the watermark moved by somebody else, ArchiveErrors the cycles
	// that ended because the archive did not answer, or refused.
	Folds, FoldedRecords, Conflicts, ArchiveErrors int64
	// Trimmed counts entries removed, all at or below TrimmedThrough.
	Trimmed        int64
	TrimmedThrough evtid.ID
	// Lost counts the evtlog.Lost reported.
	Lost int64
	// LastFold and LastTick are when the last fold and the last full cycle ended,
	// by the clock of the configuration.
	LastFold, LastTick time.Time
	// LastError is how the last cycle went; nil when well.
	LastError error
}

// Archiver folds one stream into an archive and trims it behind. Its methods
// are safe for concurrent use.
type Archiver struct {
	cfg    Config
	log    Log
	arch   archive.Archive
	stream evtlog.StreamName
	nudge  chan struct{}
	// turn is held by the cycle that runs: ticks and manual folds take turns.
	turn chan struct{}

	// The following belong to the holder of turn.

	// w is the archive's watermark as last answered, once started.
	w       evtid.ID
	started bool
	// below counts the live entries at or below mark, 0 when not known.
	mark  evtid.ID
	below int64
	// unproven is the newest id of which it is not known from this process's own
	// folds that the archive has all live records at or below it.
	unproven  evtid.ID
	pageCount int
	watch     trimline.Watch
	ledger    ledger
	stall     trimline.Stall
	fault     error
	orphan    *UnarchivedError
	// standing is what the last cycle that trimmed met. Until the next one it
	// stands, although what is folded in between goes well.
	standing error

	mu    sync.Mutex
	stats Stats
}

// New returns the archiver of cfg.Stream from log into arch. Nothing runs until
// Spec is started or Fold is called. The error names the field of cfg that was
// refused.
func New(cfg Config, log Log, arch archive.Archive) (*Archiver, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Archiver{
		cfg:       cfg.withDefaults(),
		log:       log,
		arch:      arch,
		stream:    evtlog.StreamName{Queue: cfg.Stream.Queue(), Name: cfg.Stream.Name()},
		nudge:     make(chan struct{}, 1),
		turn:      make(chan struct{}, 1),
		pageCount: firstRecords,
	}, nil
}

// Spec returns the component for a branch of a supervise.System: transient,
// called "archiver". It makes a cycle at once when started, then on each tick
// and, short of trimming, on each nudge.
//
// An archive that does not answer, or a lost connection to Redis, is tried again
// with a growing pause; out of memory and cannot-persist answers do not stop it;
// a key of another type, or missing rights, ends it for good.
func (a *Archiver) Spec() supervise.Spec {
	run := func(ctx context.Context, ready func()) error {
		ready()
		b := beat.Beat{Every: a.cfg.Every, Nudge: a.nudge, React: react, Rand: rand.Float64}
		if !a.cfg.Fold.Commit {
			b.Gap = windowGap
		}
		return b.Run(ctx, func(ctx context.Context, tick bool) error {
			_, err := a.turnOf(ctx, order{tick: tick, trim: tick})
			return err
		})
	}
	return supervise.Spec{
		Name:    "archiver",
		Restart: supervise.Transient,
		New:     func() (supervise.Runner, error) { return supervise.RunFunc(run), nil },
	}
}

// react slows down for an archive that does not answer. Whatever an archive's
// error wraps, it is not Redis that refused.
func react(err error) beat.Reaction {
	if isArchiveError(err) {
		return beat.BackOff
	}
	return beat.React(err)
}

func isArchiveError(err error) bool {
	var e *ArchiveError
	return errors.As(err, &e)
}

// Nudge says that something was appended. It never blocks, and any number of
// nudges before the next look are one. Without a running component it does
// nothing but be remembered.
func (a *Archiver) Nudge() {
	select {
	case a.nudge <- struct{}{}:
	default:
	}
}

// Fold makes a cycle now: it folds at least through the given id, or everything
// that is in the stream now when that is the zero ID, seals, and trims what Keep
// lets go. It returns the watermark. It is what a tick does, and waits for one
// that is running; it needs no running component. An id above the top of the
// stream is cut down to the top.
//
// Errors: *ArchiveError, *RegressedError, *SetBackError, *UnarchivedError,
// *FaultError, *StalledError, *evtlog.ForeignEntryError (joined where trimming
// is blocked but folding went well: then the watermark has moved), and those of
// Redis, classified by redislog. It is safe to repeat.
func (a *Archiver) Fold(ctx context.Context, through evtid.ID) (evtid.ID, error) {
	return a.turnOf(ctx, order{tick: true, trim: true, all: through.IsZero(), through: through})
}

// FoldAll folds everything that is in the stream now and seals it, without
// trimming: what a clean stop wants. Results and errors are those of Fold.
func (a *Archiver) FoldAll(ctx context.Context) (evtid.ID, error) {
	return a.turnOf(ctx, order{tick: true, all: true})
}

// turnOf makes a cycle when it is its turn.
func (a *Archiver) turnOf(ctx context.Context, o order) (evtid.ID, error) {
	select {
	case a.turn <- struct{}{}:
	case <-ctx.Done():
		return evtid.ID{}, context.Cause(ctx)
	}
	defer func() { <-a.turn }()
	w, err := a.cycle(ctx, o)
	if o.trim {
		a.standing = err
	} else if !o.tick && err == nil {
		err = a.standing
	}
	a.count(func(s *Stats) {
		s.LastError = err
		if isArchiveError(err) {
			s.ArchiveErrors++
		}
		if o.tick {
			s.LastTick = a.cfg.Now()
		}
	})
	return w, err
}

// Stats returns the counters.
func (a *Archiver) Stats() Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stats
}

func (a *Archiver) count(change func(*Stats)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.stats)
}

func (a *Archiver) lost(l evtlog.Lost) {
	a.cfg.Observer.Emit(l)
	a.count(func(s *Stats) { s.Lost++ })
}
