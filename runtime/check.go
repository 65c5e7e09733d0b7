package runtime

import (
	"errors"
	"fmt"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/publisher"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/redislog"
)

// plan is a checked configuration.
type plan struct {
	Config
	streams   []streamPlan
	consumers []consumerPlan
}

type streamPlan struct {
	Stream
	// field is its path in the configuration.
	field string
	key   keyspace.Stream
}

type consumerPlan struct {
	Consumer
	// field is its path in the configuration.
	field string
	key   keyspace.Stream
	// label is the last part of its path: the member's name, or one that tells
	// members without a name apart.
	label string
}

// group names the consumer's group among those of all streams.
func (c consumerPlan) group() string { return c.key.String() + "/" + c.Group }

// path is the consumer's place in the supervision tree.
func (c consumerPlan) path() string { return "consumer/" + c.group() + "/" + c.label }

// path is the stream's place in the supervision tree.
func (s streamPlan) path() string { return "stream/" + s.key.String() }

// check validates cfg as a whole and resolves the names. It does no I/O.
func check(cfg Config) (plan, error) {
	p := plan{Config: cfg}
	if err := checkProcess(cfg); err != nil {
		return p, err
	}
	if err := checkSupervision(cfg.Supervision); err != nil {
		return p, err
	}
	seen := map[keyspace.Stream]int{}
	for i, s := range cfg.Streams {
		sp, err := checkStream(fmt.Sprintf("Streams[%d]", i), s, cfg.recordLimit())
		if err != nil {
			return p, err
		}
		if first, dup := seen[sp.key]; dup {
			return p, duplicate(i, first, s, cfg.Streams[first])
		}
		seen[sp.key] = i
		p.streams = append(p.streams, sp)
	}
	return p, p.addConsumers(seen)
}

// recordLimit is the largest record that the writers accept.
func (c Config) recordLimit() int {
	if c.MaxRecordBytes == 0 {
		return evtlog.DefaultMaxRecordBytes
	}
	return c.MaxRecordBytes
}

// checkProcess checks what holds for all writers of the process.
func checkProcess(cfg Config) error {
	const most = publisher.DefaultMaxQueuedBytes - publisher.RecordOverhead
	switch {
	case cfg.Node < 0 || cfg.Node > evtid.MaxNode:
		return refused("Node", cfg.Node, &evtid.NodeError{Node: cfg.Node})
	case cfg.MaxRecordBytes < 0:
		return bad("MaxRecordBytes", cfg.MaxRecordBytes, "it must not be negative")
	case cfg.MaxRecordBytes > most:
		return bad("MaxRecordBytes", cfg.MaxRecordBytes, fmt.Sprintf("a writer queues %d bytes at most (MaxQueuedBytes), so a record of more than %d would never be admitted", publisher.DefaultMaxQueuedBytes, most))
	case cfg.MaxSkew < 0:
		return bad("MaxSkew", cfg.MaxSkew, "it must not be negative")
	}
	return nil
}

func checkSupervision(p supervise.Policy) error {
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"Min", p.Min}, {"Max", p.Max}, {"Within", p.Within}, {"Healthy", p.Healthy}} {
		if f.value < 0 {
			return bad("Supervision."+f.name, f.value, "it must not be negative; 0 means the default")
		}
	}
	lowest := orDefault(p.Min, supervise.DefaultMin)
	if highest := orDefault(p.Max, max(supervise.DefaultMax, lowest)); highest < lowest {
		return bad("Supervision.Max", p.Max, fmt.Sprintf("it is below Supervision.Min (%s)", lowest))
	}
	return nil
}

