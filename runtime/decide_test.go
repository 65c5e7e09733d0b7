package runtime

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// at returns the nth id of a made-up stream; 0 is no id.
func at(n uint64) evtid.ID {
	var id evtid.ID
	for range n {
		id = id.Next()
	}
	return id
}

func TestFinished(t *testing.T) {
	for _, c := range []struct {
		top, delivered uint64
		pending        int64
		skipped        int
		want           bool
	}{
		{0, 0, 0, 0, true},
		{5, 5, 0, 0, true},
		{5, 6, 0, 0, true},
		{5, 4, 0, 0, false},
		{5, 5, 1, 0, false},
		{5, 5, 0, 1, false},
	} {
		if got := finished(at(c.top), at(c.delivered), c.pending, c.skipped); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestGapBehind(t *testing.T) {
	for _, c := range []struct {
		what                string
		cursor, first, last uint64
		length              int64
		next                uint64
		to                  uint64
		gap                 bool
	}{
		{what: "from the beginning", cursor: 0, first: 7, last: 9, length: 3},
		{what: "still there", cursor: 7, first: 7, last: 9, length: 3},
		{what: "in the middle", cursor: 8, first: 7, last: 9, length: 3},
		{what: "at the end", cursor: 9, first: 7, last: 9, length: 3},
		{what: "beyond the end", cursor: 12, first: 7, last: 9, length: 3},
		{what: "trimmed", cursor: 3, first: 7, last: 9, length: 3, to: 6, gap: true},
		{what: "trimmed to nothing", cursor: 3, last: 9, to: 9, gap: true},
		{what: "emptied behind the end", cursor: 9, last: 9},
		{what: "trimmed to just behind it", cursor: 6, first: 7, last: 9, length: 3},
		{what: "trimmed before the read", cursor: 3, next: 6, first: 6, last: 9, length: 4, to: 5, gap: true},
		{what: "trimmed further after the read", cursor: 3, next: 6, first: 8, last: 9, length: 2, to: 5, gap: true},
		{what: "trimmed after the read began just above", cursor: 3, next: 4, first: 8, last: 9, length: 2},
		{what: "emptied after the read", cursor: 3, next: 6, last: 9, to: 5, gap: true},
		{what: "still there after the read", cursor: 3, next: 6, first: 3, last: 9, length: 3},
	} {
		to, gap := gapBehind(at(c.cursor), at(c.next), redislog.StreamInfo{First: at(c.first), Last: at(c.last), Length: c.length})
		if gap != c.gap || gap && to != at(c.to) {
			t.Errorf("%s: %v up to %s", c.what, gap, to)
		}
	}
}

func TestNextAttempt(t *testing.T) {
	for _, c := range []struct {
		what         string
		attempt      int
		pause, stood time.Duration
		want         int
	}{
		{what: "the first was refused", attempt: -1, want: 0},
		{what: "refused again", attempt: 3, pause: time.Second, want: 4},
		{what: "confirmed and ended", attempt: 3, pause: time.Millisecond, stood: heldFor, want: 4},
		{what: "it stood", attempt: 3, pause: time.Millisecond, stood: heldFor + 1, want: 0},
		{what: "it stood shorter than it was waited for", attempt: 3, pause: time.Second, stood: time.Second, want: 4},
		{what: "it stood longer", attempt: 3, pause: time.Second, stood: 3 * time.Second, want: 0},
	} {
		if got := nextAttempt(c.attempt, c.pause, c.stood); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
}

func TestWorstState(t *testing.T) {
	for _, c := range []struct {
		states []evtlog.State
		want   evtlog.State
	}{
		{nil, evtlog.Ready},
		{[]evtlog.State{evtlog.Ready, evtlog.Starting}, evtlog.Starting},
		{[]evtlog.State{evtlog.Degraded, evtlog.Starting, evtlog.Ready}, evtlog.Degraded},
		{[]evtlog.State{evtlog.Degraded, evtlog.Stopped}, evtlog.Stopped},
		{[]evtlog.State{evtlog.Failed, evtlog.Degraded}, evtlog.Failed},
	} {
		var tree []supervise.Node
		for _, s := range c.states {
			tree = append(tree, supervise.Node{State: s})
		}
		if got := worst(tree); got != c.want {
			t.Errorf("%v: %s, want %s", c.states, got, c.want)
		}
	}
}

// TestObserverPanicIsContained: the program's observer runs in the goroutines of
// the components.
func TestObserverPanicIsContained(t *testing.T) {
	var text strings.Builder
	observer := logged(slog.New(slog.NewTextHandler(&text, nil)), func(evtlog.Event) { panic("of the program") })
	observer(evtlog.Drained{Consumer: "n"})
	if got := text.String(); !strings.Contains(got, "observer panicked") || !strings.Contains(got, "of the program") {
		t.Errorf("logged %q", got)
	}
}

// TestEveryEventHasItsLine logs each kind of event: none falls through to the
// nameless line, and the three that components write themselves are left to them.
func TestEveryEventHasItsLine(t *testing.T) {
	var text strings.Builder
	var passed int
	observer := logged(slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug})), func(evtlog.Event) { passed++ })
	events := []evtlog.Event{
		evtlog.SecondWriter{}, evtlog.StateChanged{}, evtlog.Restarted{}, evtlog.Folded{}, evtlog.Trimmed{}, evtlog.Lost{}, evtlog.Drained{},
		evtlog.Reclaimed{}, evtlog.HandlerFailed{}, evtlog.DeadLettered{}, evtlog.GroupRecreated{}, evtlog.Unbranded{},
		evtlog.ServerWarning{}, evtlog.ServerWarning{Cleared: true},
	}
	for _, e := range events {
		observer(e)
	}
	if passed != len(events) {
		t.Errorf("%d of %d events were passed on", passed, len(events))
	}
	if n := strings.Count(text.String(), "\n"); n != len(events)-3 || strings.Contains(text.String(), "msg=event") {
		t.Errorf("%d lines for %d events:\n%s", n, len(events), &text)
	}
}
