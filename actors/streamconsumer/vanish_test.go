package streamconsumer

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// A group that an earlier process made is made anew where it stood, also when it
// vanishes before this one has acknowledged anything, and together with an append.
func TestGroupFromNewThatStoodBeforeIsMadeAnewThere(t *testing.T) {
	w := newWorld(t)
	ids := w.append(2)
	var first journal
	old := w.start("a", first.handle)
	until(t, "the first run is done", func() bool { return w.settledAt(ids[1]) })
	if err := old.halt(); err != nil {
		t.Fatal(err)
	}
	var j journal
	m := w.start("a", j.handle, with(func(c *Config) { c.Start = FromNew }))
	<-m.ready
	id, err := w.minter.Mint()
	if err != nil {
		t.Fatal(err)
	}
	w.server.Do("EVAL", "redis.call('XGROUP', 'DESTROY', KEYS[1], ARGV[1]) return redis.call('XADD', KEYS[1], ARGV[2], 'id', ARGV[3], 'n', 'x')",
		"1", w.stream.Key(), testGroup, id.Entry(), id.String())
	until(t, "the group is there again", func() bool { return len(eventsOf[evtlog.GroupRecreated](m.events)) > 0 })
	last := w.append(1)
	until(t, "the last is handled", func() bool { return j.times(last[0]) > 0 })
	equalIDs(t, "handled", j.ids(), []evtid.ID{id, last[0]})
}

// An entry that waits behind another one of its key, while later ones are
// acknowledged, is owed when the group vanishes.
func TestGroupVanishesWhileAnEntryWaitsForItsKey(t *testing.T) {
	w := newWorld(t)
	ids := w.append(6)
	began, release := make(chan struct{}), make(chan struct{})
	j := journal{}
	j.then = func(_ context.Context, d evtlog.Delivery) error {
		if d.ID == ids[0] && j.times(ids[0]) == 1 {
			close(began)
			<-release
		}
		return nil
	}
	m := w.start("a", j.handle, workers(2, func(d evtlog.Delivery) string {
		if d.ID == ids[0] || d.ID == ids[1] {
			return "slow"
		}
		return "quick"
	}))
	<-began
	until(t, "four are acknowledged", func() bool { return len(w.pending()) == 2 })
	w.server.Do("XGROUP", "DESTROY", w.stream.Key(), testGroup)
	until(t, "no further entry is begun", func() bool {
		c := m.current.Load().crew
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.shut
	})
	close(release)
	until(t, "the group is there again", func() bool { return len(eventsOf[evtlog.GroupRecreated](m.events)) > 0 })
	last := w.append(1)
	until(t, "the last is handled", func() bool { return w.allDone(last[0]) })
	if j.times(ids[1]) == 0 {
		t.Errorf("handled %v, want the second of %v among them", j.ids(), ids)
	}
}

func TestSpanning(t *testing.T) {
	rg := spanning(redislog.SkippedRange{}, tids(5, 3, 9)...)
	if rg.After != tid(3).Prev() || rg.To != tid(9) {
		t.Errorf("of three: %v", rg)
	}
	if got := spanning(rg, tid(4)); got != rg {
		t.Errorf("one in between makes it %v", got)
	}
	if got := spanning(rg, tid(3).Prev()); got.After != tid(3).Prev().Prev() || got.To != tid(9) {
		t.Errorf("one right below makes it %v", got)
	}
	if got := spanning(redislog.SkippedRange{}); !got.Empty() {
		t.Errorf("of nothing: %v", got)
	}
}

// An entry that another program deletes while it waits for its next attempt comes
// from the archive, or is reported as lost.
func TestEntryDeletedWhileItWaits(t *testing.T) {
	for name, withIt := range map[string]bool{"archive": true, "no archive": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ids, a, j := w.append(3), newMemory(), journal{}
			j.then = func(_ context.Context, d evtlog.Delivery) error {
				if d.ID == ids[1] && j.times(ids[1]) == 1 {
					return errors.New("not now")
				}
				return nil
			}
			// Renewal is to see it before a sweep does.
			opts := []option{with(func(c *Config) {
				c.MinIdle, c.ClaimEvery, c.RetryMin, c.RetryMax = 150*time.Millisecond, time.Second, time.Hour, time.Hour
			})}
			if withIt {
				opts = append(opts, withArchive(a))
			}
			m := w.start("a", j.handle, opts...)
			until(t, "two are done", func() bool { return len(w.pending()) == 1 && j.len() == 3 })
			w.archiveOnly(a, ids[2])
			w.server.Do("XDEL", w.stream.Key(), ids[1].Entry())
			until(t, "it is settled", func() bool {
				return j.times(ids[1]) == 2 || len(eventsOf[evtlog.Lost](m.events)) == 1
			})
			until(t, "nothing is left", func() bool { return len(w.pending()) == 0 && len(w.ranges()) == 0 })
			if n := j.times(ids[1]); withIt != (n == 2) {
				t.Errorf("handled %d times", n)
			}
		})
	}
}

// A foreign entry of a dead member that was trimmed meanwhile can be in no range:
// a dead letter without its fields tells of it.
func TestForeignEntryTrimmedWhilePendingIsADeadLetter(t *testing.T) {
	w := newWorld(t)
	ids := w.append(1)
	raw := fmt.Sprintf("%d-9999999", ids[0].UnixMilli())
	w.server.Do("XADD", w.stream.Key(), raw, "k", "v")
	w.abandon("dead", 2)
	w.server.Do("XTRIM", w.stream.Key(), "MAXLEN", "0")
	var j journal
	m := w.start("b", j.handle, with(func(c *Config) { c.MinIdle = 50 * time.Millisecond }))
	until(t, "nothing is left", func() bool { return len(w.pending()) == 0 && len(w.ranges()) == 0 })
	until(t, "it is reported", func() bool { return len(eventsOf[evtlog.DeadLettered](m.events)) == 1 })
	if e := eventsOf[evtlog.DeadLettered](m.events)[0]; e.Entry != raw || len(w.records(w.deadLog())) != 1 {
		t.Errorf("%+v", e)
	}
}

// What waits here for its next attempt when the stream is deleted is reported as
// lost, or comes from the archive.
func TestStreamVanishesWithWhatWaits(t *testing.T) {
	for name, withIt := range map[string]bool{"archive": true, "no archive": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ids, a, j := w.append(3), newMemory(), journal{}
			j.then = func(_ context.Context, d evtlog.Delivery) error {
				if d.ID == ids[1] && j.times(ids[1]) == 1 {
					return errors.New("not now")
				}
				return nil
			}
			opts := []option{with(func(c *Config) { c.RetryMin, c.RetryMax = time.Hour, time.Hour })}
			if withIt {
				opts = append(opts, withArchive(a))
			}
			m := w.start("a", j.handle, opts...)
			until(t, "two are done", func() bool { return len(w.pending()) == 1 && j.len() == 3 })
			w.archiveOnly(a, ids[2])
			w.server.Do("FLUSHALL")
			last := w.append(1)
			until(t, "the new one is handled", func() bool { return j.times(last[0]) > 0 && w.settledAt(last[0]) })
			lost := eventsOf[evtlog.Lost](m.events)
			if withIt && (len(lost) != 0 || j.times(ids[1]) != 2) {
				t.Errorf("handled %v, lost %v; want %s twice", j.ids(), lost, ids[1])
			}
			if !withIt && (len(lost) != 1 || lost[0].To != ids[1] || lost[0].After != ids[1].Prev()) {
				t.Errorf("lost %v, want %s", lost, ids[1])
			}
		})
	}
}
