package archive_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/archivetest"
	"github.com/evtlog/evtlog/evtid"
)

// Yesterday's copy of an archive under today's stream: nothing will ever bring
// the missing records, so the read ends with the range and does not wait.
func TestAnOlderCopyOfTheArchiveIsNotWaitedFor(t *testing.T) {
	for name, tt := range map[string]struct {
		folded  int
		window  evtlog.Window
		want    string
		gap, to int
	}{
		"older copy":            {2, evtlog.Window{}, "a1 a2", 2, 4},
		"older copy, limit":     {2, evtlog.Window{Limit: 2}, "a1 a2", 0, 0},
		"another, empty":        {0, evtlog.Window{}, "", 0, 4},
		"window inside the gap": {2, evtlog.Window{After: number(3), To: number(4)}, "", 3, 4},
		"older copy, backward":  {2, evtlog.Window{Reverse: true}, "l6 l5", 2, 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 6, 4, 4)
				w.arch = archivetest.NewMemory()
				if tt.folded > 0 {
					w.fold(0, tt.folded)
				}
				start := time.Now()
				got, err := numbers(w.reader(2).Read(t.Context(), tt.window))
				if got != tt.want || time.Since(start) > time.Minute {
					t.Errorf("got %q after %s; want %q", got, time.Since(start), tt.want)
				}
				wantGap(t, err, number(tt.gap), number(tt.to))
			})
		})
	}
}

// A node may be behind for long: as long as the archive as a whole has the
// records, the read waits, until its context ends.
func TestANodeThatIsFarBehindIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 6, 4, 4)
		follower := archivetest.NewFollower(w.arch)
		go func() {
			<-time.After(time.Hour)
			follower.Apply(feed, number(4))
		}()
		r := archive.NewReader(feed, &w.live, follower)
		start := time.Now()
		got, err := numbers(r.Read(t.Context(), evtlog.Window{}))
		if err != nil || got != "a1 a2 a3 a4 l5 l6" || time.Since(start) != time.Hour {
			t.Errorf("got %q, %v after %s", got, err, time.Since(start))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 6, 4, 4)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		r := archive.NewReader(feed, &w.live, archivetest.NewFollower(w.arch))
		got, err := numbers(r.Read(ctx, evtlog.Window{}))
		if got != "" || !errors.Is(err, context.DeadlineExceeded) || ctx.Err() == nil {
			t.Errorf("got %q, %v", got, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("no quorum")
		w := newWorld(t, 6, 4, 4)
		w.arch.SetHook(during(archivetest.BeforeRead, 1, func() {
			w.arch.SetHook(func(_ context.Context, step archivetest.Step) error {
				if step == archivetest.BeforeWatermark {
					return down
				}
				return nil
			})
		}))
		r := archive.NewReader(feed, &w.live, archivetest.NewFollower(w.arch))
		if got, err := numbers(r.Read(t.Context(), evtlog.Window{})); got != "" || !errors.Is(err, down) {
			t.Errorf("got %q, %v; want the reason why nobody can tell", got, err)
		}
	})
}

// tardy gives its first record in the moment in which the reader loses patience.
type tardy struct {
	archive.Archive
	late bool
}

func (a *tardy) Read(ctx context.Context, s evtlog.StreamName, r archive.Range) iter.Seq2[evtlog.Record, error] {
	return func(yield func(evtlog.Record, error) bool) {
		first := !a.late
		a.late = true
		if first {
			<-ctx.Done()
		}
		for rec, err := range a.Archive.Read(context.WithoutCancel(ctx), s, r) {
			if !yield(rec, err) {
				return
			}
			if first {
				yield(evtlog.Record{}, ctx.Err())
				return
			}
		}
	}
}

func TestARecordThatComesAtTheLastMomentCounts(t *testing.T) {
	for reverse, want := range map[bool]string{false: "a1 a2 a3 l4", true: "l4 a3 a2 a1"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 4, 3, 3)
			r := archive.NewReader(feed, &w.live, &tardy{Archive: w.arch})
			if got, err := numbers(r.Read(t.Context(), evtlog.Window{Reverse: reverse})); err != nil || got != want {
				t.Errorf("got %q, %v; want %q", got, err, want)
			}
		})
	}
	// The late record is the first id of all: nothing is left below it.
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, arch: archivetest.NewMemory()}
		only := []evtlog.Record{{ID: evtid.ID{}.Next(), Fields: archivetest.Records(1, 1)[0].Fields}}
		if _, err := w.arch.Fold(t.Context(), feed, evtid.ID{}, only); err != nil {
			t.Fatal(err)
		}
		r := archive.NewReader(feed, &w.live, &tardy{Archive: w.arch})
		if got, err := numbers(r.Read(t.Context(), evtlog.Window{Reverse: true})); err != nil || got != "a1" {
			t.Errorf("got %q, %v; want the one record once", got, err)
		}
	})
}
