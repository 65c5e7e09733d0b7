package streamconsumer

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/keyspace"
)

// Start says where a group begins that does not exist yet. It has no default:
// the one choice replays a whole stream, the other one ignores it.
type Start uint8

// Where a group can begin.
const (
	// FromHead delivers every record that ever was, archived ones included.
	FromHead Start = iota + 1
	// FromNew delivers the records appended after the group was made.
	FromNew
)

// String returns "from-head" or "from-new".
func (s Start) String() string {
	switch s {
	case FromHead:
		return "from-head"
	case FromNew:
		return "from-new"
	}
	return fmt.Sprintf("start(%d)", uint8(s))
}

// Defaults of Config.
const (
	DefaultCount         = 100
	DefaultBlock         = time.Second
	DefaultMinIdle       = 30 * time.Second
	DefaultMaxDeliveries = 10
	DefaultRetryMin      = time.Second
	DefaultRetryMax      = time.Minute
)

// MaxCount is the largest Config.Count, MaxSlots the largest Config.Slots.
const (
	MaxCount = 10_000
	MaxSlots = 1000
)

// Config describes one member of a group. Stream, Group, Name, Start and
// Handler are required; the rest has defaults.
type Config struct {
	// Stream is what is consumed.
	Stream keyspace.Stream
	// Group is the consumer group; all its members share the work.
	Group string
	// Name is the member's name, unique among the members that run at a time and
	// the same after a restart: what it left pending is found under it. Empty means
	// a leased name: the lowest one free of "slot-1" to "slot-n". A name whose
	// process died is free after MinIdle, and whoever takes it drains what is
	// pending under it.
	Name string
	// Slots is the number of leased names of the group, used when Name is empty: at
	// most as many members without a name work at a time, and further ones wait.
	// Zero means 64.
	Slots int
	// Start is where the group begins when it has to be made.
	Start Start
	// Handler handles one delivery. Up to Workers calls run at a time.
	Handler evtlog.Handler
	// Workers is the number of handler calls that may run at a time. Zero means 1:
	// entries are handled in order, one after the other. With more, the member
	// holds up to Count entries and has Workers of them handled at once. Records
	// read from the archive are handled one at a time in any case. At most Count;
	// more than 1 excludes a MaxDeliveries of 1, because a crash could not be
	// blamed on the entry that caused it.
	Workers int
	// Key names what must stay in order when there are several workers: entries of
	// one key are handled one after the other, in the order of the stream, and
	// entries of different keys at the same time. Order ends where a handler
	// fails: the later entries of the key go on, and the failed one comes again
	// out of order, as any redelivery does. nil: there is no order between any two
	// entries. It is called by one goroutine, and must be quick; a panic counts as
	// a failed attempt of that entry. It is not called with one worker.
	Key func(evtlog.Delivery) string
	// Count is the largest number of entries read at once. A crash redelivers at
	// most three times as many: the batch in hand, and two that a member with a quick
	// handler reads ahead. Zero means 100; at most MaxCount.
	Count int
	// Block is how long one read waits for new entries. It bounds how long a
	// dead connection can go unnoticed, not the latency. Zero means 1 s.
	Block time.Duration
	// MinIdle is how long an entry must not have been touched by its member
	// before another one takes it over. The work in hand is renewed each third of
	// it, so it may be shorter than the slowest handler. It must be the same for
	// all members of a group. Zero means 30 s.
	MinIdle time.Duration
	// ClaimEvery is the beat on which entries of dead peers and skipped ranges are
	// looked for. Zero means Block.
	ClaimEvery time.Duration
	// MaxDeliveries is the number of attempts after which an entry is moved to the
	// dead stream. Zero means 10; negative never gives up. 1 makes the member
	// read one entry at a time: in a larger batch, a crash leaves it open which
	// entry had its only attempt.
	MaxDeliveries int
	// RetryMin and RetryMax bound the ceiling of the random pause before a failed
	// entry is offered again: RetryMin after the first attempt, doubled after each
	// further one, never above RetryMax. Zero means 1 s and 1 minute.
	RetryMin, RetryMax time.Duration
	// Observer receives evtlog events: Drained, Reclaimed, HandlerFailed,
	// DeadLettered, GroupRecreated, Unbranded and Lost. nil is fine.
	Observer evtlog.Observer
	// Logger receives what has no event. nil discards.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Count = orDefault(c.Count, DefaultCount)
	c.Workers = orDefault(c.Workers, 1)
	if c.Name == "" {
		c.Slots = orDefault(c.Slots, DefaultSlots)
	}
	c.Block = orDefault(c.Block, DefaultBlock)
	c.MinIdle = orDefault(c.MinIdle, DefaultMinIdle)
	c.ClaimEvery = orDefault(c.ClaimEvery, c.Block)
	c.MaxDeliveries = orDefault(c.MaxDeliveries, DefaultMaxDeliveries)
	c.RetryMin = orDefault(c.RetryMin, DefaultRetryMin)
	c.RetryMax = orDefault(c.RetryMax, max(DefaultRetryMax, c.RetryMin))
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = c.Logger.With("stream", c.Stream.String(), "group", c.Group, "consumer", c.Name)
	return c
}

