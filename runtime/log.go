package runtime

import (
	"context"
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
// it. It is safe for concurrent use and stays valid until the runtime stops.
type Log struct {
	name    evtlog.StreamName
	redis   *redislog.Log
	archive archive.Archive
	reader  *archive.Reader
	writer  *publisher.Publisher
	// sweep is one pass of the stream's retention or archiver, nil when it has
	// neither.
	sweep func(ctx context.Context) error
}

// Name returns the stream's name.
func (l *Log) Name() evtlog.StreamName { return l.name }

// Append appends one record and returns its id, the receipt. The fields keep
// their order; none may be called "id".
//
// A nil error means committed, and so does an *evtlog.NotReplicatedError, which
// only Stream.Replicas asks for: do not append the record again. An
// *evtlog.UncertainError means that the outcome is not known yet: settle it with
// Resolve. Any other error means that nothing was written: *evtlog.RejectedError, *evtlog.NonMonotonicError,
// *evtlog.FieldError, *evtlog.TooLargeError, evtlog.ErrOverloaded when there
// was no room before ctx ended, evtlog.ErrStopped.
func (l *Log) Append(ctx context.Context, fields ...evtlog.Field) (evtid.ID, error) {
	return l.writer.Append(ctx, fields...)
}

// AppendBatch appends records in their order, in as few round trips as it can.
// It is not atomic: each record has its own receipt, in the order given, and
// the error is non-nil when any of them was not committed. A record that Append
// would refuse, and a batch of more than 64 MiB (*evtlog.TooLargeError), refuse
// the whole of it before anything is sent: there are no receipts then.
func (l *Log) AppendBatch(ctx context.Context, records [][]evtlog.Field) ([]publisher.Receipt, error) {
	return l.writer.AppendBatch(ctx, records)
}

// Announce appends a record with the fields event, job and then fields, and
// publishes the same on the queue's channel once it is committed, together with
// its id ("evt") and the id before it ("prev"). The receipt does not wait for
// the publication, which is at-most-once. job is a branded id of any kind.
// Errors are those of Append.
func (l *Log) Announce(ctx context.Context, event, job string, fields ...evtlog.Field) (evtid.ID, error) {
	return l.writer.Announce(ctx, event, job, fields...)
}

// Resolve settles an uncertain append: nil means committed, a
// *evtlog.RejectedError that it never will be, an *evtlog.UncertainError that
// it is still not known when ctx ends.
func (l *Log) Resolve(ctx context.Context, id evtid.ID) error { return l.writer.Resolve(ctx, id) }

// Read returns the records of w, from the archive and the live stream as one.
// It implements evtlog.Reader.
func (l *Log) Read(ctx context.Context, w evtlog.Window) iter.Seq2[evtlog.Record, error] {
	return l.reader.Read(ctx, w)
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
		l.reader.Read(ctx, w)(yield)
	}
}

// Sweep applies the stream's retention now: what its actor does on each tick.
// With an archive it folds everything first, and then trims.
func (l *Log) Sweep(ctx context.Context) error {
	if l.sweep == nil {
		return nil
	}
	return l.sweep(ctx)
}

// Watermark returns the id of the newest archived record, the zero ID when
// nothing was archived or the stream has no archive.
func (l *Log) Watermark(ctx context.Context) (evtid.ID, error) {
	if l.archive == nil {
		return evtid.ID{}, nil
	}
	return l.archive.Watermark(ctx, l.name)
}

// Info returns length, ends and groups of the live stream.
func (l *Log) Info(ctx context.Context) (redislog.StreamInfo, error) { return l.redis.Info(ctx) }

// Stats returns the writer's counters.
func (l *Log) Stats() publisher.Stats { return l.writer.Stats() }

func nameOf(s keyspace.Stream) evtlog.StreamName {
	return evtlog.StreamName{Queue: s.Queue(), Name: s.Name()}
}
