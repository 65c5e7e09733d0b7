package streamconsumer

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

func TestDecideSlot(t *testing.T) {
	for name, tc := range map[string]struct {
		expired, renewed, failed bool
		want                     slotVerdict
	}{
		"renewed":                       {false, true, false, slotKept},
		"no answer, and time left":      {false, false, true, slotLater},
		"no answer, and no time left":   {true, false, true, slotLost},
		"somebody else has it":          {false, false, false, slotLost},
		"granted after it had run out":  {true, true, false, slotLost},
		"not asked, because it ran out": {true, false, false, slotLost},
	} {
		if got := decideSlot(tc.expired, tc.renewed, tc.failed); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}

func nameless(slots int) option { return with(func(c *Config) { c.Name, c.Slots = "", slots }) }

func (w *world) members() (names []string) {
	w.t.Helper()
	members, err := w.log.Members(w.t.Context(), testGroup)
	if err != nil && !errors.Is(err, evtlog.ErrNoGroup) {
		w.t.Fatal(err)
	}
	for _, m := range members {
		names = append(names, m.Name)
	}
	return names
}

// A hundred restarts, every third of them a crash of a kind, leave no more
// members behind than there are slots.
func TestSlotsBoundTheMembers(t *testing.T) {
	w := newWorld(t)
	const slots = 3
	var j journal
	var last evtid.ID
	for i := range 100 {
		m := w.start("", j.handle, nameless(slots), with(func(c *Config) { c.MinIdle = 60 * time.Millisecond }), func(_ *Config, p *ports) {
			if i%3 == 0 {
				p.log = forgetful{p.log}
			}
		})
		last = w.append(1)[0]
		until(t, "it works", func() bool { return j.times(last) > 0 })
		m.halt()
	}
	until(t, "nothing is left to do", func() bool { return w.allDone(last) })
	if names := w.members(); len(names) > slots {
		t.Errorf("members = %v, want at most %d", names, slots)
	}
}

// forgetful does not give leases back, as a process that crashes.
type forgetful struct{ groupLog }

func (forgetful) ReleaseLease(context.Context, string, string) error { return nil }

// Members without a name share the work under names of their own, and a further
// one waits until a name is free.
func TestSlotsAreHeldByOneMemberEach(t *testing.T) {
	w := newWorld(t)
	var j journal
	a := w.start("", j.handle, nameless(2))
	<-a.ready
	b := w.start("", j.handle, nameless(2))
	<-b.ready
	if a.Stats().Member != "slot-1" || b.Stats().Member != "slot-2" {
		t.Errorf("names %q and %q", a.Stats().Member, b.Stats().Member)
	}
	c := w.start("", j.handle, nameless(2))
	until(t, "the third finds no name", func() bool { return c.Stats().Reconnects > 0 })
	if name := c.Stats().Member; name != "" {
		t.Errorf("the third has the name %q", name)
	}
	a.halt()
	<-c.ready
	if name := c.Stats().Member; name != "slot-1" {
		t.Errorf("the third has the name %q", name)
	}
	ids := w.append(10)
	until(t, "all are done", func() bool { return w.allDone(ids[9]) })
	if j.len() != 10 {
		t.Errorf("%d deliveries, want 10", j.len())
	}
}

// What a dead process left pending under a slot is drained by the next one that
// takes it.
func TestSlotOfTheDeadIsDrained(t *testing.T) {
	w := newWorld(t)
	ids := w.append(3)
	w.abandon("slot-1", 3)
	if ok, err := w.log.AcquireLease(t.Context(), "slot:"+testGroup+":slot-1", "dead", 300*time.Millisecond); !ok || err != nil {
		t.Fatal(ok, err)
	}
	var j journal
	m := w.start("", j.handle, nameless(1), with(func(c *Config) { c.MinIdle = time.Minute }))
	until(t, "all are done", func() bool { return w.allDone(ids[2]) })
	equalIDs(t, "handled", j.ids(), ids)
	if drained := eventsOf[evtlog.Drained](m.events); len(drained) == 0 || drained[0].Entries != 3 || drained[0].Consumer != "slot-1" {
		t.Errorf("drained %v", drained)
	}
}

// A process that lost its name stops working on what it has, acknowledges
// nothing of it, and goes on under another name.
func TestLostSlotIsFenced(t *testing.T) {
	for name, opt := range map[string]option{"one worker": workers(1, nil), "two workers": workers(2, nil)} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ids := w.append(6)
			causes := make(chan error, 10)
			began := make(chan struct{}, 10)
			j := journal{}
			j.then = func(ctx context.Context, d evtlog.Delivery) error {
				if d.ID != ids[0] || d.Attempts > 1 {
					return nil
				}
				began <- struct{}{}
				<-ctx.Done()
				causes <- context.Cause(ctx)
				return nil
			}
			m := w.start("", j.handle, nameless(2), opt)
			<-began
			w.server.Do("SET", w.stream.Lease("slot:"+testGroup+":slot-1"), "somebody else", "PX", "60000")
			if err := <-causes; !errors.Is(err, ErrNotOwner) {
				t.Errorf("cause = %v", err)
			}
			until(t, "it goes on under another name", func() bool { return m.Stats().Member == "slot-2" })
			// Its peers, itself under the new name among them, take the rest over.
			until(t, "all are done", func() bool { return w.allDone(ids[5]) })
			if j.times(ids[0]) != 2 {
				t.Errorf("the entry in hand was offered %d times, want once more", j.times(ids[0]))
			}
		})
	}
}

