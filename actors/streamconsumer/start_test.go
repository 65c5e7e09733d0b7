package streamconsumer

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
)

func TestFromHeadDeliversWhatIsThere(t *testing.T) {
	w := newWorld(t)
	ids := w.append(250)
	var j journal
	m := w.start("a", j.handle)
	until(t, "all entries are handled", func() bool { return j.len() == 250 })
	ids = append(ids, w.append(3)...)
	until(t, "later entries are handled", func() bool { return j.len() == 253 })
	equalIDs(t, "order", j.ids(), ids)
	for _, d := range j.deliveries() {
		if d.Attempts != 1 || d.Group != testGroup || d.Stream.String() != "cm/feed" || d.Source != evtlog.Live {
			t.Fatalf("delivery = %+v", d)
		}
	}
	if v, _ := j.deliveries()[7].Get("n"); v != "7" {
		t.Errorf("field n = %q, want 7", v)
	}
	if err := m.halt(); err != nil {
		t.Errorf("Run = %v, want nil after a stop", err)
	}
	if left := w.pending(); len(left) != 0 {
		t.Errorf("pending after a clean stop: %v", left)
	}
	if s := m.Stats(); s.Delivered != 253 || s.Acked != 253 || s.NotOwned != 0 || s.LastReply.IsZero() {
		t.Errorf("Stats = %+v", s)
	}
}

func TestFromNewLeavesOutWhatIsThere(t *testing.T) {
	w := newWorld(t)
	w.append(5)
	var j journal
	m := w.start("a", j.handle, with(func(c *Config) { c.Start = FromNew }))
	<-m.ready
	ids := w.append(3)
	until(t, "new entries are handled", func() bool { return j.len() >= 3 })
	equalIDs(t, "handled", j.ids(), ids)
}

func TestAnExistingGroupGoesOnWhereItWas(t *testing.T) {
	w := newWorld(t)
	ids := w.append(4)
	var first, second journal
	m := w.start("a", first.handle)
	until(t, "handled", func() bool { return first.len() == 4 })
	m.halt()
	ids = append(ids, w.append(2)...)
	// Start says where a group is made, not where a member begins.
	w.start("b", second.handle, with(func(c *Config) { c.Start = FromNew }))
	until(t, "the rest is handled", func() bool { return second.len() == 2 })
	equalIDs(t, "second member", second.ids(), ids[4:])
}

// A restart under the same name hands out what it left pending, in order, before
// anything new.
func TestRestartDrainsOwnPendingFirst(t *testing.T) {
	w := newWorld(t)
	ids := w.append(10)
	w.abandon("a", 7)
	var j journal
	m := w.start("a", j.handle, with(func(c *Config) { c.Count = 3 }))
	until(t, "all are handled", func() bool { return j.len() == 10 })
	equalIDs(t, "order", j.ids(), ids)
	var attempts []int
	for _, d := range j.deliveries() {
		attempts = append(attempts, d.Attempts)
	}
	if want := []int{2, 2, 2, 2, 2, 2, 2, 1, 1, 1}; !slices.Equal(attempts, want) {
		t.Errorf("attempts = %v, want %v", attempts, want)
	}
	if got := eventsOf[evtlog.Drained](m.events); len(got) != 1 || got[0].Entries != 7 || got[0].Consumer != "a" {
		t.Errorf("Drained = %+v, want one with 7 entries", got)
	}
	until(t, "nothing is pending", func() bool { return len(w.pending()) == 0 })
}

// The pass over the own pending list takes one read per page and ends.
func TestDrainEndsAndIsPaged(t *testing.T) {
	w := newWorld(t)
	w.append(95)
	w.abandon("a", 95)
	failing := errors.New("not now")
	j := journal{then: func(_ context.Context, d evtlog.Delivery) error {
		if d.Attempts == 2 {
			return failing
		}
		return nil
	}}
	calls := countingReads()
	m := w.start("a", j.handle, calls.option, with(func(c *Config) {
		c.Count = 10
		c.RetryMin, c.RetryMax = time.Hour, time.Hour
	}))
	until(t, "the pass is over", func() bool { return len(eventsOf[evtlog.Drained](m.events)) == 1 })
	if got := j.len(); got != 95 {
		t.Errorf("the pass offered %d entries, want each of 95 once", got)
	}
	if got := calls.pending.Load(); got > 95/10+1 {
		t.Errorf("the pass took %d reads, want at most pending/Count+1", got)
	}
	// Waiting for their back-off, they do not keep new ones away.
	ids := w.append(1)
	until(t, "the new entry is handled", func() bool { return j.times(ids[0]) == 1 })
	if s := m.Stats(); s.Waiting != 95 {
		t.Errorf("Stats.Waiting = %d, want 95", s.Waiting)
	}
}

func TestEntryAppendedAfterReadyArrives(t *testing.T) {
	w := newWorld(t)
	var j journal
	m := w.start("a", j.handle, with(func(c *Config) { c.Start, c.Block = FromNew, 5*time.Second }))
	<-m.ready
	began := time.Now()
	ids := w.append(1)
	until(t, "it arrives", func() bool { return j.len() == 1 })
	equalIDs(t, "arrived", j.ids(), ids)
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("a parked member took %s to see an entry", took)
	}
}
