package archiver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/archivetest"
	"github.com/evtlog/evtlog/evtid"
)

var errDown = errors.New("archive is down")

func TestTickFoldsSealsAndTrims(t *testing.T) {
	for _, c := range []struct {
		name        string
		keep        evtlog.Keep
		d           Dial
		appended    int
		w, left     int
		folds, lost int
	}{
		{"window not full", evtlog.KeepLast(100), Dial{Window: 50}, 49, 0, 49, 0, 0},
		{"window full", evtlog.KeepLast(100), Dial{Window: 50}, 50, 50, 50, 1, 0},
		{"window full, over the limit", evtlog.KeepLast(100), Dial{Window: 50}, 150, 150, 100, 2, 0},
		{"window not full, over the limit", evtlog.KeepLast(100), Dial{Window: 500}, 150, 50, 100, 1, 0},
		{"commit", evtlog.KeepLast(100), Dial{Commit: true}, 1, 1, 1, 1, 0},
		{"keep everything", evtlog.Keep{}, Dial{Window: 50}, 1000, 1000, 1000, 3, 0},
		{"keep since", evtlog.KeepSince(id(31).Time()), Dial{Window: 5000}, 1000, 30, 970, 1, 0},
		{"empty", evtlog.KeepLast(100), Dial{Commit: true}, 0, 0, 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.append(c.appended)
			a := w.archiver(c.keep, c.d)
			if err := a.tick(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.check()
			want := none
			if c.w > 0 {
				want = id(c.w)
			}
			floor, sealed := w.log.Floor()
			if got := w.watermark(); got != want || floor != want || sealed != want {
				t.Errorf("watermark %q, floor %q, sealed %q, want %q", got, floor, sealed, want)
			}
			if got := len(w.log.IDs()); got != c.left {
				t.Errorf("%d are left, want %d", got, c.left)
			}
			folds := events[evtlog.Folded](w)
			if len(folds) != c.folds {
				t.Errorf("%d folds, want %d", len(folds), c.folds)
			}
			s := a.Stats()
			if s.Watermark != want || s.FoldedRecords != int64(c.w) || s.Folds != int64(c.folds) ||
				s.Trimmed != int64(c.appended-c.left) || s.Length != int64(c.left) || s.LastError != nil || s.LastTick.IsZero() {
				t.Errorf("%+v", s)
			}
			if s.Behind != int64(c.appended-c.w) {
				t.Errorf("behind %d", s.Behind)
			}
		})
	}
}

func TestFoldedEventsJoin(t *testing.T) {
	w := newWorld(t)
	w.append(5000)
	if err := w.archiver(evtlog.KeepLast(10), Dial{Commit: true}).tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	after, n := none, 0
	for _, f := range events[evtlog.Folded](w) {
		if f.After != after || f.Stream != feed || f.Records > maxRecords {
			t.Errorf("%+v does not join %q", f, after)
		}
		after, n = f.To, n+f.Records
	}
	if after != id(5000) || n != 5000 {
		t.Errorf("folds end at %q after %d records", after, n)
	}
	trims := events[evtlog.Trimmed](w)
	if len(trims) != 1 || trims[0].Through != id(4990) || trims[0].Removed != 4990 {
		t.Errorf("%+v", trims)
	}
}

func TestLongBacklogIsTrimmedAsItIsFolded(t *testing.T) {
	w := newWorld(t)
	w.append(3*roundRecords + 10)
	if err := w.archiver(evtlog.KeepLast(10), Dial{Commit: true}).tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	if trims := events[evtlog.Trimmed](w); len(trims) < 3 {
		t.Errorf("%d trims", len(trims))
	}
	if got := len(w.log.IDs()); got != 10 {
		t.Errorf("%d are left", got)
	}
	w.check()
}

func TestNudgeFoldsAndDoesNotTrim(t *testing.T) {
	w := newWorld(t)
	a := w.archiver(evtlog.KeepLast(10), Dial{Commit: true})
	marks := 0
	w.arch.SetHook(func(_ context.Context, s archivetest.Step) error {
		if s == archivetest.BeforeWatermark {
			marks++
		}
		return nil
	})
	for range 5 {
		w.append(20)
		if _, err := a.turnOf(t.Context(), order{}); err != nil {
			t.Fatal(err)
		}
	}
	floor, _ := w.log.Floor()
	if len(w.log.IDs()) != 100 || floor != id(100) || marks != 1 {
		t.Errorf("%d live, floor %s, watermark read %d times", len(w.log.IDs()), floor, marks)
	}
	if err := a.tick(t.Context()); err != nil || len(w.log.IDs()) != 10 {
		t.Errorf("%v, %d live", err, len(w.log.IDs()))
	}
	w.check()
}

