package runtime

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/streamconsumer"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/archivetest"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/redislog"
)

func TestCheckNamesTheField(t *testing.T) {
	store := archivetest.NewMemory()
	stream := Stream{Queue: "q", Name: "s"}
	handler := func(context.Context, evtlog.Delivery) error { return nil }
	consumer := Consumer{Queue: "q", Stream: "s", Group: "g", Name: "m", Start: streamconsumer.FromNew, Handler: handler}
	with := func(change func(c *Consumer)) Config {
		c := consumer
		change(&c)
		return Config{Consumers: []Consumer{consumer, c}}
	}
	for _, c := range []struct {
		field, reason string
		cfg           Config
	}{
		{"Node", "1023", Config{Node: -1}},
		{"MaxRecordBytes", "negative", Config{MaxRecordBytes: -1}},
		{"MaxSkew", "negative", Config{MaxSkew: -time.Second}},
		{"Streams[0]", "queue", Config{Streams: []Stream{{Queue: "", Name: "s"}}}},
		{"Streams[0]", "stream", Config{Streams: []Stream{{Queue: "q", Name: "s:archived"}}}},
		{"MaxRecordBytes", "never be admitted", Config{MaxRecordBytes: 64 << 20}},
		{"Supervision.Within", "-1s", Config{Supervision: supervise.Policy{Within: -time.Second}}},
		{"Supervision.Max", "below Supervision.Min (1m0s)", Config{Supervision: supervise.Policy{Min: time.Minute, Max: time.Second}}},
		{"Redis.URL", "(not shown)", Config{Redis: redislog.Config{URL: "http://u:secret@host"}}},
		{"Redis.PoolSize", "-1", Config{Redis: redislog.Config{PoolSize: -1}}},
		{"Streams[0].Retention", "\"Last: 1, For: 1h0m0s\"", Config{Streams: []Stream{{Queue: "q", Name: "s", Retention: evtlog.Keep{Last: 1, For: time.Hour}}}}},
		{"Streams[0].Retention", "belongs to the process that writes it", Config{Streams: []Stream{{Queue: "q", Name: "s", ReadOnly: true, Retention: evtlog.KeepLast(1)}}}},
		{"Streams[0].Durability", "belongs to", Config{Streams: []Stream{{Queue: "q", Name: "s", ReadOnly: true, Durability: Commit, Archive: store}}}},
		{"Streams[0].Replicas", "belongs to", Config{Streams: []Stream{{Queue: "q", Name: "s", ReadOnly: true, Replicas: 1}}}},
		{"Streams[1]", "who writes it can read it", Config{Streams: []Stream{stream, {Queue: "q", Name: "s", ReadOnly: true}}}},
		{"Streams[0].ReadOnly", "Consumers[0] appends to this stream", Config{
			Streams: []Stream{{Queue: "q", Name: "s.dead", ReadOnly: true}}, Consumers: []Consumer{consumer},
		}},
		{"Consumers[1].Count", "-1", with(func(c *Consumer) { c.Name, c.Count = "m2", -1 })},
		{"Consumers[1].Count", "1 to 10000", with(func(c *Consumer) { c.Name, c.Count = "m2", 10_001 })},
		{"Consumers[1].Slots", "without a name", with(func(c *Consumer) { c.Name, c.Slots = "m2", 3 })},
		{"Consumers[1].Slots", "1 to 1000", with(func(c *Consumer) { c.Name, c.Slots = "", 1001 })},
		{"Consumers[1].Slots", "2 members without a name", func() Config {
			cfg := with(func(c *Consumer) { c.Name, c.Slots = "", 1 })
			cfg.Consumers[0].Name, cfg.Consumers[0].Slots = "", 1
			return cfg
		}()},
		{"Consumers[1].Workers", "Count (2)", with(func(c *Consumer) { c.Name, c.Count, c.Workers = "m2", 2, 3 })},
		{"Consumers[1].Workers", "-1", with(func(c *Consumer) { c.Name, c.Workers = "m2", -1 })},
		{"Consumers[1].Workers", "MaxDeliveries", with(func(c *Consumer) { c.Name, c.Workers, c.MaxDeliveries = "m2", 2, 1 })},
		{"Consumers[1].Block", "1ms", with(func(c *Consumer) { c.Name, c.Block = "m2", time.Microsecond })},
		{"Consumers[1].MinIdle", "-1s", with(func(c *Consumer) { c.Name, c.MinIdle = "m2", -time.Second })},
		{"Consumers[1].RetryMax", "RetryMin (1m0s)", with(func(c *Consumer) { c.Name, c.RetryMin, c.RetryMax = "m2", time.Minute, time.Second })},
		{"Consumers[1].RetryMax", "RetryMin (1s)", with(func(c *Consumer) { c.Name, c.RetryMax = "m2", time.Millisecond })},
		{"Streams[0].Retention.Last", "-1", Config{Streams: []Stream{{Queue: "q", Name: "s", Retention: evtlog.KeepLast(-1)}}}},
		{"Streams[0].Durability", "negative", Config{Streams: []Stream{{Queue: "q", Name: "s", Durability: -1}}}},
		{"Streams[0].Archive", "needs an archive", Config{Streams: []Stream{{Queue: "q", Name: "s", Durability: Window(10)}}}},
		{"Streams[0].Durability", "retention and an archiver", Config{Streams: []Stream{{Queue: "q", Name: "s", Retention: evtlog.KeepLast(1), Archive: store}}}},
		{"MaxRecordBytes", "Streams[0].Archive takes", Config{
			MaxRecordBytes: 2 << 20, Streams: []Stream{{Queue: "q", Name: "s", Durability: Commit, Archive: limited{store}}},
		}},
		{"Streams[0].Replicas", "negative", Config{Streams: []Stream{{Queue: "q", Name: "s", Replicas: -1}}}},
		{"Streams[1]", "one writer", Config{Streams: []Stream{stream, stream}}},
		{"Streams[1]", "retention and an archiver cannot share", Config{Streams: []Stream{
			{Queue: "q", Name: "s", Retention: evtlog.KeepLast(1)}, {Queue: "q", Name: "s", Durability: Commit, Archive: store},
		}}},
		{"Consumers[1].Stream", "queue", with(func(c *Consumer) { c.Queue = "a b" })},
		{"Consumers[1].Group", "group", with(func(c *Consumer) { c.Group = "" })},
		{"Consumers[1].Name", "consumer", with(func(c *Consumer) { c.Name = "a/b" })},
		{"Consumers[1].Name", "same member", with(func(*Consumer) {})},
		{"Consumers[1].Name", "may lease", with(func(c *Consumer) { c.Name = "slot-1" })},
		{"Consumers[1].Name", "may lease", with(func(c *Consumer) { c.Name = "slot-1000" })},
		{"Consumers[1].Start", "where a new group begins", with(func(c *Consumer) { c.Name, c.Start = "m2", 0 })},
		{"Consumers[1].Start", "where a new group begins", with(func(c *Consumer) { c.Name, c.Start = "m2", 99 })},
		{"Consumers[1].Handler", "handler", with(func(c *Consumer) { c.Name, c.Handler = "m2", nil })},
		{"Consumers[0].Archive", "Streams[0]", Config{
			Streams:   []Stream{{Queue: "q", Name: "s", Durability: Commit, Archive: store}},
			Consumers: []Consumer{func() Consumer { c := consumer; c.Archive = archivetest.NewMemory(); return c }()},
		}},
		{"Consumers[1].Archive", "Consumers[0] has another archive", func() Config {
			cfg := with(func(c *Consumer) { c.Name, c.Archive = "m2", store })
			cfg.Consumers[0].Archive = archivetest.NewMemory()
			return cfg
		}()},
	} {
		// Nothing of it may be found out by asking a server.
		dialled := false
		c.cfg.Redis.Dialer = func(context.Context, string, string) (net.Conn, error) {
			dialled = true
			return nil, errors.New("nobody is there")
		}
		_, err := Start(context.Background(), c.cfg)
		if dialled {
			t.Errorf("%s: it was dialled for", c.field)
		}
		var refused *ConfigError
		if !errors.As(err, &refused) {
			t.Errorf("%s: %v is not a *ConfigError", c.field, err)
			continue
		}
		if refused.Field != c.field || !strings.Contains(refused.Error(), c.reason) {
			t.Errorf("refused %s (%v), want %s with %q", refused.Field, refused, c.field, c.reason)
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error repeats a password: %v", c.field, err)
		}
	}
}

