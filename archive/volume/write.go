package volume

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
)

// maxGroupBytes bounds what one transaction takes from the queue.
const maxGroupBytes = 8 << 20

// request is a fold or a commit on its way to the writer.
type request struct {
	stream evtlog.StreamName
	// data are the canonical bytes. They belong to the writer from the moment it
	// takes the request.
	data *[]byte
	view commitView
	// base is what a Commit starts from; nil for a Fold.
	base *Head

	res  Result
	err  error
	done chan struct{}
}

// buffers holds the memory of encoded commits between folds.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// maxPooled is the largest buffer worth keeping.
const maxPooled = 4 << 20

func freeBuffer(b *[]byte) {
	if cap(*b) <= maxPooled {
		buffers.Put(b)
	}
}

// Fold implements archive.Archive. Folds of any streams that arrive while a
// transaction is being written share the next one and its fsync.
//
// Besides the errors that archive.Archive names: ErrFull (nothing was written),
// ErrFailed (the outcome is open until the store is opened anew),
// evtlog.ErrStopped (nothing was done), *CorruptError (nothing was done). When
// the context ends the outcome is open.
func (s *Store) Fold(ctx context.Context, stream evtlog.StreamName, prev evtid.ID, records []evtlog.Record) (evtid.ID, error) {
	res, err := s.submit(ctx, stream, prev, nil, records)
	if err != nil {
		return evtid.ID{}, err
	}
	if res.Verdict == Conflict {
		return evtid.ID{}, &archive.ConflictError{Stream: stream, Prev: prev, Watermark: res.Head.Watermark}
	}
	return res.Watermark, nil
}

// Commit appends records when the volume's head is still base, as Begin
// returned it, and returns the new head. Another head is a *HeadConflictError
// and nothing changed. The other errors are those of Fold; after one that
// leaves the outcome open, Begin tells it.
func (s *Store) Commit(ctx context.Context, base Head, records []evtlog.Record) (Head, error) {
	res, err := s.submit(ctx, base.Stream, base.Watermark, &base, records)
	if err != nil {
		return Head{Stream: base.Stream}, err
	}
	if res.Verdict == Conflict {
		return res.Head, &HeadConflictError{Base: base, Head: res.Head}
	}
	return res.Head, nil
}

// submit has the writer append records and waits for what becomes of them.
func (s *Store) submit(ctx context.Context, stream evtlog.StreamName, prev evtid.ID, base *Head, records []evtlog.Record) (Result, error) {
	if err := checkName(stream); err != nil {
		return Result{}, fmt.Errorf("volume: %w: %w", archive.ErrRejected, err)
	}
	if err := s.ready(ctx, stream); err != nil {
		return Result{}, err
	}
	buf := buffers.Get().(*[]byte)
	data, err := EncodeCommit((*buf)[:0], stream, prev, records)
	*buf = data
	if err != nil {
		freeBuffer(buf)
		return Result{}, err
	}
	r := &request{stream: stream, data: buf, base: base, done: make(chan struct{})}
	r.view, _ = parseCommitHeader(data)
	if !s.enqueue(r) {
		freeBuffer(buf)
		return Result{}, s.stopped()
	}
	return s.await(ctx, r)
}

// await waits for the writer's answer. When the context ends first, a request
// that the writer has not taken is taken back.
func (s *Store) await(ctx context.Context, r *request) (Result, error) {
	select {
	case <-r.done:
		return r.res, r.err
	case <-ctx.Done():
	}
	if s.withdraw(r) {
		freeBuffer(r.data)
		return Result{}, fmt.Errorf("volume: fold into %s: %w: nothing was written", r.stream, ctx.Err())
	}
	return Result{}, fmt.Errorf("volume: fold into %s: %w while it was being written: ask Watermark, or fold the same records again", r.stream, ctx.Err())
}

func (s *Store) enqueue(r *request) bool {
	s.mu.Lock()
	open := !s.closed
	if open {
		s.queue = append(s.queue, r)
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return open
}

// withdraw takes a request back that the writer has not taken.
func (s *Store) withdraw(r *request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.queue, r)
	if i < 0 {
		return false
	}
	s.queue = slices.Delete(s.queue, i, i+1)
	return true
}

// take returns the requests of the next transaction, in order.
func (s *Store) take() []*request {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, size := 0, 0
	for n < len(s.queue) && (n == 0 || size+len(*s.queue[n].data) <= maxGroupBytes) {
		size += len(*s.queue[n].data)
		n++
	}
	group := slices.Clone(s.queue[:n])
	s.queue = slices.Delete(s.queue, 0, n)
	return group
}