// A frozen process finds out by its own clock, before it offers anything.
func TestExpiredSlotIsNotTrusted(t *testing.T) {
	w := newWorld(t)
	ids := w.append(2)
	began, release := make(chan struct{}), make(chan struct{})
	j := journal{}
	j.then = func(_ context.Context, d evtlog.Delivery) error {
		if d.ID == ids[0] && d.Attempts == 1 {
			close(began)
			<-release
		}
		return nil
	}
	m := w.start("", j.handle, nameless(4), with(func(c *Config) { c.MinIdle = time.Hour }))
	<-began
	r := m.current.Load()
	r.slot.hold("slot-1", time.Now().Add(-time.Second)) // as if an hour had passed
	close(release)
	until(t, "all are done", func() bool { return w.allDone(ids[1]) })
	// Its lease is still there, so it has the name again; but it has started over,
	// as if somebody had been at work under it.
	if d := j.deliveries(); len(d) != 2 || d[1].ID != ids[1] || d[1].Attempts != 2 {
		t.Errorf("deliveries %v; want the second entry drained after the name was taken anew", d)
	}
	if s := m.Stats(); s.Reconnects != 1 {
		t.Errorf("Stats = %+v, want one reconnect", s)
	}
}

func TestConfigRefusesSlots(t *testing.T) {
	for i, change := range []func(*Config){
		func(c *Config) { c.Name, c.Slots = "", -1 },
		func(c *Config) { c.Name, c.Slots = "", MaxSlots+1 },
		func(c *Config) { c.Name, c.Slots = "a", 5 },
		func(c *Config) { c.Name = "slot-1" },
		func(c *Config) { c.Name = "slot-1000" },
	} {
		cfg := Config{Stream: testStream(t), Group: "g", Start: FromHead, Handler: (&journal{}).handle}
		change(&cfg)
		if err := cfg.withDefaults().validate(); err == nil {
			t.Error(fmt.Sprint("case ", i), "was accepted")
		}
	}
	cfg := Config{Stream: testStream(t), Group: "g", Start: FromHead, Handler: (&journal{}).handle}
	if err := cfg.withDefaults().validate(); err != nil {
		t.Errorf("no name: %v", err)
	}
}

// A server without memory takes no new lease, but the one on a name is extended:
// the member goes on, and what it has in hand stays its own.
func TestSlotOutlastsAServerWithoutMemory(t *testing.T) {
	w := newWorld(t)
	ids := w.append(2)
	began, release := make(chan struct{}), make(chan struct{})
	j := journal{then: func(ctx context.Context, d evtlog.Delivery) error {
		if d.ID == ids[0] {
			close(began)
			select {
			case <-release:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	}}
	m := w.start("", j.handle, with(func(c *Config) { c.MinIdle = 200 * time.Millisecond }))
	<-began
	w.server.Do("CONFIG", "SET", "maxmemory", "1")
	from := time.Now()
	until(t, "the lease would have run out", func() bool { return time.Since(from) > 3*m.cfg.MinIdle })
	close(release)
	until(t, "all are done", func() bool { return w.allDone(ids[1]) })
	equalIDs(t, "handled", j.ids(), ids)
	if s := m.Stats(); s.Reconnects != 0 || s.Member != "slot-1" || s.Failed != 0 {
		t.Errorf("Stats = %+v", s)
	}
}
