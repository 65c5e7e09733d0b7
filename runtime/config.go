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
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/redislog"
)

// Config says what to run. The zero value of a field is its documented default.
type Config struct {
	// Redis is the server that holds the live streams.
	Redis redislog.Config
	// Node is the number this process writes under, 0..1023. Every process that
	// appends to a stream needs its own; the default is 0.
	Node int
	// MaxSkew is how far the newest id of a stream may be ahead of this clock
	// before the writer refuses to mint. 0 means evtid.DefaultMaxSkew.
	MaxSkew time.Duration
	// MaxRecordBytes is the largest record, names and values together. 0 means
	// evtlog.DefaultMaxRecordBytes.
	MaxRecordBytes int
	// Streams are the streams this process writes. No two processes may write
	// one stream.
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

// Stream declares one stream and its single writer.
type Stream struct {
	Queue string
	Name  string
	// Retention says what stays live. The zero value keeps everything.
	Retention evtlog.Keep
	// Durability is the dial; anything but None needs Archive.
	Durability Durability
	// Archive takes the records before they are trimmed. One archive may serve
	// many streams.
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
	// drained first when it starts. Empty means a leased name, "slot-1" to "slot-n";
	// see streamconsumer.Config.
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
	// Archive serves pending entries that were trimmed, when the stream is not
	// one of Config.Streams (whose own archive is used).
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

// plan is a checked configuration.
type plan struct {
	Config
	streams   []streamPlan
	consumers []consumerPlan
}

type streamPlan struct {
	Stream
	key keyspace.Stream
}

type consumerPlan struct {
	Consumer
	key keyspace.Stream
	// label is the last part of its path: the member's name, or one that tells
	// members without a name apart.
	label string
}

// check validates cfg as a whole and resolves the names. It does no I/O.
func check(cfg Config) (plan, error) {
	p := plan{Config: cfg}
	if cfg.Node < 0 || cfg.Node > evtid.MaxNode {
		return p, refused("Node", cfg.Node, &evtid.NodeError{Node: cfg.Node})
	}
	if cfg.MaxRecordBytes < 0 {
		return p, &ConfigError{Field: "MaxRecordBytes", Value: fmt.Sprint(cfg.MaxRecordBytes), Reason: "it must not be negative"}
	}
	if cfg.MaxSkew < 0 {
		return p, &ConfigError{Field: "MaxSkew", Value: cfg.MaxSkew.String(), Reason: "it must not be negative"}
	}
	seen := map[keyspace.Stream]int{}
	for i, s := range cfg.Streams {
		field := fmt.Sprintf("Streams[%d]", i)
		sp, err := checkStream(field, s)
		if err != nil {
			return p, err
		}
		if err := checkLimit(field, s.Archive, cfg.MaxRecordBytes); err != nil {
			return p, err
		}
		if first, dup := seen[sp.key]; dup {
			return p, duplicate(i, first, s, cfg.Streams[first])
		}
		seen[sp.key] = i
		p.streams = append(p.streams, sp)
	}
	members := map[string]int{}
	for i, c := range cfg.Consumers {
		field := fmt.Sprintf("Consumers[%d]", i)
		cp, err := checkConsumer(field, c)
		if err != nil {
			return p, err
		}
		if cp.label = c.Name; c.Name == "" {
			cp.label = fmt.Sprintf("leased#%d", i+1)
		}
		if first, dup := members[cp.path()]; dup {
			return p, &ConfigError{Field: field + ".Name", Value: c.Name, Reason: fmt.Sprintf("Consumers[%d] is the same member of the same group", first)}
		}
		members[cp.path()] = i
		if s, own := seen[cp.key]; own {
			if c.Archive != nil && c.Archive != cfg.Streams[s].Archive {
				return p, &ConfigError{Field: field + ".Archive", Value: fmt.Sprintf("%T", c.Archive), Reason: fmt.Sprintf("Streams[%d] declares the archive of this stream", s)}
			}
			cp.Archive = cfg.Streams[s].Archive
		}
		p.consumers = append(p.consumers, cp)
	}
	return p, nil
}

func checkStream(field string, s Stream) (streamPlan, error) {
	key, err := keyspace.NewStream(s.Queue, s.Name)
	if err != nil {
		return streamPlan{}, refused(field, s.Queue+"/"+s.Name, err)
	}
	if err := s.Retention.Check(); err != nil {
		return streamPlan{}, refused(field+".Retention", fmt.Sprintf("%+v", s.Retention), err)
	}
	switch {
	case s.Durability < 0:
		return streamPlan{}, &ConfigError{Field: field + ".Durability", Value: fmt.Sprint(int(s.Durability)), Reason: "a window must not be negative"}
	case s.Durability != None && s.Archive == nil:
		return streamPlan{}, &ConfigError{Field: field + ".Archive", Value: "nil", Reason: field + ".Durability folds, so it needs an archive to fold into"}
	case s.Durability == None && s.Archive != nil:
		return streamPlan{}, &ConfigError{Field: field + ".Durability", Value: "None", Reason: field + ".Archive is set, but None trims without folding, and retention and an archiver cannot share a stream: set Durability to Commit or Window(k), or leave Archive out"}
	case s.Replicas < 0:
		return streamPlan{}, &ConfigError{Field: field + ".Replicas", Value: fmt.Sprint(s.Replicas), Reason: "it must not be negative"}
	}
	return streamPlan{Stream: s, key: key}, nil
}

// checkLimit refuses records that the archive could never take: the first of
// them would end all archiving behind it.
func checkLimit(field string, a archive.Archive, maxRecord int) error {
	limited, ok := a.(archive.Limited)
	if ok && maxRecord > limited.MaxRecordBytes() {
		return &ConfigError{
			Field: "MaxRecordBytes", Value: fmt.Sprint(maxRecord),
			Reason: fmt.Sprintf("%s.Archive takes records of up to %d bytes", field, limited.MaxRecordBytes()),
		}
	}
	return nil
}

func checkConsumer(field string, c Consumer) (consumerPlan, error) {
	key, err := keyspace.NewStream(c.Queue, c.Stream)
	if err != nil {
		return consumerPlan{}, refused(field+".Stream", c.Queue+"/"+c.Stream, err)
	}
	if err := keyspace.CheckGroup(c.Group); err != nil {
		return consumerPlan{}, refused(field+".Group", c.Group, err)
	}
	if c.Name != "" {
		if err := keyspace.CheckMember(c.Name); err != nil {
			return consumerPlan{}, refused(field+".Name", c.Name, err)
		}
	}
	if c.Start != streamconsumer.FromHead && c.Start != streamconsumer.FromNew {
		return consumerPlan{}, &ConfigError{Field: field + ".Start", Value: fmt.Sprint(c.Start), Reason: "say where a new group begins: streamconsumer.FromHead or streamconsumer.FromNew"}
	}
	if c.Handler == nil {
		return consumerPlan{}, &ConfigError{Field: field + ".Handler", Value: "nil", Reason: "a consumer needs a handler"}
	}
	return consumerPlan{Consumer: c, key: key}, nil
}

// path is the consumer's place in the supervision tree.
func (c consumerPlan) path() string {
	return "consumer/" + c.key.String() + "/" + c.Group + "/" + c.label
}

// path is the stream's place in the supervision tree.
func (s streamPlan) path() string { return "stream/" + s.key.String() }

// duplicate names the two declarations of one stream: each is a writer, and
// each may trim.
func duplicate(second, first int, a, b Stream) error {
	reason := fmt.Sprintf("Streams[%d] declares the same stream: a stream has one writer", first)
	if (a.Durability == None) != (b.Durability == None) {
		reason += ", and retention and an archiver cannot share it"
	}
	return &ConfigError{Field: fmt.Sprintf("Streams[%d]", second), Value: a.Queue + "/" + a.Name, Reason: reason}
}

func refused(field string, value any, err error) error {
	return &ConfigError{Field: field, Value: fmt.Sprint(value), Reason: err.Error(), Err: err}
}
