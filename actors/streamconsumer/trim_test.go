package streamconsumer

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/archivetest"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// memory is an archive in memory that notes how it is read and can be made to
// fail.
type memory struct {
	*archivetest.Memory
	mu    sync.Mutex
	reads []archive.Range
}

func newMemory() *memory { return &memory{Memory: archivetest.NewMemory()} }

func (a *memory) Read(ctx context.Context, stream evtlog.StreamName, r archive.Range) iter.Seq2[evtlog.Record, error] {
	a.mu.Lock()
	a.reads = append(a.reads, r)
	a.mu.Unlock()
	return a.Memory.Read(ctx, stream, r)
}

// fail makes a step of the archive fail; nil lets it work again.
func (a *memory) fail(step archivetest.Step, err error) {
	a.SetHook(func(_ context.Context, at archivetest.Step) error {
		if at == step {
			return err
		}
		return nil
	})
}

// fold archives everything live up to the id, as an archiver does, and trims it
// with the groups' skipped ranges recorded.
func (w *world) fold(a *memory, through evtid.ID) {
	w.t.Helper()
	w.archiveOnly(a, through)
	if err := w.log.Seal(w.t.Context(), through); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.log.TrimThrough(w.t.Context(), through); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) archiveOnly(a *memory, through evtid.ID) {
	w.t.Helper()
	records := slices.DeleteFunc(w.records(w.log), func(r evtlog.Record) bool { return through.Less(r.ID) })
	name := evtlog.StreamName{Queue: w.stream.Queue(), Name: w.stream.Name()}
	prev, err := a.Watermark(w.t.Context(), name)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := a.Fold(w.t.Context(), name, prev, records); err != nil {
		w.t.Fatal(err)
	}
}

// trimForeign trims without recording anything, as another program would.
func (w *world) trimForeign(through evtid.ID) {
	w.server.Do("XTRIM", w.stream.Key(), "MINID", "=", through.Next().Entry())
}

func (w *world) ranges() []redislog.SkippedRange {
	w.t.Helper()
	ranges, err := w.log.SkippedRanges(w.t.Context(), testGroup)
	if err != nil {
		w.t.Fatal(err)
	}
	return ranges
}

// settledAt reports whether nothing is pending, nothing recorded as skipped, and
// everything up to last was delivered.
func (w *world) settledAt(last evtid.ID) bool { return w.allDone(last) && len(w.ranges()) == 0 }

func TestTrimmedPendingEntriesComeFromTheArchive(t *testing.T) {
	for name, recorded := range map[string]bool{"recorded trim": true, "foreign trim": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ids := w.append(8)
			w.abandon("a", 5)
			a := newMemory()
			if recorded {
				w.fold(a, ids[2])
			} else {
				w.archiveOnly(a, ids[2])
				w.trimForeign(ids[2])
			}
			var j journal
			m := w.start("a", j.handle, withArchive(a))
			until(t, "all is settled", func() bool { return w.settledAt(ids[7]) })
			// Pending first, then what was trimmed, then what is new.
			want := []evtid.ID{ids[3], ids[4], ids[0], ids[1], ids[2], ids[5], ids[6], ids[7]}
			equalIDs(t, "order", j.ids(), want)
			for _, d := range j.deliveries()[2:5] {
				if n, _ := d.Get("n"); d.Source != evtlog.Archived || n == "" {
					t.Errorf("delivery = %+v, want the body from the archive", d)
				}
				if d.Attempts != 2 {
					t.Errorf("Attempts of %s = %d, want 2: it had been delivered once", d.ID, d.Attempts)
				}
			}
			if lost := eventsOf[evtlog.Lost](m.events); len(lost) != 0 {
				t.Errorf("reported as lost: %v", lost)
			}
		})
	}
}

func TestGroupLateForATrimReadsTheArchiveInOrder(t *testing.T) {
	w := newWorld(t)
	if _, err := w.log.CreateGroup(t.Context(), testGroup, redislog.Head()); err != nil {
		t.Fatal(err)
	}
	ids := w.append(25)
	a := newMemory()
	w.fold(a, ids[19])
	var j journal
	m := w.start("a", j.handle, withArchive(a), with(func(c *Config) { c.Count = 6 }))
	until(t, "all is settled", func() bool { return w.settledAt(ids[24]) })
	equalIDs(t, "order", j.ids(), ids)
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.reads {
		if r.AtLeast != ids[19] {
			t.Errorf("archive read %+v, want a state that has applied %s", r, ids[19])
		}
	}
	until(t, "20 are counted as recovered and 5 as acked", func() bool {
		s := m.Stats()
		return s.Recovered == 20 && s.Acked == 5
	})
}

func TestFromHeadIncludesTheArchive(t *testing.T) {
	w := newWorld(t)
	ids := w.append(9)
	a := newMemory()
	w.fold(a, ids[5])
	var j journal
	w.start("a", j.handle, withArchive(a))
	until(t, "all is settled", func() bool { return w.settledAt(ids[8]) })
	equalIDs(t, "order", j.ids(), ids)
}

