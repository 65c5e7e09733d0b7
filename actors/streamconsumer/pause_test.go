package streamconsumer

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

// A pause lets the running delivery finish, acknowledges it, gives the rest of
// the batch back, and reads nothing more. After Resume what nobody took comes
// first.
func TestPauseAndResume(t *testing.T) {
	for name, opt := range map[string]option{"one worker": workers(1, nil), "two workers": workers(2, byNumber(1))} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ids := w.append(4)
			began, release := make(chan struct{}), make(chan struct{})
			j := journal{then: func(ctx context.Context, d evtlog.Delivery) error {
				if d.ID == ids[0] {
					close(began)
					<-release
				}
				return nil
			}}
			m := w.start("a", j.handle, opt)
			<-began
			m.Pause()
			m.Pause()
			if m.Stats().Paused {
				t.Error("at rest while a handler runs")
			}
			close(release)
			until(t, "it rests", func() bool { return m.Stats().Paused })
			late := w.append(1)
			if p := w.pending(); len(p) != 3 || p[0].Idle < m.cfg.MinIdle || j.len() != 1 {
				t.Errorf("pending %+v after %d deliveries, want three given back, 1", p, j.len())
			}
			if s := m.Stats(); s.Acked != 1 || s.InHand != 0 || s.Running != 0 {
				t.Errorf("Stats = %+v", s)
			}
			m.Resume()
			until(t, "all are done", func() bool { return w.allDone(late[0]) })
			equalIDs(t, "handled", j.ids(), append(ids, late...))
			if m.Stats().Paused {
				t.Error("still at rest")
			}
		})
	}
}

// What a paused member gives back is handled by a peer at once, and an entry in
// its back-off when that is over.
func TestPausedMemberLeavesItsWorkToPeers(t *testing.T) {
	w := newWorld(t)
	ids := w.append(3)
	failed := make(chan struct{})
	j := journal{then: func(ctx context.Context, d evtlog.Delivery) error {
		if d.ID == ids[0] {
			return evtlog.RetryAfter(600*time.Millisecond, errors.New("later"))
		}
		close(failed)
		return wait(context.WithoutCancel(ctx), 50*time.Millisecond)
	}}
	long := with(func(c *Config) { c.MinIdle = time.Minute })
	m := w.start("a", j.handle, long)
	<-failed
	m.Pause()
	until(t, "it rests", func() bool { return m.Stats().Paused })
	var peer journal
	w.start("b", peer.handle, long)
	until(t, "the rest of the batch is handled", func() bool { return peer.times(ids[2]) == 1 })
	if peer.times(ids[0]) != 0 {
		t.Error("the entry was taken out of its back-off")
	}
	until(t, "so is the failed one", func() bool { return peer.times(ids[0]) == 1 && len(w.pending()) == 0 })
	if d := peer.deliveries(); d[len(d)-1].Attempts != 2 {
		t.Errorf("attempts = %d, want 2", d[len(d)-1].Attempts)
	}
	m.Resume()
	last := w.append(1)
	until(t, "both work", func() bool { return w.allDone(last[0]) })
	if n := j.len(); n > 3 {
		t.Errorf("the paused member handled %v", j.ids())
	}
}

// A member that is paused before it starts, or over a lost connection, stays
// paused, and stops as fast as any.
func TestPauseOutlivesTheConnection(t *testing.T) {
	w := newWorld(t)
	ids := w.append(2)
	var j journal
	m := w.start("a", j.handle, func(c *Config, p *ports) {}, with(func(c *Config) { c.Block = time.Minute }))
	until(t, "they are handled", func() bool { return w.allDone(ids[1]) })
	until(t, "it is parked", m.parked)
	m.Pause()
	for _, id := range w.readerIDs() {
		w.server.Do("CLIENT", "KILL", "ID", id)
	}
	until(t, "it rests", func() bool { return m.Stats().Paused })
	w.append(1)
	began := time.Now()
	if err := m.halt(); err != nil || time.Since(began) > time.Second {
		t.Errorf("Run = %v after %s", err, time.Since(began))
	}
	if j.len() != 2 {
		t.Errorf("handled %v", j.ids())
	}
}

// However a pause falls into the work, nothing is forgotten in hand.
func TestPausesAtRandomMomentsForgetNothing(t *testing.T) {
	for name, opt := range map[string]option{"one worker": workers(1, nil), "four workers": workers(4, byNumber(8))} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ids := w.append(500)
			var g gauge
			var j journal
			m := w.start("a", func(ctx context.Context, d evtlog.Delivery) error {
				defer g.enter(d.ID)()
				if d.Attempts == 1 && d.ID.Snowflake()%7 == 0 {
					return errors.New("later")
				}
				return j.handle(ctx, d)
			}, opt, with(func(c *Config) { c.Count = 20 }))
			for last := 0; !w.allDone(ids[len(ids)-1]); {
				m.Pause()
				if last%3 == 0 {
					until(t, "it rests", func() bool { return m.Stats().Paused })
				}
				m.Resume()
				seen := j.len()
				until(t, "it goes on", func() bool { return j.len() > seen || w.allDone(ids[len(ids)-1]) })
				last++
			}
			handled := map[evtid.ID]bool{}
			for _, id := range j.ids() {
				handled[id] = true
			}
			if len(handled) != len(ids) || j.len() != len(ids) || g.overlaps() {
				t.Errorf("%d of %d handled in %d deliveries, overlap %v", len(handled), len(ids), j.len(), g.overlaps())
			}
		})
	}
}

// A consumer that does not run, as one that has given up, is at rest at once: who
// waits for that does not wait for ever.
func TestPauseOfAConsumerThatDoesNotRun(t *testing.T) {
	w := newWorld(t)
	var j journal
	m := w.start("a", j.handle)
	<-m.ready
	if err := m.halt(); err != nil {
		t.Fatal(err)
	}
	m.Pause()
	if !m.Stats().Paused {
		t.Error("not at rest")
	}
	m.Resume()
	if m.Stats().Paused {
		t.Error("at rest after Resume")
	}
}