func TestManualFold(t *testing.T) {
	w := newWorld(t)
	w.append(100)
	a := w.archiver(evtlog.KeepLast(80), Dial{Window: 5000})
	for _, c := range []struct {
		what string
		fold func() (evtid.ID, error)
		w    int
		live int
	}{
		{"through an id", func() (evtid.ID, error) { return a.Fold(t.Context(), id(40)) }, 40, 80},
		{"through less", func() (evtid.ID, error) { return a.Fold(t.Context(), id(7)) }, 40, 80},
		{"all", func() (evtid.ID, error) { w.append(20); return a.FoldAll(t.Context()) }, 120, 100},
		{"everything", func() (evtid.ID, error) { w.append(20); return a.Fold(t.Context(), none) }, 140, 80},
		{"through what is to come", func() (evtid.ID, error) { w.append(20); return a.Fold(t.Context(), id(999)) }, 160, 80},
	} {
		got, err := c.fold()
		if err != nil || got != id(c.w) || len(w.log.IDs()) != c.live {
			t.Fatalf("%s: %s, %v, %d live", c.what, got, err, len(w.log.IDs()))
		}
		w.check()
	}
}

func TestArchiveUnavailableBlocksTrimming(t *testing.T) {
	for _, step := range []archivetest.Step{archivetest.BeforeWatermark, archivetest.BeforeFold, archivetest.BeforeRead} {
		t.Run(string(step), func(t *testing.T) {
			w := newWorld(t)
			w.append(200)
			a := w.archiver(evtlog.KeepLast(100), Dial{Window: 50})
			w.arch.SetHook(func(_ context.Context, s archivetest.Step) error {
				if s == step {
					return errDown
				}
				return nil
			})
			for range 3 {
				err := a.tick(t.Context())
				var unavailable *ArchiveError
				if !errors.As(err, &unavailable) || !errors.Is(err, errDown) || a.Stats().LastError == nil {
					t.Fatal(err)
				}
				w.append(10)
			}
			if got := len(w.log.IDs()); got != 230 || a.Stats().ArchiveErrors != 3 {
				t.Fatalf("trimmed without an archive: %d are left; %+v", got, a.Stats())
			}
			w.arch.SetHook(nil)
			if err := a.tick(t.Context()); err != nil || len(w.log.IDs()) != 100 {
				t.Fatalf("%v, %d live", err, len(w.log.IDs()))
			}
			w.check()
		})
	}
}

func TestFoldRefusedForGood(t *testing.T) {
	w := newWorld(t)
	w.append(200)
	a := w.archiver(evtlog.KeepLast(100), Dial{Window: 50})
	folds := 0
	w.arch.SetHook(func(_ context.Context, s archivetest.Step) error {
		if s == archivetest.BeforeFold {
			folds++
			return archive.ErrRejected
		}
		return nil
	})
	if err := a.tick(t.Context()); !errors.Is(err, archive.ErrRejected) || folds != 1 || len(w.log.IDs()) != 200 {
		t.Fatalf("%v after %d folds, %d live", err, folds, len(w.log.IDs()))
	}
}

func TestStreamMadeAnewBelowTheWatermark(t *testing.T) {
	w := newWorld(t)
	w.append(200)
	a := w.archiver(evtlog.KeepLast(100), Dial{Commit: true})
	if err := a.tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.log.Delete()
	var regressed *RegressedError
	if err := a.tick(t.Context()); !errors.As(err, &regressed) || regressed.Watermark != id(200) || !regressed.Top.IsZero() {
		t.Fatalf("gone: %v", err)
	}
	w.log.Append(20, 150)
	if err := a.tick(t.Context()); !errors.As(err, &regressed) || regressed.Top != id(150) {
		t.Fatalf("made anew: %v", err)
	}
	if got := len(w.log.IDs()); got != 131 {
		t.Fatalf("trimmed all the same: %d are left", got)
	}
	// Once the stream has passed the watermark folding goes on. What was appended
	// below is in no archive, if it is not by chance: it must not be trimmed.
	w.log.Append(201, 300)
	if err := a.tick(t.Context()); err != nil {
		t.Fatalf("all ids below are archived under the same ids: %v", err)
	}
	if got := w.watermark(); got != id(300) {
		t.Fatalf("watermark %s", got)
	}
}

