package streamconsumer

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

// trimmedInHand starts a member whose handler of the first record takes longer
// than MinIdle, trims everything while it runs, into a if there is one, and
// starts a peer.
func trimmedInHand(t *testing.T, w *world, a *memory, opts ...option) (ids []evtid.ID, j *journal, running *gauge, members [2]*member) {
	t.Helper()
	j, running = &journal{}, &gauge{}
	began := make(chan struct{})
	ids = w.append(6)
	j.then = func(ctx context.Context, d evtlog.Delivery) error {
		defer running.enter(d.ID)()
		if d.ID != ids[0] {
			return nil
		}
		close(began)
		return wait(ctx, time.Second)
	}
	opts = append(opts, with(func(c *Config) {
		c.MinIdle, c.ClaimEvery, c.Block, c.Count = 300*time.Millisecond, 20*time.Millisecond, 20*time.Millisecond, 3
	}))
	members[0] = w.start("slow", j.handle, opts...)
	<-began
	if a != nil {
		w.fold(a, ids[5])
	} else if _, err := w.log.TrimThrough(t.Context(), ids[5]); err != nil {
		t.Fatal(err)
	}
	members[1] = w.start("peer", j.handle, opts...)
	return ids, j, running, members
}

// An entry that is trimmed while its handler runs stays with its member, for
// longer than MinIdle, and is handled once. So are those behind it in the batch.
func TestEntryTrimmedInHandIsHandledOnce(t *testing.T) {
	for _, workers := range []int{1, 2} {
		w := newWorld(t)
		a := newMemory()
		ids, j, running, _ := trimmedInHand(t, w, a, withArchive(a), with(func(c *Config) { c.Workers = workers }))
		until(t, "all are handled", func() bool { return w.settledAt(ids[5]) })
		if running.overlaps() {
			t.Error("an entry was handled by two members at a time")
		}
		for i, id := range ids {
			// What several workers have just finished when the trim comes may be
			// recorded all the same, and come once more.
			if n := j.times(id); n != 1 && (workers == 1 || i < 3) {
				t.Errorf("%d workers: entry %d was handled %d times", workers, i, n)
			}
		}
	}
}

// Without an archive it is not reported as lost, and the rest is.
func TestEntryTrimmedInHandIsNotLost(t *testing.T) {
	w := newWorld(t)
	ids, j, running, members := trimmedInHand(t, w, nil)
	until(t, "all is settled", func() bool { return w.settledAt(ids[5]) })
	if running.overlaps() {
		t.Error("an entry was handled by two members at a time")
	}
	for i, id := range ids {
		want := 1
		if i >= 3 { // never read
			want = 0
		}
		if n := j.times(id); n != want {
			t.Errorf("entry %d was handled %d times", i, n)
		}
		lost := 0
		for _, m := range members {
			for _, e := range eventsOf[evtlog.Lost](m.events) {
				if e.After.Less(id) && !e.To.Less(id) {
					lost++
				}
			}
		}
		if lost != 1-want {
			t.Errorf("entry %d was reported as lost %d times", i, lost)
		}
	}
}

// A member that dies with trimmed entries in hand loses its hold, and the peer
// gets them.
func TestHoldOfADeadMemberEnds(t *testing.T) {
	w := newWorld(t)
	ids := w.append(3)
	w.abandon("dead", 3)
	if _, err := w.log.Renew(t.Context(), testGroup, "dead", ids, time.Minute); err != nil {
		t.Fatal(err)
	}
	a := newMemory()
	w.fold(a, ids[2])
	if _, err := w.log.Renew(t.Context(), testGroup, "dead", ids, 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	var j journal
	w.start("peer", j.handle, withArchive(a), with(func(c *Config) { c.MinIdle, c.ClaimEvery = 100*time.Millisecond, 20*time.Millisecond }))
	until(t, "all are handled", func() bool { return w.settledAt(ids[2]) })
	// The peer may look at the last one just after the hold has ended, and so take
	// it before the others, which were held a moment before.
	handled := j.ids()
	slices.SortFunc(handled, evtid.ID.Compare)
	equalIDs(t, "handled", handled, ids)
	for _, d := range j.deliveries() {
		if d.Attempts != 2 {
			t.Errorf("Attempts of %s = %d, want 2", d.ID, d.Attempts)
		}
	}
}

// An entry that a member took over, and that is trimmed while its handler runs, is
// acknowledged before the recorded ranges are worked on: else it would be handed
// out once more, or reported as lost although it was handled.
func TestEntryTakenOverAndTrimmedInHandIsHandledOnce(t *testing.T) {
	for name, withIt := range map[string]bool{"archive": true, "no archive": false} {
		for _, n := range []int{1, 2} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t)
				ids := w.append(1)
				w.abandon("dead", 1)
				a, began, trimmed := newMemory(), make(chan struct{}), make(chan struct{})
				j := journal{}
				j.then = func(context.Context, evtlog.Delivery) error {
					if j.len() == 1 {
						close(began)
						<-trimmed
					}
					return nil
				}
				opts := []option{with(func(c *Config) { c.MinIdle, c.Workers = 100*time.Millisecond, n })}
				if withIt {
					opts = append(opts, withArchive(a))
				}
				m := w.start("a", j.handle, opts...)
				<-began
				if withIt {
					w.fold(a, ids[0])
				} else if _, err := w.log.TrimThrough(t.Context(), ids[0]); err != nil {
					t.Error(err)
				}
				close(trimmed)
				until(t, "all is settled", func() bool { return w.settledAt(ids[0]) })
				equalIDs(t, "handled", j.ids(), ids)
				if lost := eventsOf[evtlog.Lost](m.events); len(lost) != 0 {
					t.Errorf("reported as lost: %v", lost)
				}
			})
		}
	}
}
