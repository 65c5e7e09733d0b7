package volume

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
)

// Store is an open file of volumes. It implements archive.Archive. All methods
// are safe for concurrent use. After Close they return evtlog.ErrStopped.
type Store struct {
	path string
	opts Options
	id   [storeIDSize]byte
	db   *bbolt.DB
	// file is the one that db works on.
	file *os.File

	// changed tells those who wait for a watermark.
	changed broadcast
	// failed is set once, when the disk has failed.
	failed atomic.Pointer[FailedError]
	// stuck: bbolt could not undo a transaction and holds its locks for ever.
	stuck atomic.Bool

	mu sync.Mutex
	// queue holds the requests that the writer has not taken yet.
	queue  []*request
	closed bool
	// aside are the volumes in which damage was found.
	aside map[evtlog.StreamName]error

	// wake holds one token when the queue may have something.
	wake chan struct{}
	quit chan struct{}
	done chan struct{}
	// closing makes Close wait for the first one.
	closing sync.Once
	closeOf error
}

var _ archive.Archive = (*Store)(nil)

func newStore(path string, opts Options) *Store {
	return &Store{
		path: path, opts: opts, aside: make(map[evtlog.StreamName]error),
		wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
	}
}

// ID names the file for ever: 16 random bytes in hex, drawn when it was made.
func (s *Store) ID() string { return hex.EncodeToString(s.id[:]) }

// Path returns the path given to Open.
func (s *Store) Path() string { return s.path }

// Close waits for the write and the reads in hand, then closes the file. Folds
// that still wait are refused with evtlog.ErrStopped; nothing was done for
// them. It may be called again, and answers the same.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		close(s.quit)
		<-s.done
		s.changed.fire()
		if s.stuck.Load() {
			// bbolt would wait for its own lock.
			s.closeOf = abandon(s.file)
			return
		}
		s.closeOf = guard(s.db.Close)
	})
	return s.closeOf
}

// ready says why nothing can be done with a volume, nil when it can.
func (s *Store) ready(ctx context.Context, stream evtlog.StreamName) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := checkName(stream); err != nil {
		return err
	}
	return s.usable()
}

func checkName(stream evtlog.StreamName) error {
	if _, err := keyspace.NewStream(stream.Queue, stream.Name); err != nil {
		return fmt.Errorf("volume: no such stream: %w", err)
	}
	return nil
}

// usable says why nothing can be done with the file, nil when it can.
func (s *Store) usable() error {
	if f := s.failed.Load(); f != nil {
		return f
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.stopped()
	}
	return nil
}

func (s *Store) stopped() error {
	return fmt.Errorf("volume: %s: %w: open it anew", s.path, evtlog.ErrStopped)
}

// fail ends the service after a failure of the disk.
func (s *Store) fail(cause error) error {
	f := &FailedError{Path: s.path, Err: cause}
	if s.failed.CompareAndSwap(nil, f) {
		s.opts.Logger.Error("archive file has failed", "path", s.path, "err", cause)
		s.changed.fire()
	}
	return s.failed.Load()
}

// setAside stops the service of a volume in which damage was found, and returns
// the error as it is to be shown. An error that is no damage passes through.
func (s *Store) setAside(stream evtlog.StreamName, err error) error {
	var caught *panicError
	if errors.As(err, &caught) {
		s.opts.Logger.Error("reading an archive panicked", "stream", stream, "panic", caught.value, "stack", string(caught.stack))
		err = caught.corrupt(stream)
	}
	if !errors.Is(err, archive.ErrCorrupt) {
		return err
	}
	s.opts.Logger.Error("archive is corrupt", "path", s.path, "stream", stream, "err", err)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.aside[stream]; !known {
		s.aside[stream] = err
	}
	return err
}

// sound returns the damage known of a volume.
func (s *Store) sound(stream evtlog.StreamName) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.aside[stream]
}

// View calls fn with a read transaction. fn must be short and must not call the
// Store: an open read keeps the file from growing. A panic in fn, which is what
// a damaged file leads to, is a *CorruptError.
func (s *Store) View(fn func(tx *bbolt.Tx) error) error {
	err := s.view(fn)
	var caught *panicError
	if errors.As(err, &caught) {
		return &CorruptError{Path: s.path, Reason: caught.Error()}
	}
	return err
}

func (s *Store) view(fn func(tx *bbolt.Tx) error) error {
	if err := s.usable(); err != nil {
		return err
	}
	tx, err := s.db.Begin(false)
	if err != nil {
		return s.beginError(err)
	}
	defer func() { _ = tx.Rollback() }()
	return guard(func() error { return fn(tx) })
}

// beginError says why bbolt gave no transaction.
func (s *Store) beginError(err error) error {
	if errors.Is(err, berrors.ErrDatabaseNotOpen) {
		return s.stopped()
	}
	return s.fail(err)
}

// viewVolume calls fn with a volume that is not set aside. Damage that fn finds
// sets it aside.
func (s *Store) viewVolume(stream evtlog.StreamName, fn func(v *vol, last row) error) error {
	if err := s.sound(stream); err != nil {
		return err
	}
	return s.viewRaw(stream, fn)
}

// viewRaw is viewVolume for a volume that may be set aside.
func (s *Store) viewRaw(stream evtlog.StreamName, fn func(v *vol, last row) error) error {
	err := s.view(func(tx *bbolt.Tx) error {
		v, err := openVol(tx, stream)
		if err != nil {
			return err
		}
		last, err := v.last()
		if err != nil {
			return err
		}
		return fn(v, last)
	})
	return s.setAside(stream, err)
}

// Begin returns the head of a stream's volume: what a Commit is based on. A
// volume that does not exist has a head with only Stream set.
func (s *Store) Begin(ctx context.Context, stream evtlog.StreamName) (h Head, err error) {
	if err := s.ready(ctx, stream); err != nil {
		return Head{Stream: stream}, err
	}
	err = s.viewVolume(stream, func(_ *vol, last row) error {
		h = last.head(stream)
		return nil
	})
	return h, err
}

// Watermark implements archive.Archive.
func (s *Store) Watermark(ctx context.Context, stream evtlog.StreamName) (evtid.ID, error) {
	h, err := s.Begin(ctx, stream)
	return h.Watermark, err
}

// Volumes returns the heads of all volumes, ordered by queue and name. The
// error joins a *CorruptError for each damaged one; the others are returned
// with it.
func (s *Store) Volumes(ctx context.Context) (heads []Head, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	err = s.View(func(tx *bbolt.Tx) (err error) {
		heads, err = Heads(tx)
		return err
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range heads {
		if known := s.aside[h.Stream]; known != nil {
			err = errors.Join(err, known)
		}
	}
	return heads, err
}

// broadcast wakes everyone who waits.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{}
}

// next returns a channel that is closed by the next fire.
func (b *broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *broadcast) fire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}
