package archiver

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// lateCommands keeps the writing commands that failed, to run them later: a
// connection that broke may still deliver what was sent on it.
type lateCommands struct {
	w *world

	mu      sync.Mutex
	rnd     *rand.Rand
	waiting []func()
}

func (l *lateCommands) add(err error, command func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil && l.rnd.IntN(2) == 0 {
		l.waiting = append(l.waiting, command)
	}
}

// take returns one of the commands now and then, else nil.
func (l *lateCommands) take() func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 || l.rnd.IntN(8) > 0 {
		return nil
	}
	i := l.rnd.IntN(len(l.waiting))
	command := l.waiting[i]
	l.waiting = slices.Delete(l.waiting, i, i+1)
	return command
}

func (l *lateCommands) runSome() {
	for command := l.take(); command != nil; command = l.take() {
		command()
	}
}

func (l *lateCommands) runAll() {
	for _, command := range l.waiting {
		command()
		l.w.check()
	}
	l.waiting = nil
}

func (l *lateCommands) log() Log { return &lateLog{Log: l.w.log, late: l} }

func (l *lateCommands) archive() archive.Archive {
	one := &lateArchive{Archive: l.w.archive(), late: l}
	if l.w.piped != nil {
		return &latePipelined{one}
	}
	return one
}

type lateLog struct {
	Log
	late *lateCommands
}

func (l *lateLog) Seal(ctx context.Context, w evtid.ID) error {
	err := l.Log.Seal(ctx, w)
	l.late.add(err, func() { _ = l.Log.Seal(quiet, w) })
	return err
}

func (l *lateLog) TrimThrough(ctx context.Context, through evtid.ID) (redislog.TrimResult, error) {
	res, err := l.Log.TrimThrough(ctx, through)
	l.late.add(err, func() { _, _ = l.Log.TrimThrough(quiet, through) })
	return res, err
}

type lateArchive struct {
	archive.Archive
	late *lateCommands
}

func (l *lateArchive) Fold(ctx context.Context, stream evtlog.StreamName, prev evtid.ID, records []evtlog.Record) (evtid.ID, error) {
	w, err := l.Archive.Fold(ctx, stream, prev, records)
	kept := slices.Clone(records)
	l.late.add(err, func() { _, _ = l.Archive.Fold(quiet, stream, prev, kept) })
	return w, err
}

// latePipelined is a lateArchive of one that takes several folds at a time.
type latePipelined struct{ *lateArchive }

func (l *latePipelined) FoldsInFlight() int { return l.late.w.piped.FoldsInFlight() }

func (l *latePipelined) FoldBehind(ctx context.Context, stream evtlog.StreamName, prev evtid.ID, records []evtlog.Record) (evtid.ID, error) {
	w, err := l.late.w.piped.FoldBehind(ctx, stream, prev, records)
	kept := slices.Clone(records)
	l.late.add(err, func() { _, _ = l.Archive.Fold(quiet, stream, prev, kept) })
	return w, err
}
