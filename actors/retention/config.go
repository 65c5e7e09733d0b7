package retention

import (
	"fmt"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/keyspace"
)

// DefaultEvery is the time between two ticks.
const DefaultEvery = time.Second

// Config configures a Retention. Stream must be set.
type Config struct {
	// Stream is the stream to trim.
	Stream keyspace.Stream
	// Keep says what stays. The zero value keeps everything, so that only the
	// checks are made.
	Keep evtlog.Keep
	// Every is the mean time between two ticks; single ones differ by up to a
	// tenth so that many streams do not beat together. Zero means 1 s.
	Every time.Duration
	// Observer receives evtlog.Trimmed and evtlog.Lost. nil: nobody.
	Observer evtlog.Observer
	// Now is the clock of KeepFor. nil means time.Now.
	Now func() time.Time
}

// KeepLast keeps the newest n records.
func KeepLast(n int64) evtlog.Keep { return evtlog.KeepLast(n) }

// KeepFor keeps the records minted in the last d, by the wall clock.
func KeepFor(d time.Duration) evtlog.Keep { return evtlog.KeepFor(d) }

// KeepSince keeps the records minted at t or later.
func KeepSince(t time.Time) evtlog.Keep { return evtlog.KeepSince(t) }

func (c Config) withDefaults() Config {
	if c.Every == 0 {
		c.Every = DefaultEvery
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

func (c Config) validate() error {
	if c.Stream == (keyspace.Stream{}) {
		return fmt.Errorf("retention: Config.Stream is not set: make one with keyspace.NewStream")
	}
	if c.Every < 0 {
		return fmt.Errorf("retention: Config.Every of %s is %s: it must not be negative; 0 means %s", c.Stream, c.Every, DefaultEvery)
	}
	if err := c.Keep.Check(); err != nil {
		return fmt.Errorf("retention: Config.Keep of %s: %w", c.Stream, err)
	}
	return nil
}