// limited is an archive that takes records of up to a mebibyte.
type limited struct{ *archivetest.Memory }

func (limited) MaxRecordBytes() int { return 1 << 20 }

// Whatever a consumer itself would refuse was refused before anything was dialled:
// what passes here passes there.
func TestConsumerRulesAreTheConsumersOwn(t *testing.T) {
	client, err := redislog.Open(t.Context(), redislog.Config{URL: redistest.Start(t).URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	counts := []int{-1, 0, 1, 2, 3, 1000, 1001, 10_000, 10_001}
	pauses := []time.Duration{-1, 0, 1, time.Millisecond, time.Second, time.Minute, time.Hour}
	count := func() int { return counts[rnd.IntN(len(counts))] }
	pause := func() time.Duration { return pauses[rnd.IntN(len(pauses))] }
	refusals := 0
	for range 300 {
		c := Consumer{
			Queue: "q", Stream: "s", Group: "g", Name: []string{"", "m"}[rnd.IntN(2)], Start: streamconsumer.FromNew,
			Handler: func(context.Context, evtlog.Delivery) error { return nil },
			Count:   count(), MaxDeliveries: count(), Block: pause(), MinIdle: pause(), RetryMin: pause(), RetryMax: pause(),
		}
		if rnd.IntN(3) == 0 {
			c.Slots = count()
		}
		if rnd.IntN(3) == 0 {
			c.Workers = count()
		}
		p, err := check(Config{Consumers: []Consumer{c}})
		key, _ := keyspace.NewStream("q", "s")
		_, own := streamconsumer.New(streamconsumer.Config{
			Stream: key, Group: c.Group, Name: c.Name, Slots: c.Slots, Start: c.Start, Handler: c.Handler, Workers: c.Workers,
			Count: c.Count, Block: c.Block, MinIdle: c.MinIdle, MaxDeliveries: c.MaxDeliveries, RetryMin: c.RetryMin, RetryMax: c.RetryMax,
		}, client.Log(key), nil, func(context.Context, ...evtlog.Field) (evtid.ID, error) { return evtid.ID{}, nil })
		if (err == nil) != (own == nil) {
			t.Fatalf("runtime: %v, streamconsumer: %v, of %+v (%d)", err, own, c, len(p.consumers))
		}
		if err != nil {
			refusals++
		}
	}
	if refusals == 0 || refusals == 300 {
		t.Errorf("%d of 300 were refused: the rules were not put to the test", refusals)
	}
}

// Names that only resemble a leased one are free.
func TestNamesLikeALeasedOne(t *testing.T) {
	for _, name := range []string{"slot", "slot-", "slot-0", "slot-01", "slot-1001", "slot-1a", "Slot-1", "slot-1-1"} {
		_, err := check(Config{Consumers: []Consumer{{
			Queue: "q", Stream: "s", Group: "g", Name: name, Start: streamconsumer.FromNew,
			Handler: func(context.Context, evtlog.Delivery) error { return nil },
		}}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// uncomparable is an archive of a type that Go refuses to compare.
type uncomparable struct {
	archive.Archive
	_ []int
}

func TestArchivesThatCannotBeCompared(t *testing.T) {
	c := Consumer{
		Queue: "q", Stream: "s", Group: "g", Name: "a", Start: streamconsumer.FromNew, Archive: uncomparable{},
		Handler: func(context.Context, evtlog.Delivery) error { return nil },
	}
	if _, err := check(Config{Consumers: []Consumer{c}}); err != nil {
		t.Errorf("one consumer: %v", err)
	}
	other := c
	other.Name = "b"
	_, err := check(Config{Consumers: []Consumer{c, other}})
	if refused := (*ConfigError)(nil); !errors.As(err, &refused) {
		t.Errorf("two consumers: %v, want a *ConfigError", err)
	}
}

func TestConfigErrorKeepsTheCause(t *testing.T) {
	_, err := check(Config{Streams: []Stream{{Queue: "q", Name: "a b"}}})
	var name *keyspace.NameError
	if !errors.As(err, &name) || name.Value != "a b" {
		t.Errorf("error %v does not lead to the name", err)
	}
}

func TestOwnStreamLendsItsArchive(t *testing.T) {
	store := archivetest.NewMemory()
	p, err := check(Config{
		Streams: []Stream{{Queue: "q", Name: "s", Durability: Commit, Archive: store}},
		Consumers: []Consumer{{
			Queue: "q", Stream: "s", Group: "g", Name: "m", Start: streamconsumer.FromHead,
			Handler: func(context.Context, evtlog.Delivery) error { return nil },
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if p.consumers[0].Archive != store {
		t.Errorf("the consumer reads trimmed entries from %v", p.consumers[0].Archive)
	}
}

func TestDial(t *testing.T) {
	if d := Commit.dial(); !d.Commit || d.Window != 0 {
		t.Errorf("Commit is %+v", d)
	}
	if d := Window(50).dial(); d.Commit || d.Window != 50 {
		t.Errorf("Window(50) is %+v", d)
	}
}
