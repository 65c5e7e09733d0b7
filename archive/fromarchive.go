package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evtlog/evtlog/evtid"
)

// patience is how long a read waits for the first archived record before it
// makes sure that there is something to wait for. The floor may come from
// another archive than the reader has, or from a later state than a copy of it
// was restored to; then the wait would never end.
const patience = 5 * time.Second

// errPatience is the cause with which an attempt is cut off after patience.
var errPatience = errors.New("the archive has given nothing for a while")

// archiveRead is one range of the archive being yielded, in either direction.
type archiveRead struct {
	*merge
	// rest is what remains of the range.
	rest Range
	// to is where the whole range ends, floor the watermark that the archive
	// reached as far as is known.
	to, floor evtid.ID
	// newest was yielded, last was yielded last; both zero at first.
	newest, last evtid.ID
	// gap ends the read once the rest was yielded.
	gap error
}

// emitArchive yields what the archive holds of span, up to the limit, from a
// state that has reached known. It returns the newest id yielded.
func (m *merge) emitArchive(span Range) (newest evtid.ID, err error) {
	r := &archiveRead{merge: m, rest: span, to: span.To, floor: m.known}
	return r.run()
}

func (r *archiveRead) run() (newest evtid.ID, err error) {
	for r.rest.After.Less(r.rest.To) {
		before := r.last
		err := r.attempt()
		switch {
		case err == nil && r.left == 0:
			return r.newest, nil
		case err == nil:
			return r.newest, cmp.Or(r.checkComplete(), r.gap)
		case !errors.Is(err, errPatience):
			return r.newest, err
		case r.last == before:
			if err := r.checkBehind(); err != nil {
				return r.newest, err
			}
		}
	}
	return r.newest, r.gap
}

// attempt reads the rest once. The error is errPatience when nothing came in
// time.
func (r *archiveRead) attempt() error {
	ctx, cancel := context.WithCancelCause(r.ctx)
	defer cancel(nil)
	timer := time.AfterFunc(patience, func() { cancel(errPatience) })
	defer timer.Stop()
	for rec, err := range r.arch.Read(ctx, r.stream, r.rest) {
		switch {
		case err != nil && errors.Is(context.Cause(ctx), errPatience):
			return errPatience
		case err != nil:
			return r.wrap("archive", r.position(), err)
		case r.rest.Reverse && r.last.IsZero() && !reached(rec.ID, r.floor, r.to):
			return r.missing(rec.ID)
		}
		timer.Stop()
		if err := r.emit(rec); err != nil {
			return err
		}
		r.advance(rec.ID)
		if r.left == 0 {
			return nil
		}
	}
	return nil
}

// advance takes the record id off the rest.
func (r *archiveRead) advance(id evtid.ID) {
	r.newest, r.last = later(r.newest, id), id
	if r.rest.Reverse {
		r.rest.To = id.Prev()
	} else {
		r.rest.After = id
	}
}

// position is how far the read has come.
func (r *archiveRead) position() evtid.ID {
	if r.rest.Reverse {
		return r.rest.To
	}
	return r.rest.After
}

// checkComplete makes sure that nothing is missing of a range that was read to
// its end.
func (r *archiveRead) checkComplete() error {
	if reached(r.newest, r.floor, r.to) {
		return nil
	}
	return r.missing(r.rest.After)
}

func (r *archiveRead) missing(after evtid.ID) error {
	return r.gapError(after, r.floor, "they were archived, but the archive does not give them; verify it")
}

// checkBehind makes sure that the archive as a whole has what one of its nodes
// has not given so far. When it has not, what it does have below the gap is
// still read.
func (r *archiveRead) checkBehind() error {
	w, err := r.watermark(r.ctx)
	if err != nil || !w.Less(r.rest.AtLeast) {
		return err
	}
	r.gap = r.gapError(later(r.rest.After, w), r.rest.AtLeast, fmt.Sprintf("the floor of the stream says that they were archived, but the watermark of this archive is %q: it is another archive, or an older copy", w))
	if r.rest.Reverse || !r.rest.After.Less(w) {
		return r.gap
	}
	r.rest.To, r.rest.AtLeast, r.to, r.floor = w, w, w, w
	return nil
}

func (m *merge) gapError(after, to evtid.ID, reason string) error {
	return &GapError{Stream: m.stream, After: after, To: to, Reason: reason}
}