func TestWithoutArchiveATrimIsReportedAsLost(t *testing.T) {
	w := newWorld(t)
	ids := w.append(6)
	w.abandon("a", 3)
	if _, err := w.log.TrimThrough(t.Context(), ids[3]); err != nil {
		t.Fatal(err)
	}
	var j journal
	m := w.start("a", j.handle)
	until(t, "all is settled", func() bool { return w.settledAt(ids[5]) })
	equalIDs(t, "handled", j.ids(), ids[4:])
	for i, id := range ids[:4] {
		covered := 0
		for _, l := range eventsOf[evtlog.Lost](m.events) {
			if l.After.Less(id) && !l.To.Less(id) {
				covered++
			}
			if l.Group != testGroup || l.Reason == "" {
				t.Errorf("Lost = %+v", l)
			}
		}
		if covered != 1 {
			t.Errorf("entry %d is in %d Lost ranges, want 1: %v", i, covered, eventsOf[evtlog.Lost](m.events))
		}
	}
}

// What XAUTOCLAIM says was deleted is known from nowhere else.
func TestEntriesDroppedByAClaimAreNotForgotten(t *testing.T) {
	for name, withIt := range map[string]bool{"archive": true, "no archive": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ids := w.append(6)
			w.abandon("dead", 4)
			a := newMemory()
			w.archiveOnly(a, ids[1])
			w.trimForeign(ids[1])
			var j journal
			opts := []option{}
			if withIt {
				opts = append(opts, withArchive(a))
			}
			m := w.start("b", j.handle, opts...)
			until(t, "the dead member's entries are settled", func() bool { return w.settledAt(ids[5]) })
			for i, id := range ids {
				want := 1
				if i < 2 && !withIt {
					want = 0
				}
				if got := j.times(id); got != want {
					t.Errorf("entry %d was handled %d times, want %d", i, got, want)
				}
			}
			if got := len(eventsOf[evtlog.Lost](m.events)); withIt != (got == 0) {
				t.Errorf("%d Lost events with archive = %v", got, withIt)
			}
		})
	}
}

// A record that was never archived and is gone from the stream is lost, and
// said to be.
func TestTrimBeforeArchiveIsLostInPart(t *testing.T) {
	w := newWorld(t)
	if _, err := w.log.CreateGroup(t.Context(), testGroup, redislog.Head()); err != nil {
		t.Fatal(err)
	}
	ids := w.append(6)
	a := newMemory()
	w.archiveOnly(a, ids[1])
	if _, err := w.log.TrimThrough(t.Context(), ids[3]); err != nil {
		t.Fatal(err)
	}
	var j journal
	m := w.start("a", j.handle, withArchive(a))
	until(t, "all is settled", func() bool { return w.settledAt(ids[5]) })
	equalIDs(t, "handled", j.ids(), []evtid.ID{ids[0], ids[1], ids[4], ids[5]})
	lost := eventsOf[evtlog.Lost](m.events)
	if len(lost) != 1 || lost[0].After != ids[1] || lost[0].To != ids[3] {
		t.Errorf("Lost = %+v, want (%s, %s]", lost, ids[1], ids[3])
	}
}

func TestDeletedEntryIsReportedWhenTheArchiveLacksIt(t *testing.T) {
	w := newWorld(t)
	ids := w.append(3)
	w.abandon("a", 3)
	w.server.Do("XDEL", w.stream.Key(), ids[1].Entry())
	a := newMemory()
	w.archiveOnly(a, ids[2])
	var j journal
	m := w.start("a", j.handle, withArchive(a))
	until(t, "all is settled", func() bool { return w.settledAt(ids[2]) })
	equalIDs(t, "handled", j.ids(), []evtid.ID{ids[0], ids[2]})
	lost := eventsOf[evtlog.Lost](m.events)
	if len(lost) != 1 || lost[0].To != ids[1] {
		t.Errorf("Lost = %+v, want the deleted entry", lost)
	}
}

// An archive that cannot be reached makes the range late, not lost, and keeps
// nothing else waiting.
func TestUnreachableArchiveDelaysOnlyTheRange(t *testing.T) {
	for _, step := range []archivetest.Step{archivetest.BeforeWatermark, archivetest.BeforeRead, archivetest.BeforeRecord} {
		t.Run(string(step), func(t *testing.T) { archiveDown(t, step) })
	}
}

func archiveDown(t *testing.T, step archivetest.Step) {
	w := newWorld(t)
	if _, err := w.log.CreateGroup(t.Context(), testGroup, redislog.Head()); err != nil {
		t.Fatal(err)
	}
	ids := w.append(6)
	a := newMemory()
	w.fold(a, ids[2])
	a.fail(step, errors.New("no quorum"))
	var j journal
	m := w.start("a", j.handle, withArchive(a))
	until(t, "new entries are handled", func() bool { return j.len() == 3 })
	equalIDs(t, "handled without the archive", j.ids(), ids[3:])
	a.fail(step, nil)
	until(t, "all is settled", func() bool { return w.settledAt(ids[5]) })
	equalIDs(t, "handled", j.ids(), append(slices.Clone(ids[3:]), ids[:3]...))
	if lost := eventsOf[evtlog.Lost](m.events); len(lost) != 0 {
		t.Errorf("reported as lost: %v", lost)
	}
}