// validate checks a Config that has its defaults.
func (c Config) validate() error {
	if err := keyspace.CheckGroup(c.Group); err != nil {
		return fmt.Errorf("streamconsumer: Config.Group: %w", err)
	}
	if c.Name != "" {
		if err := keyspace.CheckMember(c.Name); err != nil {
			return fmt.Errorf("streamconsumer: Config.Name: %w", err)
		}
		if IsSlotName(c.Name) {
			return fmt.Errorf("streamconsumer: Config.Name is %q: a member without a name may lease it; choose another, or leave it empty", c.Name)
		}
	}
	switch {
	case c.Stream == keyspace.Stream{}:
		return fmt.Errorf("streamconsumer: Config.Stream is empty: make one with keyspace.NewStream")
	case c.Start != FromHead && c.Start != FromNew:
		return fmt.Errorf("streamconsumer: Config.Start of group %s is %s: say FromHead or FromNew", c.Group, c.Start)
	case c.Handler == nil:
		return fmt.Errorf("streamconsumer: Config.Handler of group %s is nil: give the function that handles a delivery", c.Group)
	case c.Count < 1 || c.Count > MaxCount:
		return fmt.Errorf("streamconsumer: Config.Count is %d: 1 to %d are allowed; 0 means %d", c.Count, MaxCount, DefaultCount)
	case c.Name == "" && (c.Slots < 1 || c.Slots > MaxSlots):
		return fmt.Errorf("streamconsumer: Config.Slots is %d: 1 to %d are allowed; 0 means %d", c.Slots, MaxSlots, DefaultSlots)
	case c.Name != "" && c.Slots != 0:
		return fmt.Errorf("streamconsumer: Config.Slots is %d and Name %q: slots are for members without a name; leave one of them empty", c.Slots, c.Name)
	case c.Workers < 1 || c.Workers > c.Count:
		return fmt.Errorf("streamconsumer: Config.Workers is %d: 1 to Count (%d) are allowed; 0 means 1", c.Workers, c.Count)
	case c.Workers > 1 && c.MaxDeliveries == 1:
		return fmt.Errorf("streamconsumer: Config.Workers is %d and MaxDeliveries 1: with several at work a crash leaves it open which entry had its only attempt; allow 2, or use one worker", c.Workers)
	case c.RetryMax < c.RetryMin:
		return fmt.Errorf("streamconsumer: Config.RetryMax (%s) is below RetryMin (%s): raise RetryMax", c.RetryMax, c.RetryMin)
	}
	return c.validateDurations()
}

func (c Config) validateDurations() error {
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"Block", c.Block}, {"MinIdle", c.MinIdle}, {"ClaimEvery", c.ClaimEvery}, {"RetryMin", c.RetryMin}, {"RetryMax", c.RetryMax}} {
		if f.value < time.Millisecond {
			return fmt.Errorf("streamconsumer: Config.%s is %s: the server counts in milliseconds, so 1ms is the least; 0 means the default", f.name, f.value)
		}
	}
	return nil
}

func orDefault[T int | time.Duration](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}
