package archiver

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

const (
	// maxRepeats is how often one fold is repeated at once.
	maxRepeats = 1
	// maxMoves is how often one round starts over because somebody else folded.
	maxMoves = 3
)

// errMoved ends a run whose watermark was moved by somebody else.
var errMoved = errors.New("watermark moved")

// foldTo folds (W, target], at most roundRecords of it, and counts what it
// folded. left is true when it stopped short of the target although it could
// have gone on. W is right also after an error.
func (a *Archiver) foldTo(ctx context.Context, target evtid.ID) (folded int64, left bool, err error) {
	for moves := 0; a.w.Less(target); {
		n, err := a.run(ctx, target)
		folded += n
		if err == nil {
			return folded, n > 0 && a.w.Less(target), nil
		}
		if !errors.Is(err, errMoved) {
			return folded, false, err
		}
		a.count(func(s *Stats) { s.Conflicts++ })
		if moves++; moves > maxMoves {
			a.cfg.Logger.Warn("another archiver is at work", "stream", a.stream.String(), "watermark", a.w.String())
			return folded, false, nil
		}
	}
	return folded, false, nil
}

// run reads pages and folds them, one behind the other. Reading is one page
// ahead.
func (a *Archiver) run(ctx context.Context, target evtid.ID) (folded int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	pages := make(chan page, 1)
	go a.read(ctx, a.w, target, pages)
	defer func() {
		cancel()
		for range pages {
			// Until the reader has ended.
		}
	}()
	for p := range pages {
		if p.panicked != nil {
			panic(p.panicked)
		}
		// Before a foreign entry there may be records.
		for chunk := range chunks(p.records, maxBytes) {
			if err := a.foldChunk(ctx, chunk); err != nil {
				return folded, err
			}
			folded += int64(len(chunk))
		}
		if p.err != nil {
			return folded, p.err
		}
	}
	return folded, nil
}

type page struct {
	records []evtlog.Record
	err     error
	// panicked is a panic of the reader; it goes on in the goroutine that the
	// supervisor watches.
	panicked any
}

// read sends the records of (after, to] in pages, at most roundRecords in all,
// and closes pages. A short page is the last: what is appended behind it belongs
// to the next round.
func (a *Archiver) read(ctx context.Context, after, to evtid.ID, pages chan<- page) {
	defer close(pages)
	defer func() {
		if v := recover(); v != nil {
			pages <- page{panicked: fmt.Sprintf("%v\n%s", v, debug.Stack())}
		}
	}()
	for left := roundRecords; left > 0 && after.Less(to); {
		asked := a.pageCount
		records, _, err := a.log.Page(ctx, after, to, asked)
		select {
		case pages <- page{records: records, err: err}:
		case <-ctx.Done():
			return
		}
		a.pageCount = nextCount(asked, records)
		if err != nil || len(records) < asked {
			return
		}
		left -= len(records)
		after = records[len(records)-1].ID
	}
}

// foldChunk folds one chunk and settles what comes of it. W is moved on.
func (a *Archiver) foldChunk(ctx context.Context, chunk []evtlog.Record) error {
	prev, last := a.w, chunk[len(chunk)-1].ID
	began := time.Now()
	for try := 0; ; try++ {
		w, err := a.arch.Fold(ctx, a.stream, prev, chunk)
		if err != nil || w != last {
			switch outcome, serr := a.settle(ctx, prev, last, err); {
			case serr != nil:
				return serr
			case outcome == moved:
				return errMoved
			case outcome == again && try < maxRepeats:
				continue
			case outcome != done:
				return a.archiveError("fold", err)
			}
		}
		a.w = last
		a.folded(prev, last, len(chunk), time.Since(began))
		return nil
	}
}

// settle reads the watermark after a fold that did not answer well, and decides.
func (a *Archiver) settle(ctx context.Context, prev, last evtid.ID, err error) (outcome, error) {
	if werr := a.reread(ctx); werr != nil {
		return refused, errors.Join(werr, err)
	}
	return settle(prev, last, a.w, err), nil
}

// reread makes a.w the archive's watermark again. It never goes back: from a
// lower one a fold would leave a gap.
func (a *Archiver) reread(ctx context.Context) error {
	w, err := a.arch.Watermark(ctx, a.stream)
	switch {
	case err != nil:
		return a.archiveError("watermark", err)
	case w.Less(a.w):
		return &SetBackError{Stream: a.stream, Watermark: w, Floor: a.w}
	}
	a.w = w
	return nil
}

func (a *Archiver) folded(prev, w evtid.ID, n int, took time.Duration) {
	a.cfg.Observer.Emit(evtlog.Folded{Stream: a.stream, After: prev, To: w, Records: n, Took: took})
	a.count(func(s *Stats) {
		s.Watermark = w
		s.Folds++
		s.FoldedRecords += int64(n)
		s.LastFold = a.cfg.Now()
	})
}

func (a *Archiver) archiveError(op string, err error) error {
	if err == nil {
		err = errors.New("the archive answered with another watermark than that of the fold")
	}
	return &ArchiveError{Stream: a.stream, Op: op, Err: err}
}
