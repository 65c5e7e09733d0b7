package archive

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"sync"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

var _ evtlog.Reader = (*Reader)(nil)

// pageSize is how many records are asked of the live stream at once. A window
// with a smaller Limit asks for no more than that.
const pageSize = 1000

// Reader joins the archive and the live stream of one stream into one sequence
// in mint order, with no gap and no overlap, without a lock, while records are
// appended, folded and trimmed. Make one with NewReader and keep it: it
// remembers how far the archive reaches and so saves later reads a round trip.
// It is safe for concurrent use.
//
// A read gives exactly the records that the window held at one moment: that of
// the last live page of a forward read, of the first live page of a backward
// read. (When the live stream has nothing of the window to show, that of the
// archive's state.) Every read ends although appending and folding go on.
//
// When the archive is replaced by an older copy, make a new Reader: this one
// would wait for the watermark that it knows.
type Reader struct {
	stream evtlog.StreamName
	live   Live
	arch   Archive
	// mark is the highest watermark that any read has learned.
	mark highWater
	page int
}

// NewReader returns a reader of stream. live must not be nil.
//
// With a nil arch only the live stream is read. Such a read begins at the first
// record that is still there; when the floor says that older records of the
// window were archived elsewhere, or when records are trimmed while they are
// being read, the read ends with a *GapError that names the range.
func NewReader(stream evtlog.StreamName, live Live, arch Archive) *Reader {
	return &Reader{stream: stream, live: live, arch: arch, page: pageSize}
}

// Read implements evtlog.Reader. An open To is pinned to the newest record at
// the moment the sequence is ranged over.
//
// The errors that end a sequence: *evtlog.WindowError, before anything was
// read; an error of the live stream or of the archive, wrapped with the
// position that was reached, from where the caller may read on; *GapError; one
// that wraps the context's. A node of the archive that is behind is waited for
// until the context ends, as long as the archive as a whole has what is missing.
// Each attempt to range begins anew.
func (r *Reader) Read(ctx context.Context, w evtlog.Window) iter.Seq2[evtlog.Record, error] {
	return func(yield func(evtlog.Record, error) bool) {
		if err := r.read(ctx, w, yield); err != nil && !errors.Is(err, errBroken) {
			yield(evtlog.Record{}, err)
		}
	}
}

// errBroken: the caller broke out of the loop, so nothing may be yielded.
var errBroken = errors.New("range loop was left")

func (r *Reader) read(ctx context.Context, w evtlog.Window, yield func(evtlog.Record, error) bool) error {
	if err := w.Check(); err != nil {
		return err
	}
	to, err := r.pin(ctx, w.To)
	if err != nil || !w.After.Less(to) {
		return err
	}
	m := &merge{Reader: r, ctx: ctx, after: w.After, to: to, left: w.Limit, yield: yield, known: r.mark.load()}
	if m.left == 0 {
		m.left = math.MaxInt
	}
	switch {
	case w.Reverse:
		return m.backward()
	case r.arch == nil:
		return m.forwardLive()
	}
	return m.forward()
}

// pin returns the inclusive end of the window. When the live stream does not
// exist the archive may still hold its records, and it alone knows its end.
func (r *Reader) pin(ctx context.Context, to evtid.ID) (evtid.ID, error) {
	if !to.IsZero() {
		return to, nil
	}
	last, err := r.live.Last(ctx)
	if err != nil {
		return evtid.ID{}, fmt.Errorf("archive: read %s: newest id: %w", r.stream, err)
	}
	if last.IsZero() && r.arch != nil {
		if _, err := r.watermark(ctx); err != nil {
			return evtid.ID{}, err
		}
	}
	return later(last, r.mark.load()), nil
}

func (r *Reader) watermark(ctx context.Context) (evtid.ID, error) {
	w, err := r.arch.Watermark(ctx, r.stream)
	if err != nil {
		return evtid.ID{}, fmt.Errorf("archive: read %s: watermark: %w", r.stream, err)
	}
	r.mark.raise(w)
	return w, nil
}

// merge is one read under way.
type merge struct {
	*Reader
	ctx   context.Context
	yield func(evtlog.Record, error) bool
	// The window is after < id <= to; left counts down its limit.
	after, to evtid.ID
	left      int
	// known is a watermark that the archive has reached: the W in hand.
	known evtid.ID
}

// emit yields a record. It returns errBroken when the caller broke out.
func (m *merge) emit(rec evtlog.Record) error {
	if !m.yield(rec, nil) {
		return errBroken
	}
	m.left--
	return nil
}

// emitPage yields the records of a page, up to the limit.
func (m *merge) emitPage(page []evtlog.Record) error {
	for i := range page {
		if m.left == 0 {
			return nil
		}
		if err := m.emit(page[i]); err != nil {
			return err
		}
	}
	return nil
}

// learn remembers that the archive has reached w.
func (m *merge) learn(w evtid.ID) {
	m.known = later(m.known, w)
	m.Reader.mark.raise(w)
}

// ask completes a proof with the archive's watermark.
func (m *merge) ask(p *Proof) (err error) {
	p.Watermark, err = m.watermark(m.ctx)
	p.Asked = true
	return err
}

// pageLen is how many records the next page is asked for.
func (m *merge) pageLen() int { return min(m.page, m.left) }

// stopped returns the context's error once it has ended, with its cause.
func (m *merge) stopped(at evtid.ID) error {
	err := m.ctx.Err()
	if err == nil {
		return nil
	}
	if cause := context.Cause(m.ctx); !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return m.wrap("stopped", at, err)
}

func (m *merge) wrap(what string, at evtid.ID, err error) error {
	return fmt.Errorf("archive: read %s at %q: %s: %w", m.stream, at, what, err)
}

// highWater is an id that only rises.
type highWater struct {
	mu sync.Mutex
	id evtid.ID
}

func (h *highWater) load() evtid.ID {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.id
}

func (h *highWater) raise(id evtid.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.id = later(h.id, id)
}
