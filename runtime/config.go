package runtime

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/archiver"
	"github.com/evtlog/evtlog/actors/streamconsumer"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/redislog"
)

// Config says what to run. The zero value of a field is its documented default.
type Config struct {
	// Redis is the server that holds the live streams.
	Redis redislog.Config
	// Node is the number this process writes under, 0..1023. Every process that
	// appends to a stream needs its own, and so does one that only consumes: its
	// members append to the dead stream. The default is 0.
	Node int
	// MaxSkew is how far the newest id of a stream may be ahead of this clock
	// before the writer refuses to mint. 0 means evtid.DefaultMaxSkew.
	MaxSkew time.Duration
	// MaxRecordBytes is the largest record, names and values together. 0 means
	// evtlog.DefaultMaxRecordBytes.
	MaxRecordBytes int
	// Streams are the streams this process writes, and those that it only reads. No
	// two processes may write one stream.
	Streams []Stream
	// Consumers are the group members this process runs, on its own streams or
	// on others'.
	Consumers []Consumer
	// Supervision says how often and how fast a component is restarted.
	Supervision supervise.Policy
	// Observer receives the typed events of all components. nil means none.
	Observer evtlog.Observer
	// Logger receives the same as log lines. nil means none.
	Logger *slog.Logger
}

// Durability is the dial between a stream and its archive: a record is folded
// at the latest when so many records wait. None folds nothing, Commit folds
// each record as soon as it was appended, Window(k) lets k gather.
type Durability int

// The ends of the dial.
const (
	// None: the stream is trimmed and what leaves it is gone.
	None Durability = 0
	// Commit: each record is folded as soon as it was appended.
	Commit Durability = 1
)

// Window folds at least every k records. Until then they are as durable as
// Redis keeps them.
func Window(k int) Durability { return Durability(k) }

func (d Durability) dial() archiver.Dial {
	if d == Commit {
		return archiver.Dial{Commit: true}
	}
	return archiver.Dial{Window: int64(d)}
}

// Stream declares one stream: with its single writer, or ReadOnly.
type Stream struct {
	Queue string
	Name  string
	// ReadOnly declares a stream that another process writes, so that this one may
	// read and follow it with its archive. There is no writer, no retention and no
	// archiver here: Append and its kin answer ErrReadOnlyStream, and Retention,
	// Durability and Replicas, which belong to the writer, stay zero.
	ReadOnly bool
	// Retention says what stays live. The zero value keeps everything.
	Retention evtlog.Keep
	// Durability is the dial; anything but None needs Archive.
	Durability Durability
	// Archive takes the records before they are trimmed; for a ReadOnly stream it is
	// the one that the writer's process folds into. One archive may serve many
	// streams.
	Archive archive.Archive
	// Replicas is how many Redis replicas must have an append before it is
	// answered. 0 answers when the master has it in memory.
	Replicas int
}

// Consumer declares one member of a consumer group.
type Consumer struct {
	Queue  string
	Stream string
	Group  string
	// Name is the member's name. It must stay the same across restarts of the
	// process, and be used by one process at a time: what is pending under it is
	// drained first when it starts. Empty means a leased name, "slot-1" to "slot-n",
	// which no configured one may be; see streamconsumer.Config.
	Name string
	// Slots is the number of leased names of the group, when Name is empty. 0 means
	// 64.
	Slots int
	// Start is where a group that does not exist yet begins. It has no default.
	Start streamconsumer.Start
	// Handler handles one delivery. Up to Workers calls run at a time.
	Handler evtlog.Handler
	// Workers is the number of handler calls that may run at a time. 0 means 1:
	// entries are handled in order.
	Workers int
	// Key names what stays in order when there are several workers: entries of one
	// key are handled one after the other. nil means that no order is kept. See
	// streamconsumer.Config.
	Key func(evtlog.Delivery) string
	// Count is the largest number of entries per read. 0 means 100.
	Count int
	// Block is how long one read waits for entries. 0 means 1 second.
	Block time.Duration
	// MinIdle is how long an entry must have been idle before it is taken from
	// a member that seems dead. 0 means 30 seconds.
	MinIdle time.Duration
	// MaxDeliveries is the number of attempts before an entry is moved to the
	// dead stream. 0 means 10, negative means never.
	MaxDeliveries int
	// RetryMin and RetryMax bound the back-off before a failed entry is offered
	// again. 0 means 1 second and 1 minute.
	RetryMin, RetryMax time.Duration
	// Archive serves what was trimmed, when the stream is not one of Config.Streams
	// (whose own archive is used). All consumers of the stream share it.
	Archive archive.Archive
}

// ConfigError says which field of the configuration was refused and which rule
// it breaks. Nothing was started.
type ConfigError struct {
	// Field is the path of the field, such as "Streams[1].Durability".
	Field string
	// Value is the refused value.
	Value string
	// Reason is the rule.
	Reason string
	// Err is the typed cause when there is one, such as a *keyspace.NameError.
	Err error
}

// Error implements error.
func (e *ConfigError) Error() string {
	return fmt.Sprintf("runtime: %s = %q refused: %s", e.Field, e.Value, e.Reason)
}

// Unwrap returns the cause.
func (e *ConfigError) Unwrap() error { return e.Err }
