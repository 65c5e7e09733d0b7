package streamconsumer

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/actors/supervise/supervisetest"
)

func TestStopOfAParkedMemberTakesNoTime(t *testing.T) {
	w := newWorld(t)
	var j journal
	m := w.start("a", j.handle, with(func(c *Config) { c.Block, c.ClaimEvery = time.Minute, time.Minute }))
	<-m.ready
	until(t, "it is parked", m.parked)
	began := time.Now()
	if err := m.halt(); err != nil {
		t.Errorf("Run = %v", err)
	}
	if took := time.Since(began); took > 100*time.Millisecond {
		t.Errorf("the stop took %s", took)
	}
}

func (m *member) parked() bool {
	r := m.current.Load()
	if r == nil {
		return false
	}
	r.gate.mu.Lock()
	defer r.gate.mu.Unlock()
	return r.gate.parked
}

// A stop lets the entry in hand finish, acknowledges it, and leaves the rest of
// the batch pending.
func TestStopFinishesTheEntryInHand(t *testing.T) {
	w := newWorld(t)
	ids := w.append(5)
	began := make(chan struct{})
	causes := make(chan error, 1)
	j := journal{}
	j.then = func(ctx context.Context, d evtlog.Delivery) error {
		if d.ID != ids[1] {
			return nil
		}
		close(began)
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return wait(context.WithoutCancel(ctx), 2*time.Second)
	}
	m := w.start("a", j.handle)
	<-began
	if err := m.halt(); err != nil {
		t.Errorf("Run = %v", err)
	}
	if err := <-causes; !errors.Is(err, evtlog.ErrStopped) {
		t.Errorf("cause = %v, want ErrStopped", err)
	}
	equalIDs(t, "handled", j.ids(), ids[:2])
	left := w.pending()
	if len(left) != 3 || left[0].ID != ids[2] {
		t.Errorf("pending = %v, want the three that were not offered", left)
	}
	if s := m.Stats(); s.Acked != 2 {
		t.Errorf("Stats.Acked = %d, want 2", s.Acked)
	}
	var second journal
	w.start("a", second.handle)
	until(t, "the rest is handled", func() bool { return w.allDone(ids[4]) })
	equalIDs(t, "after the restart", second.ids(), ids[2:])
}

// A handler that gives up because of the stop has not failed.
func TestStopIsNoFailureOfTheEntry(t *testing.T) {
	w := newWorld(t)
	w.append(1)
	began := make(chan struct{})
	j := journal{then: func(ctx context.Context, _ evtlog.Delivery) error {
		close(began)
		<-ctx.Done()
		return context.Cause(ctx)
	}}
	m := w.start("a", j.handle, with(func(c *Config) { c.MaxDeliveries = 1 }))
	<-began
	m.halt()
	if s := m.Stats(); s.Failed != 0 || s.Dead != 0 {
		t.Errorf("Stats = %+v", s)
	}
	if len(w.pending()) != 1 {
		t.Errorf("pending = %v, want the entry", w.pending())
	}
}

// Stopped under load, at any moment, nothing that was handled is delivered again.
func TestStopUnderLoadRepeatsNothing(t *testing.T) {
	w := newWorld(t)
	ids := w.append(600)
	var j journal
	for range 12 {
		m := w.start("a", j.handle, with(func(c *Config) { c.Count = 10 }))
		seen := j.len()
		until(t, "some are handled", func() bool { return j.len() >= seen+15 || j.len() == len(ids) })
		if err := m.halt(); err != nil {
			t.Fatal(err)
		}
	}
	w.start("a", j.handle)
	until(t, "all are handled", func() bool { return w.allDone(ids[len(ids)-1]) })
	equalIDs(t, "handled, each once and in order", j.ids(), ids)
}

func TestStopWhileTheServerIsGone(t *testing.T) {
	w := newWorld(t)
	var j journal
	m := w.start("a", j.handle)
	<-m.ready
	w.server.Kill()
	until(t, "it has noticed", func() bool { return m.Stats().Reconnects > 0 })
	began := time.Now()
	if err := m.halt(); err != nil {
		t.Errorf("Run = %v", err)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("the stop took %s", took)
	}
}

func TestLifecycle(t *testing.T) {
	w := newWorld(t)
	supervisetest.StressRunner(t, func() supervise.Spec {
		c, err := New(Config{
			Stream: w.stream, Group: testGroup, Name: "a", Start: FromHead,
			Handler: func(context.Context, evtlog.Delivery) error { return nil },
		}, w.log, nil, w.dead)
		if err != nil {
			t.Fatal(err)
		}
		return c.Spec()
	})
}
