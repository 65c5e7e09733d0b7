package streamconsumer

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
)

func validConfig(t *testing.T) Config {
	return Config{
		Stream: testStream(t), Group: "g", Name: "n", Start: FromHead,
		Handler: func(context.Context, evtlog.Delivery) error { return nil },
	}
}

func noDead(context.Context, ...evtlog.Field) (evtid.ID, error) { return evtid.ID{}, nil }

func TestDefaults(t *testing.T) {
	given := validConfig(t)
	c := given.withDefaults()
	if c.Count != 100 || c.Block != time.Second || c.MinIdle != 30*time.Second || c.ClaimEvery != time.Second ||
		c.MaxDeliveries != 10 || c.RetryMin != time.Second || c.RetryMax != time.Minute || c.Logger == nil {
		t.Errorf("defaults = %+v", c)
	}
	if given.Count != 0 || given.Logger != nil {
		t.Error("withDefaults changed the config it was given")
	}
	given.Block, given.RetryMin = 3*time.Second, time.Hour
	if c := given.withDefaults(); c.ClaimEvery != 3*time.Second || c.RetryMax != time.Hour {
		t.Errorf("ClaimEvery = %s, want Block; RetryMax = %s, want RetryMin", c.ClaimEvery, c.RetryMax)
	}
	given.MaxDeliveries = -1
	if c := given.withDefaults(); c.MaxDeliveries != -1 {
		t.Errorf("MaxDeliveries = %d, want it kept", c.MaxDeliveries)
	}
}

func TestValidateNamesTheField(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"Config.Stream":     func(c *Config) { c.Stream = keyspace.Stream{} },
		"Config.Group":      func(c *Config) { c.Group = "a:b" },
		"Config.Name":       func(c *Config) { c.Name = "a b" },
		"Config.Start":      func(c *Config) { c.Start = 0 },
		"start(9)":          func(c *Config) { c.Start = 9 },
		"Config.Handler":    func(c *Config) { c.Handler = nil },
		"Config.Count":      func(c *Config) { c.Count = -1 },
		"10000":             func(c *Config) { c.Count = MaxCount + 1 },
		"Config.Block":      func(c *Config) { c.Block = time.Microsecond },
		"Config.MinIdle":    func(c *Config) { c.MinIdle = -time.Second },
		"Config.ClaimEvery": func(c *Config) { c.ClaimEvery = -1 },
		"Config.RetryMin":   func(c *Config) { c.RetryMin = 1 },
		"Config.RetryMax":   func(c *Config) { c.RetryMin, c.RetryMax = time.Minute, time.Second },
	} {
		c := validConfig(t)
		change(&c)
		_, err := newConsumer(c, ports{dead: noDead})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
	if _, err := newConsumer(validConfig(t), ports{dead: noDead}); err != nil {
		t.Errorf("a valid config is refused: %v", err)
	}
	if _, err := newConsumer(validConfig(t), ports{}); err == nil || !strings.Contains(err.Error(), "cm/feed.dead") {
		t.Errorf("without a dead stream: %v", err)
	}
	if _, err := New(validConfig(t), nil, nil, noDead); err == nil || !strings.Contains(err.Error(), "log") {
		t.Errorf("without a log: %v", err)
	}
}

func TestStartString(t *testing.T) {
	for s, want := range map[Start]string{FromHead: "from-head", FromNew: "from-new", 7: "start(7)"} {
		if got := s.String(); got != want {
			t.Errorf("String = %q, want %q", got, want)
		}
	}
}

// Before it runs, and after, a Consumer answers and does nothing.
func TestIdleConsumer(t *testing.T) {
	c, err := newConsumer(validConfig(t), ports{dead: noDead})
	if err != nil {
		t.Fatal(err)
	}
	if c.Cancel(tid(1), nil) {
		t.Error("Cancel found a delivery")
	}
	if s := c.Stats(); s != (Stats{}) {
		t.Errorf("Stats = %+v", s)
	}
	if spec := c.Spec(); spec.Name != "n" || spec.Depth() != 0 {
		t.Errorf("Spec = %+v", spec)
	}
}
