package runtime

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/publisher"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/redislog"
)

// Log is the handle on one declared stream: append to it, read it back, trim
// it. It is safe for concurrent use. After the runtime has stopped every method
// that asks something answers evtlog.ErrStopped. A stream that is declared ReadOnly
// can be read; what would write it or trim it answers ErrReadOnlyStream, and sends
// nothing.
type Log struct {
	name    evtlog.StreamName
	redis   *redislog.Log
	archive archive.Archive
	reader  *archive.Reader
	// writer is nil when the stream is declared ReadOnly.
	writer *publisher.Publisher
	life   life
	// sweep is one pass of the stream's retention or archiver, nil when it has
	// neither.
	sweep func(ctx context.Context) error
}

// writable refuses what only the writer of the stream can do.
func (l *Log) writable(what string) error {
	if l.writer != nil {
		return nil
	}
	return fmt.Errorf("runtime: %s: %w: append in the process that writes %s, or declare it there without ReadOnly", what, ErrReadOnlyStream, l.name)
}

// saying names an operation for errors.
func (l *Log) saying(verb string) string { return verb + " " + l.name.String() }

// Name returns the stream's name.
func (l *Log) Name() evtlog.StreamName { return l.name }

// Append appends one record and returns its id, the receipt. The fields keep
// their order; none may be called "id".
//
// A nil error means committed, and so does an *evtlog.NotReplicatedError, which
// only Stream.Replicas asks for: do not append the record again. An
// *evtlog.UncertainError means that the outcome is not known yet: settle it with
// Resolve. Any other error means that nothing was written: *evtlog.RejectedError,
// *evtlog.NonMonotonicError, *evtlog.FieldError, *evtlog.TooLargeError,
// evtlog.ErrOverloaded, evtlog.ErrStopped, ErrReadOnlyStream.
//
// evtlog.ErrOverloaded means that there was no room in the writer's queue before
// ctx ended, or, as *publisher.OverloadedError and at once, that as many callers
// wait for room as may. Slow down, or append several records with one
// AppendBatch.
func (l *Log) Append(ctx context.Context, fields ...evtlog.Field) (evtid.ID, error) {
	if err := l.writable("append"); err != nil {
		return evtid.ID{}, err
	}
	return l.writer.Append(ctx, fields...)
}

// AppendBatch appends records in their order, in as few round trips as it can.
// It is not atomic: each record has its own receipt, in the order given, and
// the error is non-nil when any of them was not committed. A record that Append
// would refuse, and a batch of more than 64 MiB (*evtlog.TooLargeError), refuse
// the whole of it before anything is sent: there are no receipts then.
func (l *Log) AppendBatch(ctx context.Context, records [][]evtlog.Field) ([]publisher.Receipt, error) {
	if err := l.writable("append"); err != nil {
		return nil, err
	}
	return l.writer.AppendBatch(ctx, records)
}

// Announce appends a record with the fields event, job and then fields, and
// publishes the same on the queue's channel once it is committed, together with
// its id ("evt") and the id before it ("prev"). The receipt does not wait for
// the publication, which is at-most-once. job is a branded id of any kind.
// Errors are those of Append.
func (l *Log) Announce(ctx context.Context, event, job string, fields ...evtlog.Field) (evtid.ID, error) {
	if err := l.writable("announce"); err != nil {
		return evtid.ID{}, err
	}
	return l.writer.Announce(ctx, event, job, fields...)
}

// Resolve settles an uncertain append: nil means committed, a
// *evtlog.RejectedError that it never will be, an *evtlog.UncertainError that
// it is still not known when ctx ends. The zero ID, which names no append, is an
// *evtid.ParseError.
func (l *Log) Resolve(ctx context.Context, id evtid.ID) error {
	if id.IsZero() {
		return fmt.Errorf("runtime: %s: %w", l.saying("resolve"), &evtid.ParseError{Reason: "the zero id names no append: give the ID of the *evtlog.UncertainError", Err: evtid.ErrMalformed})
	}
	if err := l.writable("resolve"); err != nil {
		return err
	}
	return l.life.do(l.saying("resolve"), func() error { return l.writer.Resolve(ctx, id) })
}

// Read returns the records of w, from the archive and the live stream as one.
// It implements evtlog.Reader.
func (l *Log) Read(ctx context.Context, w evtlog.Window) iter.Seq2[evtlog.Record, error] {
	return sequence(l.life, l.saying("read"), l.reader.Read(ctx, w))
}

// Window reads what was appended between two instants, both included, to the
// millisecond. See evtlog.Between for its errors, which the sequence yields.
func (l *Log) Window(ctx context.Context, from, to time.Time) iter.Seq2[evtlog.Record, error] {
	return l.readOrFail(ctx, func() (evtlog.Window, error) { return evtlog.Between(from, to) })
}

// Since reads what was appended at or after an instant, up to the newest record
// at the moment the read begins.
func (l *Log) Since(ctx context.Context, from time.Time) iter.Seq2[evtlog.Record, error] {
	return l.readOrFail(ctx, func() (evtlog.Window, error) { return evtlog.Since(from) })
}

func (l *Log) readOrFail(ctx context.Context, window func() (evtlog.Window, error)) iter.Seq2[evtlog.Record, error] {
	return func(yield func(evtlog.Record, error) bool) {
		w, err := window()
		if err != nil {
			yield(evtlog.Record{}, err)
			return
		}
		l.Read(ctx, w)(yield)
	}
}

// Sweep applies the stream's retention now: what its actor does on each tick.
// With an archive it folds everything first, and then trims.
func (l *Log) Sweep(ctx context.Context) error {
	if err := l.writable("sweep"); err != nil {
		return err
	}
	return l.life.do(l.saying("sweep"), func() error {
		if l.sweep == nil {
			return nil
		}
		return l.sweep(ctx)
	})
}

// Watermark returns the id of the newest archived record, the zero ID when
// nothing was archived or the stream has no archive.
func (l *Log) Watermark(ctx context.Context) (w evtid.ID, err error) {
	err = l.life.do(l.saying("watermark of"), func() (err error) {
		if l.archive != nil {
			w, err = l.archive.Watermark(ctx, l.name)
		}
		return err
	})
	return w, err
}

// Info returns length, ends and groups of the live stream.
func (l *Log) Info(ctx context.Context) (info redislog.StreamInfo, err error) {
	err = l.life.do(l.saying("info of"), func() (err error) {
		info, err = l.redis.Info(ctx)
		return err
	})
	return info, err
}

// Stats returns the writer's counters, all zero for a ReadOnly stream.
func (l *Log) Stats() publisher.Stats {
	if l.writer == nil {
		return publisher.Stats{}
	}
	return l.writer.Stats()
}

func nameOf(s keyspace.Stream) evtlog.StreamName {
	return evtlog.StreamName{Queue: s.Queue(), Name: s.Name()}
}
