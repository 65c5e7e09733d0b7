package streamconsumer

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

// The sweep keeps its cursor: old entries behind many fresh ones are reached.
func TestClaimCursorIsKept(t *testing.T) {
	w := newWorld(t)
	ids := w.append(150)
	w.abandon("dead", 150)
	// The first 100 are renewed all the time, as by a member that is alive.
	alive, halt := context.WithCancel(t.Context())
	defer halt()
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		for alive.Err() == nil {
			if _, err := w.log.Renew(alive, testGroup, "dead", ids[:100], time.Minute); err != nil && alive.Err() == nil {
				t.Error(err)
			}
			_ = wait(alive, 50*time.Millisecond)
		}
	}()
	var j journal
	calls := countingReads()
	w.start("b", j.handle, calls.option, with(func(c *Config) { c.Count, c.MinIdle = 10, 500*time.Millisecond }))
	until(t, "the idle entries are handled", func() bool { return j.len() >= 50 && len(w.pending()) == 100 })
	equalIDs(t, "taken over", j.ids(), ids[100:])
	for _, d := range j.deliveries() {
		if d.Attempts != 2 {
			t.Errorf("Attempts of %s = %d, want 2", d.ID, d.Attempts)
		}
	}
	halt()
	<-renewed
}

// A handler slower than MinIdle keeps its entry, and so do the entries that wait
// behind it in the batch.
func TestSlowHandlerIsNotRunTwice(t *testing.T) {
	w := newWorld(t)
	ids := w.append(6)
	var running gauge
	j := journal{then: func(ctx context.Context, d evtlog.Delivery) error {
		defer running.enter(d.ID)()
		return wait(ctx, 700*time.Millisecond)
	}}
	slow := with(func(c *Config) { c.MinIdle, c.Count = 300*time.Millisecond, 3 })
	a := w.start("a", j.handle, slow)
	b := w.start("b", j.handle, slow)
	until(t, "all are handled", func() bool { return w.allDone(ids[5]) })
	if running.overlaps() {
		t.Error("an entry was handled by two members at a time")
	}
	for i, id := range ids {
		if got := j.times(id); got != 1 {
			t.Errorf("entry %d was handled %d times, want once", i, got)
		}
	}
	for _, m := range []*member{a, b} {
		if s := m.Stats(); s.Reclaimed != 0 || s.NotOwned != 0 || s.Delivered == 0 {
			t.Errorf("Stats of %s = %+v", m.cfg.Name, s)
		}
	}
}

// An entry that waits for its back-off stays with its member, though it waits
// longer than MinIdle.
func TestWaitingEntryIsNotTakenByPeers(t *testing.T) {
	w := newWorld(t)
	ids := w.append(1)
	failed := make(chan struct{})
	first := journal{}
	first.then = func(_ context.Context, d evtlog.Delivery) error {
		if d.Attempts == 1 {
			close(failed)
			return errors.New("later")
		}
		return nil
	}
	w.start("a", first.handle, with(func(c *Config) {
		c.MinIdle = 300 * time.Millisecond
		c.RetryMin, c.RetryMax = 2*time.Second, 2*time.Second // halved by the test's random number
	}))
	<-failed
	var peer journal
	w.start("b", peer.handle, with(func(c *Config) { c.MinIdle = 300 * time.Millisecond }))
	until(t, "the entry is handled", func() bool { return w.allDone(ids[0]) })
	if first.len() != 2 || peer.len() != 0 {
		t.Errorf("handled %d times by its member and %d times by a peer, want 2 and 0", first.len(), peer.len())
	}
}

