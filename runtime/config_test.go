package runtime

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/streamconsumer"
	"github.com/evtlog/evtlog/archive/archivetest"
	"github.com/evtlog/evtlog/keyspace"
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
		{"Streams[0].Retention", "-1", Config{Streams: []Stream{{Queue: "q", Name: "s", Retention: evtlog.KeepLast(-1)}}}},
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
		{"Consumers[1].Start", "where a new group begins", with(func(c *Consumer) { c.Name, c.Start = "m2", 0 })},
		{"Consumers[1].Start", "where a new group begins", with(func(c *Consumer) { c.Name, c.Start = "m2", 99 })},
		{"Consumers[1].Handler", "handler", with(func(c *Consumer) { c.Name, c.Handler = "m2", nil })},
		{"Consumers[0].Archive", "Streams[0]", Config{
			Streams:   []Stream{{Queue: "q", Name: "s", Durability: Commit, Archive: store}},
			Consumers: []Consumer{func() Consumer { c := consumer; c.Archive = archivetest.NewMemory(); return c }()},
		}},
	} {
		_, err := Start(context.Background(), c.cfg)
		var refused *ConfigError
		if !errors.As(err, &refused) {
			t.Errorf("%s: %v is not a *ConfigError", c.field, err)
			continue
		}
		if refused.Field != c.field || !strings.Contains(refused.Error(), c.reason) {
			t.Errorf("refused %s (%v), want %s with %q", refused.Field, refused, c.field, c.reason)
		}
	}
}

// limited is an archive that takes records of up to a mebibyte.
type limited struct{ *archivetest.Memory }

func (limited) MaxRecordBytes() int { return 1 << 20 }

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
