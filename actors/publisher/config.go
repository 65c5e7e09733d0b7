package publisher

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
)

// Defaults of Config.
const (
	DefaultMaxQueuedBytes = 64 << 20
	DefaultMaxBatch       = 256
	DefaultReplicaTimeout = time.Second
)

// RecordOverhead is what each record is charged beside its names and values, in
// bytes: the bookkeeping of the queue. FieldOverhead is charged for each field.
// CallerOverhead is what a caller takes that waits for room.
const (
	RecordOverhead = 512
	FieldOverhead  = 32
	CallerOverhead = 512
)

// callersShare of MaxQueuedBytes is for callers that wait, the rest for records.
const callersShare = 16

// Config configures a Publisher. Only Stream is required.
type Config struct {
	// Stream is the stream it writes.
	Stream keyspace.Stream
	// Node is the writer's number, 0..evtid.MaxNode. Two processes that append to
	// one stream must not share it; better, there is only one.
	Node int
	// MaxSkew is how far ids may be ahead of the clock. Zero means
	// evtid.DefaultMaxSkew, 1 minute.
	MaxSkew time.Duration
	// MaxRecordBytes is the largest record, names and values together. Zero means
	// evtlog.DefaultMaxRecordBytes, 1 MiB.
	MaxRecordBytes int
	// MaxQueuedBytes bounds what appends keep on the heap while the server does
	// not keep up, beside one encoded flush (1 MiB, or the largest record).
	//
	// Fifteen sixteenths are for records that wait or are on their way, each
	// charged with its names and values, RecordOverhead and FieldOverhead. An
	// AppendBatch is admitted as a whole, so it is also bounded by this. A call
	// that finds no room waits until its context ends; one sixteenth is for those,
	// CallerOverhead each, and when that is used up a further call is refused at
	// once with an *OverloadedError.
	//
	// Zero means 64 MiB: at most 122,880 records, and 8,192 callers that wait. The
	// stacks of the callers' goroutines are their own.
	MaxQueuedBytes int
	// MaxBatch is the largest number of records in one flush. Zero means 256.
	MaxBatch int
	// Replicas is the number of replicas that must confirm an append, by WAIT
	// after each flush. Zero means none: an append is committed when the server
	// has it in memory.
	Replicas int
	// ReplicaTimeout is how long a flush waits for Replicas. Zero means 1 s.
	ReplicaTimeout time.Duration
	// Now returns the current Unix millisecond. nil means the system clock.
	Now func() int64
	// OnCommit is called after each flush that committed records, by the
	// publisher's goroutine or that of a caller of Append, never by two at a time:
	// it returns at once. nil is not called.
	OnCommit func()
	// Observer receives evtlog.SecondWriter and evtlog.Lost. nil is none.
	Observer evtlog.Observer
	// Logger is where connections and refusals are told. nil discards.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.MaxRecordBytes == 0 {
		c.MaxRecordBytes = evtlog.DefaultMaxRecordBytes
	}
	if c.MaxQueuedBytes == 0 {
		c.MaxQueuedBytes = DefaultMaxQueuedBytes
	}
	if c.MaxBatch == 0 {
		c.MaxBatch = DefaultMaxBatch
	}
	if c.ReplicaTimeout == 0 {
		c.ReplicaTimeout = DefaultReplicaTimeout
	}
	if c.Now == nil {
		c.Now = func() int64 { return time.Now().UnixMilli() }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	for _, f := range []struct {
		name  string
		value int
	}{
		{"MaxRecordBytes", c.MaxRecordBytes}, {"MaxQueuedBytes", c.MaxQueuedBytes}, {"MaxBatch", c.MaxBatch},
		{"Replicas", c.Replicas}, {"ReplicaTimeout", int(c.ReplicaTimeout)}, {"MaxSkew", int(c.MaxSkew)},
	} {
		if f.value < 0 {
			return fmt.Errorf("publisher: Config.%s is %d: it must not be negative; 0 means the default", f.name, f.value)
		}
	}
	if c.Stream == (keyspace.Stream{}) {
		return fmt.Errorf("publisher: Config.Stream is empty: make it with keyspace.NewStream")
	}
	if room := c.limits().bytes; room < c.MaxRecordBytes+RecordOverhead {
		return fmt.Errorf("publisher: Config.MaxQueuedBytes (%d) leaves %d for records, below MaxRecordBytes (%d) plus %d: a record of the largest size would never be admitted", c.MaxQueuedBytes, room, c.MaxRecordBytes, RecordOverhead)
	}
	return nil
}

// limits divides MaxQueuedBytes.
func (c Config) limits() limits {
	callers := c.MaxQueuedBytes / callersShare
	return limits{bytes: c.MaxQueuedBytes - callers, callers: callers / CallerOverhead}
}

func (c Config) name() evtlog.StreamName {
	return evtlog.StreamName{Queue: c.Stream.Queue(), Name: c.Stream.Name()}
}

func (c Config) minter(k *clock) (*evtid.Minter, error) {
	k.read = c.Now
	return evtid.NewMinter(evtid.MinterConfig{Node: c.Node, MaxSkew: c.MaxSkew, Now: k.now})
}

// clock is read once for each flush and not for each record: a flush is encoded
// in less than the millisecond that an id can tell, and reading the clock takes
// longer than everything else about an id. The pump's goroutine owns it.
type clock struct {
	read func() int64
	at   int64
}

func (k *clock) tick() { k.at = k.read() }

func (k *clock) now() int64 { return k.at }