func TestRecordWithoutACopyBlocksTrimming(t *testing.T) {
	w := newWorld(t)
	w.append(200)
	if err := w.archiver(evtlog.KeepLast(1000), Dial{Commit: true}).tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.log.Delete()
	w.log.Append(20, 29)
	stray, err := evtid.Make(id(29).UnixMilli(), 7, 7)
	if err != nil {
		t.Fatal(err)
	}
	w.log.Add(stray)
	w.log.Append(201, 400)

	// A new process: it has seen nothing of what happened.
	a := w.archiver(evtlog.KeepLast(100), Dial{Commit: true})
	var orphan *UnarchivedError
	for range 3 {
		if err := a.tick(t.Context()); !errors.As(err, &orphan) || orphan.ID != stray {
			t.Fatal(err)
		}
	}
	if w.watermark() != id(400) || len(w.log.IDs()) != 211 {
		t.Fatalf("watermark %s, %d live", w.watermark(), len(w.log.IDs()))
	}
	w.log.Remove(11)
	if err := a.tick(t.Context()); err != nil || len(w.log.IDs()) != 100 {
		t.Fatalf("%v, %d live", err, len(w.log.IDs()))
	}
}

func TestArchiveSetBack(t *testing.T) {
	w := newWorld(t)
	w.append(200)
	a := w.archiver(evtlog.KeepLast(100), Dial{Commit: true})
	if err := a.tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	right := w.arch
	w.arch = archivetest.NewMemory()
	a.arch = w.arch
	w.append(10)
	var back *SetBackError
	for _, o := range []order{{}, {}, {tick: true, trim: true}, {}, {tick: true, all: true}} {
		if _, err := a.turnOf(t.Context(), o); !errors.As(err, &back) || !back.Watermark.IsZero() || back.Floor != id(200) {
			t.Fatalf("%+v: %v", o, err)
		}
	}
	fresh := w.archiver(evtlog.KeepLast(100), Dial{Commit: true})
	for _, o := range []order{{tick: true, trim: true}, {}, {}} {
		if _, err := fresh.turnOf(t.Context(), o); !errors.As(err, &back) {
			t.Fatalf("a new process, %+v: %v", o, err)
		}
	}
	if got := w.archived(); len(got) != 0 || len(w.log.IDs()) != 110 {
		t.Fatalf("folded %d over a gap, %d live", len(got), len(w.log.IDs()))
	}
	w.arch, a.arch = right, right
	if err := a.tick(t.Context()); err != nil || w.watermark() != id(210) {
		t.Fatalf("with the right archive: %v, watermark %s", err, w.watermark())
	}
	w.check()
}

func TestForeignEntryBlocksTrimmingOnly(t *testing.T) {
	w := newWorld(t)
	w.append(200)
	w.log.Foreign = "5-1"
	a := w.archiver(evtlog.KeepLast(100), Dial{Window: 50})
	var foreign *evtlog.ForeignEntryError
	if err := a.tick(t.Context()); !errors.As(err, &foreign) || foreign.Entry != "5-1" {
		t.Fatal(err)
	}
	floor, _ := w.log.Floor()
	if w.watermark() != id(200) || floor != id(200) || len(w.log.IDs()) != 200 {
		t.Fatalf("watermark %s, floor %s, %d live", w.watermark(), floor, len(w.log.IDs()))
	}
	w.log.Foreign = ""
	if err := a.tick(t.Context()); err != nil || len(w.log.IDs()) != 100 {
		t.Fatalf("%v, %d live", err, len(w.log.IDs()))
	}
}

func TestFaultyTrimStopsTrimmingOnly(t *testing.T) {
	w := newWorld(t)
	w.append(200)
	w.log.Eager = 2
	a := w.archiver(evtlog.KeepLast(100), Dial{Commit: true})
	var fault *FaultError
	for range 3 {
		if err := a.tick(t.Context()); !errors.As(err, &fault) || fault.Missing != id(101) {
			t.Fatal(err)
		}
		w.append(50)
	}
	if w.watermark() != id(300) || len(w.log.IDs()) != 248 {
		t.Fatalf("watermark %s, %d live", w.watermark(), len(w.log.IDs()))
	}
}

func TestTrimWithoutEffectIsAnAlarm(t *testing.T) {
	w := newWorld(t)
	w.append(200)
	w.log.Lazy = true
	a := w.archiver(evtlog.KeepLast(100), Dial{Commit: true})
	for i := range 4 {
		var stalled *StalledError
		if err := a.tick(t.Context()); errors.As(err, &stalled) != (i >= 2) {
			t.Fatalf("tick %d: %v", i, err)
		}
	}
}