// A record of a range that fails is tried again on its own, holds nothing up,
// and ends in the dead stream.
func TestFailingRecordOfARange(t *testing.T) {
	w := newWorld(t)
	if _, err := w.log.CreateGroup(t.Context(), testGroup, redislog.Head()); err != nil {
		t.Fatal(err)
	}
	ids := w.append(8)
	a := newMemory()
	w.fold(a, ids[5])
	j := journal{then: func(_ context.Context, d evtlog.Delivery) error {
		if d.ID == ids[1] || d.ID == ids[3] && d.Attempts < 3 {
			return errors.New("cannot")
		}
		return nil
	}}
	m := w.start("a", j.handle, withArchive(a), with(func(c *Config) { c.MaxDeliveries = 4 }))
	until(t, "all is settled", func() bool { return w.settledAt(ids[7]) })
	var attempts []int
	for _, d := range j.deliveries() {
		if d.ID == ids[1] {
			attempts = append(attempts, d.Attempts)
		}
	}
	if want := []int{1, 2, 3, 4}; !slices.Equal(attempts, want) {
		t.Errorf("attempts of the failing record = %v, want %v", attempts, want)
	}
	equalIDs(t, "first pass", j.ids()[:6], ids[:6])
	for i, id := range ids {
		if want := map[int]int{1: 4, 3: 3}[i]; want == 0 && j.times(id) != 1 || want != 0 && j.times(id) != want {
			t.Errorf("record %d was handled %d times", i, j.times(id))
		}
	}
	letters := w.records(w.deadLog())
	if len(letters) != 1 {
		t.Fatalf("dead letters = %v, want one", letters)
	}
	if origin, _ := letters[0].Get(FieldOrigin); origin != ids[1].String() {
		t.Errorf("dead letter of %s, want %s", origin, ids[1])
	}
	if s := m.Stats(); s.Failed != 6 || s.Dead != 1 {
		t.Errorf("Stats = %+v, want 6 failed and 1 dead", s)
	}
}

// Two members share the ranges of a group without doing one twice, also when
// the one that works on them is slow.
func TestRangesAreWorkedOnByOneMember(t *testing.T) {
	w := newWorld(t)
	if _, err := w.log.CreateGroup(t.Context(), testGroup, redislog.Head()); err != nil {
		t.Fatal(err)
	}
	ids := w.append(10)
	a := newMemory()
	w.fold(a, ids[7])
	var parallel gauge
	j := journal{then: func(ctx context.Context, d evtlog.Delivery) error {
		defer parallel.enter(d.ID)()
		return wait(ctx, 150*time.Millisecond)
	}}
	opts := []option{withArchive(a), with(func(c *Config) { c.Count = 3 })}
	w.start("a", j.handle, opts...)
	w.start("b", j.handle, opts...)
	until(t, "all is settled", func() bool { return w.settledAt(ids[9]) })
	for i, id := range ids {
		if got := j.times(id); got != 1 {
			t.Errorf("record %d was handled %d times, want once", i, got)
		}
	}
	if parallel.overlaps() {
		t.Error("one record was handled by two members at a time")
	}
}

// A stop in the middle of a range keeps what was done of it.
func TestStopInARangeKeepsItsProgress(t *testing.T) {
	w := newWorld(t)
	if _, err := w.log.CreateGroup(t.Context(), testGroup, redislog.Head()); err != nil {
		t.Fatal(err)
	}
	ids := w.append(10)
	a := newMemory()
	w.fold(a, ids[9])
	reached := make(chan struct{})
	first := journal{}
	first.then = func(ctx context.Context, d evtlog.Delivery) error {
		if d.ID == ids[4] {
			close(reached)
			<-ctx.Done()
		}
		return nil
	}
	m := w.start("a", first.handle, withArchive(a))
	<-reached
	if err := m.halt(); err != nil {
		t.Fatal(err)
	}
	equalIDs(t, "before the stop", first.ids(), ids[:5])
	var second journal
	w.start("b", second.handle, withArchive(a))
	until(t, "all is settled", func() bool { return len(w.ranges()) == 0 })
	equalIDs(t, "after the stop", second.ids(), ids[5:])
}

func TestForeignElementInTheListOfRangesIsReported(t *testing.T) {
	w := newWorld(t)
	ids := w.append(4)
	w.abandon("a", 1)
	a := newMemory()
	w.fold(a, ids[1])
	w.server.Do("RPUSH", w.stream.Skipped(testGroup), "what is this")
	var j journal
	w.start("a", j.handle, withArchive(a))
	until(t, "everything else goes on", func() bool { return j.len() == 4 })
}
