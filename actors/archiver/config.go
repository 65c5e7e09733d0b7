package archiver

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/keyspace"
)

// Defaults of Config and Dial.
const (
	DefaultEvery  = time.Second
	DefaultWindow = 1000
)

// Dial says when records are folded. What Keep wants trimmed is folded in any
// case. (To archive nothing at all, use package retention.)
type Dial struct {
	// Commit folds as soon as a record is appended: the publisher nudges. The
	// number of records that only Redis has is about one fold's worth.
	Commit bool
	// Window folds when at least so many records are not archived yet. It is
	// looked at on each tick and, when the publisher nudges, about 50 times a
	// second. Zero means 1,000. It must be zero with Commit.
	//
	// With a memory limit on Redis choose a Window no larger than what Keep
	// keeps: then trimming never waits for a fold when memory is short.
	Window int64
}

// threshold returns how many records above the watermark are to be folded.
func (d Dial) threshold() int64 {
	if d.Commit {
		return 1
	}
	return d.Window
}

// Config configures an Archiver. Stream must be set.
type Config struct {
	// Stream is the stream to archive.
	Stream keyspace.Stream
	// Keep says what stays live in Redis besides being archived. The zero value
	// keeps everything: records are archived and never trimmed. Trims are exact.
	Keep evtlog.Keep
	// Fold says when records are folded.
	Fold Dial
	// Every is the mean time between two ticks; single ones differ by up to a
	// tenth so that many streams do not beat together. Zero means 1 s.
	Every time.Duration
	// Observer receives evtlog.Folded, evtlog.Trimmed and evtlog.Lost. nil:
	// nobody.
	Observer evtlog.Observer
	// Logger is told of other archivers at work. nil discards.
	Logger *slog.Logger
	// Now is the clock of KeepFor. nil means time.Now.
	Now func() time.Time
}

func (c Config) withDefaults() Config {
	if c.Every == 0 {
		c.Every = DefaultEvery
	}
	if c.Fold.Window == 0 {
		c.Fold.Window = DefaultWindow
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Stream == (keyspace.Stream{}):
		return fmt.Errorf("archiver: Config.Stream is not set: make one with keyspace.NewStream")
	case c.Every < 0:
		return fmt.Errorf("archiver: Config.Every of %s is %s: it must not be negative; 0 means %s", c.Stream, c.Every, DefaultEvery)
	case c.Fold.Window < 0:
		return fmt.Errorf("archiver: Config.Fold.Window of %s is %d: it must not be negative; 0 means %d", c.Stream, c.Fold.Window, DefaultWindow)
	case c.Fold.Commit && c.Fold.Window != 0:
		return fmt.Errorf("archiver: Config.Fold of %s has both Commit and Window (%d): Commit folds each record, so leave Window zero", c.Stream, c.Fold.Window)
	}
	if err := c.Keep.Check(); err != nil {
		return fmt.Errorf("archiver: Config.Keep of %s: %w", c.Stream, err)
	}
	return nil
}
