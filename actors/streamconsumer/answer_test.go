package streamconsumer

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
)

func TestAnswersAreRecognized(t *testing.T) {
	plain := errors.New("boom")
	for name, tc := range map[string]struct {
		err   error
		pause time.Duration
		asked bool
		dead  bool
	}{
		"nothing":             {},
		"a plain error":       {err: plain},
		"a pause":             {err: evtlog.RetryAfter(time.Hour, plain), pause: time.Hour, asked: true},
		"at once":             {err: evtlog.RetryAfter(-time.Second, nil), asked: true},
		"a pause, wrapped":    {err: fmt.Errorf("notify: %w", evtlog.RetryAfter(time.Second, plain)), pause: time.Second, asked: true},
		"made by hand":        {err: &evtlog.RetryError{After: -1}, asked: true},
		"dead":                {err: evtlog.Dead("unreadable"), dead: true},
		"dead, wrapped":       {err: fmt.Errorf("notify: %w", evtlog.Dead("unreadable")), dead: true},
		"dead within a pause": {err: evtlog.RetryAfter(time.Second, evtlog.Dead("no")), pause: time.Second, asked: true, dead: true},
	} {
		pause, asked := askedPause(tc.err)
		if pause != tc.pause || asked != tc.asked || isDead(tc.err) != tc.dead {
			t.Errorf("%s: pause %s, %v, dead %v; want %s, %v, %v", name, pause, asked, isDead(tc.err), tc.pause, tc.asked, tc.dead)
		}
	}
	if err := evtlog.RetryAfter(time.Second, plain); !errors.Is(err, plain) || err.Error() != "boom" {
		t.Errorf("the reason is hidden: %v", err)
	}
}

// Dead moves an entry at its first attempt, also when attempts have no limit.
func TestDeadAnswerNeedsNoFurtherAttempt(t *testing.T) {
	w := newWorld(t)
	ids := w.append(3)
	j := journal{then: func(_ context.Context, d evtlog.Delivery) error {
		if d.ID == ids[1] {
			return fmt.Errorf("parse: %w", evtlog.Dead("no such event"))
		}
		return nil
	}}
	began := time.Now().Add(-time.Second)
	m := w.start("a", j.handle, with(func(c *Config) { c.MaxDeliveries = -1 }))
	until(t, "all are done", func() bool { return w.allDone(ids[2]) })
	equalIDs(t, "handled", j.ids(), ids)
	letters := w.records(w.deadLog())
	if len(letters) != 1 {
		t.Fatalf("%d dead letters, want 1", len(letters))
	}
	for name, want := range map[string]string{FieldAttempts: "1", FieldGroup: testGroup, FieldOrigin: ids[1].String(), FieldReason: "parse: no such event"} {
		if got, _ := letters[0].Get(name); got != want {
			t.Errorf("letter has %s = %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{FieldFirst, FieldLast} {
		v, _ := letters[0].Get(name)
		if at, ok := parseTime(v); !ok || at.Before(began) || at.After(time.Now()) {
			t.Errorf("letter has %s = %q", name, v)
		}
	}
	if s := m.Stats(); s.Dead != 1 || s.Failed != 1 || s.Acked != 3 {
		t.Errorf("Stats = %+v", s)
	}
}

// The pause of a handler stands in place of the back-off, in both directions.
func TestAskedPauseOverridesTheBackOff(t *testing.T) {
	w := newWorld(t)
	ids := w.append(2)
	const long = 300 * time.Millisecond
	j := journal{then: func(_ context.Context, d evtlog.Delivery) error {
		switch {
		case d.Attempts > 1:
			return nil
		case d.ID == ids[0]:
			return evtlog.RetryAfter(long, errors.New("later"))
		}
		return evtlog.RetryAfter(0, errors.New("at once"))
	}}
	began := time.Now()
	slow := with(func(c *Config) { c.RetryMin, c.RetryMax = time.Hour, time.Hour })
	w.start("a", j.handle, slow)
	until(t, "all are done", func() bool { return w.allDone(ids[1]) })
	if took := time.Since(began); took < long {
		t.Errorf("the entry was offered again after %s, asked for %s", took, long)
	}
	if got := j.ids(); len(got) != 4 || got[2] != ids[1] || got[3] != ids[0] {
		t.Errorf("offered %v", got)
	}
}

// A record from the archive is answered for like any other.
func TestAnswersForArchivedRecords(t *testing.T) {
	w, ids, arch := late(t, 4, 3)
	j := journal{then: func(_ context.Context, d evtlog.Delivery) error {
		switch {
		case d.ID == ids[0]:
			return evtlog.Dead("unreadable")
		case d.ID == ids[1] && d.Attempts == 1:
			return evtlog.RetryAfter(0, nil)
		}
		return nil
	}}
	w.start("a", j.handle, withArchive(arch), with(func(c *Config) { c.RetryMin, c.RetryMax = time.Hour, time.Hour }))
	until(t, "all are done", func() bool { return w.settledAt(ids[3]) })
	if j.len() != 5 || j.times(ids[1]) != 2 {
		t.Errorf("offered %v", j.ids())
	}
	letters := w.records(w.deadLog())
	if len(letters) != 1 {
		t.Fatalf("%d dead letters, want 1", len(letters))
	}
	if origin, _ := letters[0].Get(FieldOrigin); origin != ids[0].String() {
		t.Errorf("the letter is of %s, want %s", origin, ids[0])
	}
}
