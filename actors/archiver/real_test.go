package archiver

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/actors/supervise/supervisetest"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/archivetest"
	"github.com/evtlog/evtlog/archive/volume"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// While four appenders write and the archiver cycles, archive and live stream
// read as one hold every acknowledged record, in order.
func TestServerFoldsUnderLoad(t *testing.T) {
	for _, c := range []struct {
		name string
		d    Dial
		open func(t *testing.T) archive.Archive
	}{
		{"window, memory", Dial{Window: 50}, func(*testing.T) archive.Archive { return archivetest.NewMemory() }},
		{"commit, volume", Dial{Commit: true}, openVolume},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, arch := newReal(t), c.open(t)
			a := r.archiver(r.log, arch, c.d, nil)
			stop := supervised(t, nil, a.Spec())
			defer stop()
			reader := archive.NewReader(feed, r.log, arch)
			r.appendFor(1500*time.Millisecond, a.Nudge, func() error { return r.readAll(reader) })
			if _, err := a.FoldAll(t.Context()); err != nil {
				t.Fatal(err)
			}
			eventually(t, "all archived, sealed and trimmed", func() bool { return r.settled(arch) && r.length() == 100 })
			if err := r.readAll(reader); err != nil {
				t.Fatal(err)
			}
			if s := a.Stats(); s.Lost != 0 || s.Conflicts != 0 || s.FoldedRecords != int64(len(r.acked)) {
				t.Errorf("%+v after %d appends", s, len(r.acked))
			}
		})
	}
}

func openVolume(t *testing.T) archive.Archive {
	t.Helper()
	s, err := volume.Open(filepath.Join(t.TempDir(), "archive.db"), volume.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if report, err := s.Verify(context.Background(), feed); err != nil {
			t.Errorf("the volume does not verify: %+v, %v", report, err)
		}
		_ = s.Close()
	})
	return s
}

// The server is killed in the middle of cycles and comes back with all it had
// acknowledged.
func TestServerKilledDuringCycles(t *testing.T) {
	r := newReal(t, "--appendonly", "yes", "--appendfsync", "always")
	arch := archivetest.NewMemory()
	a := r.archiver(r.log, arch, Dial{Window: 20}, nil)
	defer supervised(t, nil, a.Spec())()
	for round := range 4 {
		folds := a.Stats().Folds
		r.append(300)
		a.Nudge()
		// Somewhere inside the cycle that follows.
		eventually(t, "a fold has begun", func() bool { return a.Stats().Folds > folds })
		r.server.Kill()
		eventually(t, "the loss was noticed", func() bool {
			a.Nudge()
			return a.Stats().LastError != nil
		})
		r.server.Restart()
		eventually(t, "recovered", func() bool { return r.settled(arch) && r.length() == 100 })
		r.reconnect()
		if err := r.readAll(archive.NewReader(feed, r.log, arch)); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	if s := a.Stats(); s.Lost != 0 {
		t.Errorf("%+v", s)
	}
}

func TestServerArchiveDownForAWhile(t *testing.T) {
	r, arch := newReal(t), archivetest.NewMemory()
	var down atomic.Bool
	arch.SetHook(func(context.Context, archivetest.Step) error {
		if down.Load() {
			return errDown
		}
		return nil
	})
	var states stateLog
	a := r.archiver(r.log, arch, Dial{Commit: true}, nil)
	defer supervised(t, states.observe, a.Spec())()
	r.append(200)
	eventually(t, "folded", func() bool { a.Nudge(); return r.settled(arch) && r.length() == 100 })
	down.Store(true)
	r.append(500)
	eventually(t, "tried a few times", func() bool { a.Nudge(); return states.count(evtlog.Degraded) > 0 && a.Stats().LastError != nil })
	if got := r.length(); got != 600 {
		t.Errorf("trimmed without an archive: %d are left", got)
	}
	down.Store(false)
	eventually(t, "recovered", func() bool { return r.settled(arch) && r.length() == 100 })
	eventually(t, "reported ready", func() bool { return states.count(evtlog.Ready) == 2 })
	if got := states.count(evtlog.Degraded); got != 1 {
		t.Errorf("degraded was reported %d times", got)
	}
}

// stateLog counts the states that the archiver was reported in.
type stateLog struct {
	mu     sync.Mutex
	counts map[evtlog.State]int
}

func (l *stateLog) observe(e evtlog.Event) {
	if s, ok := e.(evtlog.StateChanged); ok && strings.HasSuffix(s.Component, "/archiver") {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.counts == nil {
			l.counts = map[evtlog.State]int{}
		}
		l.counts[s.State]++
	}
}

func (l *stateLog) count(s evtlog.State) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts[s]
}