func TestRecordsLostBeforeTheyWereArchived(t *testing.T) {
	for _, c := range []struct {
		name      string
		change    func(*world)
		after, to evtid.ID
	}{
		{"key gone", func(w *world) { w.log.Delete() }, id(50), id(90)},
		{"key made anew", func(w *world) { w.log.Delete(); w.log.Append(95, 96) }, id(50), id(95).Prev()},
		{"trimmed by a stranger", func(w *world) { w.log.Remove(70) }, id(50), id(71).Prev()},
		{"trimmed by a stranger through the last seen", func(w *world) { w.append(5); w.log.Remove(92) }, id(50), id(93).Prev()},
		{"trimmed by a stranger through W", func(w *world) { w.log.Remove(50) }, none, none},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.append(50)
			a := w.archiver(evtlog.KeepLast(1000), Dial{Window: 50})
			_ = a.tick(t.Context())
			w.append(40)
			_ = a.tick(t.Context())
			c.change(w)
			for range 3 {
				_ = a.tick(t.Context())
			}
			lost := events[evtlog.Lost](w)
			if c.to.IsZero() {
				if len(lost) != 0 {
					t.Fatalf("%+v", lost)
				}
				return
			}
			if len(lost) != 1 || lost[0].After != c.after || lost[0].To != c.to || lost[0].Group != "" {
				t.Fatalf("%+v, want one of (%s, %s]", lost, c.after, c.to)
			}
		})
	}
}

// Records that come and go between two looks were seen by nobody: the server's
// count tells that they are missing, also when later ones were folded before the
// next look.
func TestRecordsLostBeforeTheyWereSeen(t *testing.T) {
	nudge := func(a *Archiver) error { _, err := a.turnOf(quiet, order{}); return err }
	tick := func(a *Archiver) error { return a.tick(quiet) }
	for _, c := range []struct {
		name      string
		d         Dial
		change    func(w *world, look func())
		after, to int // the first and last record lost, 0 for none
	}{
		{"idle", Dial{Commit: true}, func(*world, func()) {}, 0, 0},
		{"appended", Dial{Commit: true}, func(w *world, _ func()) { w.append(20) }, 0, 0},
		{"all of it", Dial{Commit: true}, func(w *world, _ func()) { w.append(20); w.log.Remove(70) }, 51, 70},
		{"the oldest", Dial{Commit: true}, func(w *world, _ func()) { w.append(20); w.log.Remove(60) }, 51, 60},
		{"what is archived", Dial{Commit: true}, func(w *world, _ func()) { w.append(20); w.log.Remove(50) }, 0, 0},
		{"what is archived, then more", Dial{Window: 10}, func(w *world, look func()) {
			w.append(10)
			w.log.Remove(50)
			look()
			w.append(20)
			w.log.Remove(25)
		}, 61, 75},
		{"before nudged folds", Dial{Commit: true}, func(w *world, look func()) {
			w.append(20)
			w.log.Remove(60)
			look()
			w.append(5)
			look()
		}, 51, 60},
		{"while the archive is down", Dial{Window: 50}, func(w *world, look func()) {
			w.arch.SetHook(func(context.Context, archivetest.Step) error { return errDown })
			w.append(500)
			look()
			w.log.Remove(400)
			look()
			w.arch.SetHook(nil)
		}, 51, 400},
		{"made anew", Dial{Commit: true}, func(w *world, look func()) {
			w.log.Delete()
			look()
			w.append(3)
		}, 0, 0},
	} {
		for name, look := range map[string]func(*Archiver) error{"nudged": nudge, "ticking": tick} {
			t.Run(c.name+", "+name, func(t *testing.T) {
				w := newWorld(t)
				w.append(50)
				a := w.archiver(evtlog.KeepLast(1000), c.d)
				if err := tick(a); err != nil {
					t.Fatal(err)
				}
				c.change(w, func() { _ = look(a) })
				for range 3 {
					_ = tick(a)
				}
				lost := events[evtlog.Lost](w)
				if c.to == 0 {
					if len(lost) != 0 {
						t.Fatalf("%+v", lost)
					}
					return
				}
				if len(lost) != 1 || !lost[0].After.Less(id(c.after)) || lost[0].After.Less(id(c.after-1)) || lost[0].To.Less(id(c.to)) || !lost[0].To.Less(id(c.to+1)) {
					t.Fatalf("%+v, want one that holds %s to %s", lost, id(c.after), id(c.to))
				}
				if n := fmt.Sprintf("%d records", c.to-c.after+1); !strings.HasPrefix(lost[0].Reason, n) {
					t.Errorf("%q does not begin with %q", lost[0].Reason, n)
				}
			})
		}
	}
}

func TestConfigIsRefusedByField(t *testing.T) {
	s := stream(t)
	for field, cfg := range map[string]Config{
		"Config.Stream":      {},
		"Config.Every":       {Stream: s, Every: -1},
		"Config.Fold.Window": {Stream: s, Fold: Dial{Window: -1}},
		"Config.Fold":        {Stream: s, Fold: Dial{Commit: true, Window: 5}},
		"Config.Keep":        {Stream: s, Keep: evtlog.Keep{Last: -1}},
	} {
		if _, err := New(cfg, nil, nil); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
