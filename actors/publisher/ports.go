package publisher

import (
	"context"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// stream is what the pump needs of a stream in Redis.
type stream interface {
	// newWriter dials a connection for appends.
	newWriter(ctx context.Context) (writer, error)
	// Last returns the stream's last-generated-id, zero without a stream.
	Last(ctx context.Context) (evtid.ID, error)
	// Lookup reads an id and the top in one step, on a fresh connection.
	Lookup(ctx context.Context, id evtid.ID) (redislog.Lookup, error)
	// Info tells the oldest live entry.
	Info(ctx context.Context) (redislog.StreamInfo, error)
}

// writer is redislog.Writer: commands are encoded, flushed together, and
// answered in order.
type writer interface {
	Append(id evtid.ID, fields []evtlog.Field)
	Publish(payload []byte)
	Wait(replicas int, timeout time.Duration)
	Flush() error
	Await(d time.Duration) bool
	ReceiveAppend(id evtid.ID) error
	ReceiveInt() (int64, error)
	Close() error
}

// redisStream is a *redislog.Log as a stream.
type redisStream struct{ *redislog.Log }

func (s redisStream) newWriter(ctx context.Context) (writer, error) {
	w, err := s.NewWriter(ctx)
	if err != nil {
		return nil, err
	}
	return w, nil
}