func TestServerTwoArchivers(t *testing.T) {
	r, arch := newReal(t), archivetest.NewMemory()
	one := r.archiver(r.log, arch, Dial{Commit: true}, nil)
	two := r.archiver(r.open().Log(stream(t)), arch, Dial{Window: 30}, nil)
	defer supervised(t, nil, one.Spec(), two.Spec())()
	reader := archive.NewReader(feed, r.log, arch)
	r.appendFor(1500*time.Millisecond, func() { one.Nudge(); two.Nudge() }, func() error { return r.readAll(reader) })
	eventually(t, "settled", func() bool { one.Nudge(); return r.settled(arch) && r.length() == 100 })
	if err := r.readAll(reader); err != nil {
		t.Fatal(err)
	}
	for _, a := range []*Archiver{one, two} {
		s := a.Stats()
		if s.Lost != 0 || s.LastError != nil {
			t.Errorf("%+v", s)
		}
		t.Logf("%d folds, %d conflicts, %d trimmed", s.Folds, s.Conflicts, s.Trimmed)
	}
}

// A process that died between fold and floor left neither floor nor trim; the
// next one makes up for both without anything to fold.
func TestServerRestartRepeatsFloorAndTrim(t *testing.T) {
	r, arch := newReal(t), archivetest.NewMemory()
	r.append(300)
	page, _, err := r.log.Page(t.Context(), none, r.acked[299], 1000)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := arch.Fold(t.Context(), feed, none, page); err != nil {
		t.Fatal(err)
	}
	a := r.archiver(r.log, arch, Dial{Window: 5000}, nil)
	if err := a.tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, floor, err := r.log.Page(t.Context(), none, r.acked[299], 1)
	if err != nil || floor != r.acked[299] || !r.settled(arch) || r.length() != 100 {
		t.Fatalf("floor %q, %d live, %v", floor, r.length(), err)
	}
	if s := a.Stats(); s.Folds != 0 || s.Trimmed != 200 {
		t.Errorf("%+v", s)
	}
}

// What a group was not given before the trim is recorded for it.
func TestServerTrimRecordsForGroups(t *testing.T) {
	r, arch := newReal(t), archivetest.NewMemory()
	if _, err := r.log.CreateGroup(t.Context(), "late", redislog.Head()); err != nil {
		t.Fatal(err)
	}
	r.append(300)
	if _, err := r.archiver(r.log, arch, Dial{Commit: true}, nil).Fold(t.Context(), none); err != nil {
		t.Fatal(err)
	}
	ranges, err := r.log.SkippedRanges(t.Context(), "late")
	if err != nil || len(ranges) != 1 || ranges[0].To != r.acked[199] || !ranges[0].After.Less(r.acked[0]) {
		t.Fatalf("%+v, %v", ranges, err)
	}
}

