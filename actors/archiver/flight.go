package archiver

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/internal/trimline"
	"github.com/evtlog/evtlog/archive"
)

// maxFlights bounds how many folds of a stream are on their way, whatever the
// archive takes, and so what a fold keeps in memory: each has at most maxBytes,
// unless a single record is larger.
const maxFlights = 8

// flight is one chunk on its way into the archive. Until ended is closed it
// belongs to its goroutine.
type flight struct {
	answer
	records  []evtlog.Record
	repeats  int
	began    time.Time
	took     time.Duration
	ended    chan struct{}
	panicked any
}

// window is the folds of one run that are on their way, the oldest first. It
// belongs to the holder of turn; the archiver's w is the end of what was
// confirmed, without a gap.
type window struct {
	a   *Archiver
	ctx context.Context
	// behind is nil for an archive that takes one fold at a time.
	behind  archive.Pipelined
	size    int
	flights []*flight
	// folded counts the records confirmed.
	folded int64
}

func (a *Archiver) newWindow(ctx context.Context) *window {
	x := &window{a: a, ctx: ctx, size: 1}
	if p, ok := a.arch.(archive.Pipelined); ok {
		x.behind, x.size = p, max(1, min(p.FoldsInFlight(), maxFlights))
	}
	return x
}

// next returns the next page, and takes answers while it waits for it. open is
// false behind the last one.
func (x *window) next(pages <-chan page) (p page, open bool, err error) {
	for {
		var oldest <-chan struct{}
		if len(x.flights) > 0 {
			oldest = x.flights[0].ended
		}
		select {
		case p, open = <-pages:
			return p, open, nil
		case <-oldest:
			if err := x.take(); err != nil {
				return page{}, false, err
			}
		}
	}
}

// foldPage sends the records of a page on their way.
func (x *window) foldPage(records []evtlog.Record) error {
	for chunk := range chunks(records, maxBytes) {
		if err := x.fold(chunk); err != nil {
			return err
		}
	}
	return nil
}

// fold sends a chunk on its way, as soon as there is room.
func (x *window) fold(chunk []evtlog.Record) error {
	for len(x.flights) >= x.size {
		if err := x.take(); err != nil {
			return err
		}
	}
	prev := x.a.w
	if n := len(x.flights); n > 0 {
		prev = x.flights[n-1].last
	}
	f := &flight{answer: answer{prev: prev, last: chunk[len(chunk)-1].ID}, records: chunk, began: time.Now()}
	x.send(f, len(x.flights) > 0)
	x.flights = append(x.flights, f)
	return nil
}

// finish waits until all have ended well.
func (x *window) finish() error {
	for len(x.flights) > 0 {
		if err := x.take(); err != nil {
			return err
		}
	}
	return nil
}

func (x *window) send(f *flight, follows bool) {
	fold := x.a.arch.Fold
	if follows {
		fold = x.behind.FoldBehind
	}
	f.ended = make(chan struct{})
	go func() {
		defer close(f.ended)
		defer func() {
			f.took = time.Since(f.began)
			if v := recover(); v != nil {
				f.panicked = fmt.Sprintf("%v\n%s", v, debug.Stack())
			}
		}()
		f.w, f.err = fold(x.ctx, x.a.stream, f.prev, f.records)
	}()
}

// take waits for the oldest and takes its answer.
func (x *window) take() error {
	f := x.flights[0]
	if f.wait(); !f.well() {
		return x.settle()
	}
	x.confirm(f)
	return nil
}

// wait returns when the flight has ended. A panic goes on in the goroutine that
// the supervisor watches.
func (f *flight) wait() {
	<-f.ended
	if f.panicked != nil {
		panic(f.panicked)
	}
}

// confirm takes note of the oldest, whose records the archive has.
func (x *window) confirm(f *flight) {
	x.a.w = f.last
	x.folded += int64(len(f.records))
	x.flights = x.flights[1:]
	if !f.well() {
		// Somebody else's fold may end there as well, of more records.
		x.a.ledger = ledger{}
	}
	x.a.folded(f.prev, f.last, len(f.records), f.took)
}

// settle decides what became of the folds on their way, of which the oldest did
// not answer well, once all of them have ended: not before is the watermark the
// whole truth. What may be repeated is on its way again afterwards.
func (x *window) settle() error {
	answers := make([]answer, len(x.flights))
	for i, f := range x.flights {
		f.wait()
		answers[i] = f.answer
	}
	w, err := x.a.watermark(x.ctx, trimline.Newer(x.a.w, newestWell(answers)))
	if err != nil {
		return errors.Join(err, x.flights[0].err)
	}
	confirmed, next := settle(answers, w)
	for range confirmed {
		x.confirm(x.flights[0])
	}
	x.a.w = w
	switch {
	case next == done:
		return nil
	case next == moved:
		return errMoved
	case next == again && x.flights[0].repeats < maxRepeats:
		x.again()
		return nil
	}
	return x.a.archiveError("fold", x.flights[0].err)
}

// again sends all of them again. Only the oldest has failed by itself.
func (x *window) again() {
	x.flights[0].repeats++
	for i, f := range x.flights {
		x.send(f, i > 0)
	}
}

// drain waits until the archive works on nothing any more.
func (x *window) drain() {
	for _, f := range x.flights {
		<-f.ended
	}
}