// A member that finds out that a peer has taken the entry cancels its handler
// and does not acknowledge.
func TestLostEntryCancelsItsHandler(t *testing.T) {
	w := newWorld(t)
	ids := w.append(3)
	began := make(chan struct{})
	cause := make(chan error, 1)
	j := journal{}
	j.then = func(ctx context.Context, d evtlog.Delivery) error {
		if d.ID == ids[0] {
			close(began)
			<-ctx.Done()
			cause <- context.Cause(ctx)
		}
		return nil
	}
	m := w.start("a", j.handle, with(func(c *Config) { c.ClaimEvery = time.Hour }))
	<-began
	// The second entry of the batch is taken as well.
	w.server.Do("XCLAIM", w.stream.Key(), testGroup, "thief", "0", ids[0].Entry(), ids[1].Entry())
	if err := <-cause; !errors.Is(err, ErrNotOwner) {
		t.Errorf("cause = %v, want ErrNotOwner", err)
	}
	until(t, "the third entry is handled", func() bool { return j.times(ids[2]) == 1 })
	until(t, "only the thief's are pending", func() bool { return len(w.pending()) == 2 && m.Stats().Acked == 1 })
	equalIDs(t, "handled", j.ids(), []evtid.ID{ids[0], ids[2]})
	for _, p := range w.pending() {
		if p.Consumer != "thief" {
			t.Errorf("pending = %+v", p)
		}
	}
	if s := m.Stats(); s.Failed != 0 {
		t.Errorf("Stats = %+v, want none failed", s)
	}
}

// After a frozen time in which a peer took over, the rest of the batch is looked
// at before it is offered.
func TestOwnershipIsProvedAfterALongPause(t *testing.T) {
	w := newWorld(t)
	ids := w.append(3)
	release := make(chan struct{})
	began := make(chan struct{})
	j := journal{}
	j.then = func(_ context.Context, d evtlog.Delivery) error {
		if d.ID == ids[0] {
			close(began)
			<-release
		}
		return nil
	}
	deaf := &deafLog{groupLog: w.log}
	m := w.start("a", j.handle, func(c *Config, p *ports) {
		c.MinIdle, c.ClaimEvery, c.Block = 300*time.Millisecond, time.Hour, time.Second
		p.log = deaf
	})
	<-began
	deaf.deaf.Store(true) // no renewal gets through, as in a frozen process
	until(t, "time passes", func() bool { return m.current.Load().hand.unprovedFor(time.Now()) > 300*time.Millisecond })
	w.server.Do("XCLAIM", w.stream.Key(), testGroup, "thief", "0", ids[1].Entry(), ids[2].Entry())
	deaf.deaf.Store(false)
	close(release)
	until(t, "the batch is over", func() bool { return len(w.pending()) == 2 && m.Stats().Acked == 1 })
	equalIDs(t, "handled", j.ids(), ids[:1])
}

func TestCancelReachesTheRunningDelivery(t *testing.T) {
	w := newWorld(t)
	ids := w.append(3)
	began := make(chan struct{})
	causes := make(chan error, 3)
	j := journal{}
	j.then = func(ctx context.Context, d evtlog.Delivery) error {
		if d.ID == ids[1] && d.Attempts == 1 {
			close(began)
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return ctx.Err()
		}
		return ctx.Err()
	}
	m := w.start("a", j.handle)
	<-began
	enough := errors.New("the user gave up")
	if m.Cancel(ids[0], enough) || m.Cancel(ids[2], enough) {
		t.Error("Cancel says yes to a delivery that does not run")
	}
	if got := m.Stats().Handling; got != ids[1] {
		t.Errorf("Stats.Handling = %s, want %s", got, ids[1])
	}
	if !m.Cancel(ids[1], enough) {
		t.Error("Cancel says no to the delivery that runs")
	}
	if err := <-causes; !errors.Is(err, enough) {
		t.Errorf("cause = %v, want the one given", err)
	}
	// The next deliveries of the batch are not cancelled with it.
	until(t, "all are handled", func() bool { return w.allDone(ids[2]) })
	if j.times(ids[2]) != 1 || j.times(ids[1]) != 2 {
		t.Errorf("handled %d and %d times, want 2 and 1", j.times(ids[1]), j.times(ids[2]))
	}
	if m.Cancel(ids[1], enough) {
		t.Error("Cancel says yes to a delivery that is over")
	}
}