// A producer that trims by length, as many do, takes records that nobody has
// looked at yet.
func TestServerTrimmedBySomebodyElse(t *testing.T) {
	r, arch := newReal(t), archivetest.NewMemory()
	var lost []evtlog.Lost
	a := r.archiver(r.log, arch, Dial{Commit: true}, func(e evtlog.Event) {
		if e, ok := e.(evtlog.Lost); ok {
			lost = append(lost, e)
		}
	})
	r.append(50)
	if err := a.tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.append(150)
	r.server.Do("XTRIM", stream(t).Key(), "MAXLEN", "=", "40")
	for range 2 {
		if err := a.tick(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(lost) != 1 || lost[0].After != r.acked[49] || lost[0].To != r.acked[160].Prev() || !strings.HasPrefix(lost[0].Reason, "110 records") {
		t.Errorf("%+v, want one of (%s, %s]", lost, r.acked[49], r.acked[160].Prev())
	}
}

func TestServerOutOfMemory(t *testing.T) {
	r, arch := newReal(t), archivetest.NewMemory()
	a := r.archiver(r.log, arch, Dial{Window: 5000}, nil)
	r.append(400)
	r.server.Do("CONFIG", "SET", "maxmemory", "1mb")
	if got := r.server.Do("XADD", "other", "*", "a", "b"); !strings.HasPrefix(got, "-OOM") {
		t.Fatalf("the server has room: %s", got)
	}
	if _, err := a.Fold(t.Context(), none); err != nil {
		t.Fatal(err)
	}
	if !r.settled(arch) || r.length() != 100 {
		t.Errorf("%d are left", r.length())
	}
}

func TestServerWrongType(t *testing.T) {
	r := newReal(t)
	r.server.Do("SET", stream(t).Key(), "text")
	a := r.archiver(r.log, archivetest.NewMemory(), Dial{Commit: true}, nil)
	runner, err := a.Spec().New()
	if err != nil {
		t.Fatal(err)
	}
	err = runner.Run(t.Context(), func() {})
	if !errors.Is(err, evtlog.ErrWrongType) || !supervise.IsTerminal(err) {
		t.Fatal(err)
	}
}

func TestServerForeignEntry(t *testing.T) {
	r, arch := newReal(t), archivetest.NewMemory()
	r.server.Do("XADD", stream(t).Key(), "5-1", "made", "by hand")
	r.append(300)
	a := r.archiver(r.log, arch, Dial{Commit: true}, nil)
	var foreign *evtlog.ForeignEntryError
	if err := a.tick(t.Context()); !errors.As(err, &foreign) || foreign.Entry != "5-1" || foreign.Stream != feed {
		t.Fatal(err)
	}
	if !r.settled(arch) || r.length() != 301 {
		t.Fatalf("%d are left", r.length())
	}
	r.server.Do("XDEL", stream(t).Key(), "5-1")
	if err := a.tick(t.Context()); err != nil || r.length() != 100 {
		t.Fatalf("%v, %d are left", err, r.length())
	}
}

// An entry in the middle of the stream at a position that no id can have: what
// lies below it is archived, and nothing is trimmed.
func TestServerForeignEntryInTheMiddle(t *testing.T) {
	r, arch := newReal(t), archivetest.NewMemory()
	r.append(300)
	last := r.acked[299]
	entry := fmt.Sprintf("%d-%d", last.UnixMilli(), evtid.MaxTail+1)
	r.server.Do("XADD", stream(t).Key(), entry, "made", "by hand")
	<-time.After(2 * time.Millisecond)
	r.append(50)
	a := r.archiver(r.log, arch, Dial{Commit: true}, nil)
	var foreign *evtlog.ForeignEntryError
	for range 2 {
		if err := a.tick(t.Context()); !errors.As(err, &foreign) || foreign.Entry != entry {
			t.Fatal(err)
		}
	}
	if w, err := arch.Watermark(t.Context(), feed); err != nil || w != last || r.length() != 351 {
		t.Fatalf("watermark %s, %v, %d are left", w, err, r.length())
	}
	r.server.Do("XDEL", stream(t).Key(), entry)
	if err := a.tick(t.Context()); err != nil || !r.settled(arch) || r.length() != 100 {
		t.Fatalf("%v, %d are left", err, r.length())
	}
}

func TestServerLifecycle(t *testing.T) {
	r, arch := newReal(t), archivetest.NewMemory()
	r.append(300)
	supervisetest.StressRunner(t, func() supervise.Spec {
		return r.archiver(r.log, arch, Dial{Window: 10}, nil).Spec()
	})
	// Cut short as it was so often, it goes on from where it stands.
	if _, err := r.archiver(r.log, arch, Dial{Window: 10}, nil).Fold(t.Context(), none); err != nil {
		t.Fatal(err)
	}
	if !r.settled(arch) || r.length() != 100 {
		t.Errorf("%d are left", r.length())
	}
	if err := r.readAll(archive.NewReader(feed, r.log, arch)); err != nil {
		t.Error(err)
	}
}