func checkStream(field string, s Stream, recordLimit int) (streamPlan, error) {
	key, err := keyspace.NewStream(s.Queue, s.Name)
	if err != nil {
		return streamPlan{}, refused(field, s.Queue+"/"+s.Name, err)
	}
	if s.ReadOnly {
		return streamPlan{Stream: s, field: field, key: key}, checkReadOnly(field, s)
	}
	if err := checkKeep(field+".Retention", s.Retention); err != nil {
		return streamPlan{}, err
	}
	switch {
	case s.Durability < 0:
		return streamPlan{}, bad(field+".Durability", int(s.Durability), "a window must not be negative")
	case s.Durability != None && s.Archive == nil:
		return streamPlan{}, bad(field+".Archive", "nil", field+".Durability folds, so it needs an archive to fold into")
	case s.Durability == None && s.Archive != nil:
		return streamPlan{}, bad(field+".Durability", "None", field+".Archive is set, but None trims without folding, and retention and an archiver cannot share a stream: set Durability to Commit or Window(k), leave Archive out, or set ReadOnly when another process writes the stream")
	case s.Replicas < 0:
		return streamPlan{}, bad(field+".Replicas", s.Replicas, "it must not be negative")
	}
	return streamPlan{Stream: s, field: field, key: key}, checkLimit(field, s.Archive, recordLimit)
}

// checkReadOnly refuses what only a writer of the stream can have.
func checkReadOnly(field string, s Stream) error {
	const belongs = "the stream is ReadOnly here, and this belongs to the process that writes it"
	switch {
	case s.Retention != (evtlog.Keep{}):
		return bad(field+".Retention", keepText(s.Retention), belongs)
	case s.Durability != None:
		return bad(field+".Durability", int(s.Durability), belongs)
	case s.Replicas != 0:
		return bad(field+".Replicas", s.Replicas, belongs)
	}
	return nil
}

// checkKeep names the part of a retention policy that is refused.
func checkKeep(field string, k evtlog.Keep) error {
	err := k.Check()
	var part *evtlog.KeepError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &part) || part.Value == "together":
		return refused(field, keepText(k), err)
	}
	return &ConfigError{Field: field + "." + part.Field, Value: part.Value, Reason: part.Reason, Err: err}
}

// keepText says the parts of a policy that are set.
func keepText(k evtlog.Keep) (text string) {
	add := func(name string, value any) {
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("%s: %v", name, value)
	}
	if k.Last != 0 {
		add("Last", k.Last)
	}
	if k.For != 0 {
		add("For", k.For)
	}
	if !k.Since.IsZero() {
		add("Since", k.Since.Format(time.RFC3339))
	}
	if k.Exact {
		add("Exact", k.Exact)
	}
	return text
}

// checkLimit refuses records that the archive could never take: the first of
// them would end all archiving behind it.
func checkLimit(field string, a archive.Archive, maxRecord int) error {
	limited, ok := a.(archive.Limited)
	if ok && maxRecord > limited.MaxRecordBytes() {
		return bad("MaxRecordBytes", maxRecord, fmt.Sprintf("%s.Archive takes records of up to %d bytes", field, limited.MaxRecordBytes()))
	}
	return nil
}

// duplicate names the two declarations of one stream: each is a writer, and
// each may trim.
func duplicate(second, first int, a, b Stream) error {
	reason := fmt.Sprintf("Streams[%d] declares the same stream: a stream has one writer", first)
	switch {
	case a.ReadOnly || b.ReadOnly:
		reason = fmt.Sprintf("Streams[%d] declares the same stream: who writes it can read it", first)
	case (a.Durability == None) != (b.Durability == None):
		reason += ", and retention and an archiver cannot share it"
	}
	return bad(fmt.Sprintf("Streams[%d]", second), a.Queue+"/"+a.Name, reason)
}

// checkedRedis turns what redislog refused before it dialled into an error of the
// whole configuration. The URL is not repeated: it may hold a password.
func checkedRedis(cfg redislog.Config, err error) error {
	var own *redislog.ConfigError
	if !errors.As(err, &own) {
		return err
	}
	value := map[string]any{"DialTimeout": cfg.DialTimeout, "CommandTimeout": cfg.CommandTimeout, "PoolSize": cfg.PoolSize}[own.Field]
	if value == nil {
		value = "(not shown)"
	}
	return &ConfigError{Field: "Redis." + own.Field, Value: fmt.Sprint(value), Reason: own.Reason, Err: err}
}

func orDefault[T int | time.Duration](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}

func bad(field string, value any, reason string) error {
	return &ConfigError{Field: field, Value: fmt.Sprint(value), Reason: reason}
}

func refused(field string, value any, err error) error {
	return &ConfigError{Field: field, Value: fmt.Sprint(value), Reason: err.Error(), Err: err}
}
