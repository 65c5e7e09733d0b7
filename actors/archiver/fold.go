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

// run reads pages and folds them, with as many folds on their way as the archive
// takes. Reading is one page ahead.
func (a *Archiver) run(ctx context.Context, target evtid.ID) (folded int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	pages := make(chan page, 1)
	go a.read(ctx, a.w, target, pages)
	x := a.newWindow(ctx)
	defer func() {
		cancel()
		x.drain()
		for range pages {
			// Until the reader has ended.
		}
	}()
	for {
		p, open, err := x.next(pages)
		switch {
		case err != nil:
			return x.folded, err
		case !open:
			err := x.finish()
			return x.folded, err
		case p.panicked != nil:
			panic(p.panicked)
		}
		// Before a foreign entry there may be records.
		if err := x.foldPage(p.records); err != nil {
			return x.folded, err
		}
		if p.err != nil {
			return x.folded, errors.Join(x.finish(), p.err)
		}
	}
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

// reread makes a.w the archive's watermark again.
func (a *Archiver) reread(ctx context.Context) error {
	w, err := a.watermark(ctx, a.w)
	if err == nil {
		a.w = w
	}
	return err
}

// watermark reads the archive's watermark, which is known to have been at least
// at floor. It never goes back: from a lower one a fold would leave a gap.
func (a *Archiver) watermark(ctx context.Context, floor evtid.ID) (evtid.ID, error) {
	w, err := a.arch.Watermark(ctx, a.stream)
	switch {
	case err != nil:
		return evtid.ID{}, a.archiveError("watermark", err)
	case w.Less(floor):
		return evtid.ID{}, &SetBackError{Stream: a.stream, Watermark: w, Floor: floor}
	}
	return w, nil
}

func (a *Archiver) folded(prev, w evtid.ID, n int, took time.Duration) {
	a.ledger.folded(prev, w, n)
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