// writeLoop is the one goroutine that writes what Fold and Commit ask for.
func (s *Store) writeLoop() {
	defer close(s.done)
	for {
		select {
		case <-s.wake:
		case <-s.quit:
			for group := s.take(); len(group) > 0; group = s.take() {
				finish(group, s.stopped())
			}
			return
		}
		for group := s.take(); len(group) > 0; group = s.take() {
			s.write(group)
		}
	}
}

// finish answers the requests. err, when not nil, is the answer to all.
func finish(group []*request, err error) {
	for _, r := range group {
		if err != nil {
			r.res, r.err = Result{}, err
		}
		freeBuffer(r.data)
		close(r.done)
	}
}

// write writes a group in one transaction and answers it.
func (s *Store) write(group []*request) {
	err := s.update(func(tx *bbolt.Tx) error {
		wrote := false
		for _, r := range group {
			if err := s.attempt(tx, r); err != nil {
				return err
			}
			wrote = wrote || r.err == nil && r.res.Verdict == Applied
		}
		if !wrote {
			return errNothing
		}
		return nil
	})
	var caught *panicError
	hurt := errors.As(err, &caught) || errors.Is(err, archive.ErrCorrupt) && !errors.Is(err, ErrFailed)
	switch {
	case errors.Is(err, errNothing):
		err = nil
	case hurt && len(group) > 1:
		// One of them runs into damage: let the others live.
		for _, r := range group {
			s.write([]*request{r})
		}
		return
	case hurt:
		err = s.setAside(group[0].stream, err)
	}
	finish(group, err)
}

// errNothing undoes a transaction that has nothing to write.
var errNothing = errors.New("nothing to write")

// attempt applies one request inside a transaction. After an error the
// transaction must be undone.
func (s *Store) attempt(tx *bbolt.Tx, r *request) (err error) {
	r.res = Result{}
	if r.err = s.sound(r.stream); r.err != nil {
		return nil
	}
	if r.base != nil {
		_, last, err := openLast(tx, r.stream)
		if err != nil {
			r.err = s.setAside(r.stream, err)
			return nil
		}
		if h := last.head(r.stream); h.LSN != r.base.LSN || h.Chain != r.base.Chain {
			r.res = Result{Verdict: Conflict, Head: h}
			return nil
		}
	}
	r.res, err = apply(tx, r.stream, Position{}, func(*vol) (commitView, string) { return r.view, "" })
	if err == nil && r.res.Verdict == Corrupt {
		r.err = s.setAside(r.stream, r.res.Err)
	}
	return err
}

// Update calls fn with a write transaction and commits it with one fsync; an
// error of fn undoes it and is returned. fn must not call the Store, nor end
// the transaction. A state machine applies its commits in it, with Apply and
// Adopt. A panic in fn is a *CorruptError. Errors of the commit itself are
// ErrFull, after which nothing has changed, and ErrFailed.
func (s *Store) Update(fn func(tx *bbolt.Tx) error) error {
	err := s.update(fn)
	var caught *panicError
	if errors.As(err, &caught) {
		return &CorruptError{Path: s.path, Reason: caught.Error()}
	}
	return err
}

func (s *Store) update(fn func(tx *bbolt.Tx) error) error {
	if err := s.usable(); err != nil {
		return err
	}
	tx, err := s.db.Begin(true)
	if err != nil {
		return s.beginError(err)
	}
	id := tx.ID()
	if err := guard(func() error { return fn(tx) }); err != nil {
		if rollback := guard(tx.Rollback); rollback != nil {
			s.stuck.Store(true)
			return s.fail(errors.Join(err, rollback))
		}
		return err
	}
	if err := guard(tx.Commit); err != nil {
		return s.commitError(tx, id, err)
	}
	s.changed.fire()
	return nil
}

// commitError says what a failed commit has left behind.
func (s *Store) commitError(tx *bbolt.Tx, id int, err error) error {
	var caught *panicError
	if errors.As(err, &caught) {
		if guard(tx.Rollback) != nil {
			s.stuck.Store(true)
		}
		return s.fail(&CorruptError{Path: s.path, Reason: caught.Error()})
	}
	full := errors.Is(err, berrors.ErrMaxSizeReached) || isFull(err)
	if decideFate(full, s.visible(id)) == fateFull {
		return &FullError{Path: s.path, Err: err}
	}
	return s.fail(err)
}

// visible reports whether transaction id can be read, or nothing can.
func (s *Store) visible(id int) bool {
	tx, err := s.db.Begin(false)
	if err != nil {
		return true
	}
	defer func() { _ = tx.Rollback() }()
	return tx.ID() >= id
}

// hasSuffix reports whether an error ends in the text of another.
func hasSuffix(err, end error) bool { return strings.HasSuffix(err.Error(), end.Error()) }
