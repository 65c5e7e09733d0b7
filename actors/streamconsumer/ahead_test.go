package streamconsumer

import (
	"context"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/redislog"
)

// A handler that turns slow while the next read is under way: its answer waits
// longer than a command may take, the acknowledgements do not wait for it, and
// no entry of it is run by two members.
func TestHandlerTurnsSlowWhileReadingAhead(t *testing.T) {
	w := newWorld(t)
	client := w.open(redislog.Config{URL: w.server.URL(), CommandTimeout: 400 * time.Millisecond})
	ids := w.append(20)
	slow := make(chan struct{})
	var running gauge
	j := journal{}
	j.then = func(ctx context.Context, d evtlog.Delivery) error {
		defer running.enter(d.ID)()
		if d.ID == ids[7] {
			close(slow)
			return wait(ctx, 1200*time.Millisecond)
		}
		return nil
	}
	calls := countingReads()
	m := w.startOn(client.Log(w.stream), "a", j.handle, calls.option, with(func(c *Config) {
		c.Count, c.MinIdle, c.ClaimEvery = 5, 300*time.Millisecond, time.Hour
	}))
	<-slow
	if n := calls.ahead.Load(); n == 0 {
		t.Fatal("nothing was read ahead, so this test shows nothing")
	}
	w.start("b", j.handle, with(func(c *Config) { c.MinIdle = 300 * time.Millisecond }))
	until(t, "all are handled", func() bool { return w.allDone(ids[19]) })
	if running.overlaps() {
		t.Error("an entry was handled by two members at a time")
	}
	for i, id := range ids {
		if got := j.times(id); got != 1 {
			t.Errorf("entry %d was handled %d times, want once", i, got)
		}
	}
	if s := m.Stats(); s.Reconnects != 0 || s.Failed != 0 {
		t.Errorf("Stats = %+v, want no reconnect", s)
	}
}

// What was read ahead and not offered when the consumer stops stays pending, and
// what was handled is acknowledged behind it on the wire.
func TestStopWhileReadingAhead(t *testing.T) {
	w := newWorld(t)
	ids := w.append(20)
	j := journal{}
	reached := make(chan struct{})
	j.then = func(ctx context.Context, d evtlog.Delivery) error {
		if d.ID == ids[7] {
			close(reached)
			<-ctx.Done()
		}
		return nil
	}
	calls := countingReads()
	m := w.start("a", j.handle, calls.option, with(func(c *Config) { c.Count, c.ClaimEvery = 5, time.Hour }))
	<-reached
	if calls.ahead.Load() == 0 {
		t.Fatal("nothing was read ahead, so this test shows nothing")
	}
	if err := m.halt(); err != nil {
		t.Errorf("Run = %v", err)
	}
	equalIDs(t, "handled", j.ids(), ids[:8])
	left := w.pending()
	if len(left) != 7 || left[0].ID != ids[8] || left[6].ID != ids[14] {
		t.Errorf("pending = %v, want the rest of the batch and the one read ahead", left)
	}
	if s := m.Stats(); s.Acked != 8 || s.NotOwned != 0 {
		t.Errorf("Stats = %+v, want 8 acked", s)
	}
}

// However quick the handler is, what a crash would redeliver is three batches at
// most: the one in hand and two that were read ahead.
func TestReadingAheadIsBounded(t *testing.T) {
	w := newWorld(t)
	ids := w.append(60)
	reached, release := make(chan struct{}), make(chan struct{})
	j := journal{}
	j.then = func(_ context.Context, d evtlog.Delivery) error {
		if d.ID == ids[32] {
			close(reached)
			<-release
		}
		return nil
	}
	calls := countingReads()
	w.start("a", j.handle, calls.option, with(func(c *Config) { c.Count, c.ClaimEvery, c.MinIdle = 5, time.Hour, time.Hour }))
	<-reached
	if calls.ahead.Load() == 0 {
		t.Error("nothing was read ahead, so this test shows nothing")
	}
	// The server works on what was asked of it without the member.
	until(t, "the answers are there", func() bool { return len(w.pending()) > 5 })
	if n := len(w.pending()); n > 15 {
		t.Errorf("%d entries are pending with batches of 5, want 15 at most", n)
	}
	close(release)
	until(t, "all are handled", func() bool { return w.allDone(ids[59]) })
}
