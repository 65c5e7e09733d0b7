package archive_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/archivetest"
	"github.com/evtlog/evtlog/evtid"
)

func TestErrorsEndTheReadWhereItIs(t *testing.T) {
	boom := errors.New("boom")
	fail := func(step archivetest.Step, nth int) archivetest.Hook {
		return func(_ context.Context, at archivetest.Step) error {
			if at == step {
				if nth--; nth == 0 {
					return boom
				}
			}
			return nil
		}
	}
	tests := map[string]struct {
		window evtlog.Window
		live   archivetest.Hook
		arch   archivetest.Hook
		want   string
	}{
		"newest id":          {window: evtlog.Window{}, live: fail(archivetest.BeforeInfo, 1)},
		"first page":         {window: evtlog.Window{}, live: fail(archivetest.BeforeRange, 1)},
		"its floor":          {window: evtlog.Window{}, live: fail(archivetest.BeforeFloor, 1)},
		"archive":            {window: evtlog.Window{}, arch: fail(archivetest.BeforeRead, 1)},
		"second record":      {window: evtlog.Window{}, arch: fail(archivetest.BeforeRecord, 2), want: "a1"},
		"page above archive": {window: evtlog.Window{}, live: fail(archivetest.BeforeRange, 2), want: "a1 a2 a3"},
		"last page":          {window: evtlog.Window{}, live: fail(archivetest.BeforeRange, 3), want: "a1 a2 a3 l4 l5"},
		"page downwards":     {window: evtlog.Window{Reverse: true}, live: fail(archivetest.BeforeReverse, 2), want: "l6 l5"},
		"floor downwards":    {window: evtlog.Window{Reverse: true}, live: fail(archivetest.BeforeFloor, 1), want: "l6 l5 l4"},
		"archive downwards":  {window: evtlog.Window{Reverse: true}, arch: fail(archivetest.BeforeRecord, 2), want: "l6 l5 l4 a3"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 6, 3, 3)
			w.live.SetHook(tt.live)
			w.arch.SetHook(tt.arch)
			got, err := numbers(w.reader(2).Read(t.Context(), tt.window))
			if got != tt.want || !errors.Is(err, boom) || !strings.Contains(err.Error(), feed.String()) {
				t.Errorf("got %q, %v; want %q and the cause with the stream's name", got, err, tt.want)
			}
		})
	}
	t.Run("watermark", func(t *testing.T) {
		w := newWorld(t, 6, 3, 3)
		w.live.DropFloor()
		w.arch.SetHook(fail(archivetest.BeforeWatermark, 1))
		for _, reverse := range []bool{false, true} {
			got, err := numbers(w.reader(9).Read(t.Context(), evtlog.Window{Reverse: reverse}))
			if reverse == (err != nil) {
				t.Errorf("reverse %t: got %q, %v", reverse, got, err)
			}
		}
	})
}

func TestContextEndsTheRead(t *testing.T) {
	why := errors.New("the page was closed")
	for _, reverse := range []bool{false, true} {
		for leave := range 6 {
			w := newWorld(t, 6, 3, 3)
			ctx, cancel := context.WithCancelCause(t.Context())
			n, err := 0, error(nil)
			if leave == 0 {
				cancel(why)
			}
			for _, err = range w.reader(1).Read(ctx, evtlog.Window{Reverse: reverse}) {
				if err != nil {
					break
				}
				if n++; n == leave {
					cancel(why)
				}
			}
			if n != leave || !errors.Is(err, context.Canceled) {
				t.Errorf("reverse %t: context ended after %d records: %d records and %v", reverse, leave, n, err)
			}
			cancel(nil)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	w := newWorld(t, 3, 1, 1)
	w.live.SetHook(during(archivetest.AfterRead, 1, func() { cancel(why) }))
	if got, err := numbers(w.reader(1).Read(ctx, evtlog.Window{After: number(1), To: number(3)})); got != "l2" || !errors.Is(err, why) {
		t.Errorf("got %q, %v; want the cause", got, err)
	}
}

// released counts the archive reads that were begun and not left.
type released struct {
	archive.Archive
	open int
}

func (a *released) Read(ctx context.Context, s evtlog.StreamName, r archive.Range) iter.Seq2[evtlog.Record, error] {
	return func(yield func(evtlog.Record, error) bool) {
		a.open++
		defer func() { a.open-- }()
		a.Archive.Read(ctx, s, r)(yield)
	}
}

func TestBreakReleasesTheArchive(t *testing.T) {
	for _, window := range []evtlog.Window{{}, {Limit: 2}, {Reverse: true}, {Reverse: true, Limit: 5}} {
		for leave := 1; leave <= 6; leave++ {
			w := newWorld(t, 6, 3, 3)
			counted := &released{Archive: w.arch}
			n := 0
			for range archive.NewReader(feed, &w.live, counted).Read(t.Context(), window) {
				if n++; n == leave {
					break
				}
			}
			if counted.open != 0 {
				t.Errorf("%+v left after %d records: %d archive reads still open", window, leave, counted.open)
			}
		}
	}
}

// A node that has not applied the floor makes the read wait: going on without it
// would skip records.
func TestReadWaitsForAFollowerThatIsBehind(t *testing.T) {
	for _, reverse := range []bool{false, true} {
		w := newWorld(t, 6, 4, 4)
		follower := archivetest.NewFollower(w.arch)
		follower.Apply(feed, number(2))
		r := archive.NewReader(feed, &w.live, follower)
		type answer struct {
			got string
			err error
		}
		reading, done := make(chan struct{}), make(chan answer, 1)
		w.arch.SetHook(during(archivetest.BeforeRead, 1, func() { close(reading) }))
		go func() {
			got, err := numbers(r.Read(t.Context(), evtlog.Window{Reverse: reverse}))
			done <- answer{got, err}
		}()
		<-reading
		follower.Apply(feed, number(3))
		follower.Apply(feed, number(4))
		want := "a1 a2 a3 a4 l5 l6"
		if reverse {
			want = "l6 l5 a4 a3 a2 a1"
		}
		if a := <-done; a.err != nil || a.got != want {
			t.Errorf("reverse %t: got %q, %v; want %q", reverse, a.got, a.err, want)
		}
	}
	w := newWorld(t, 6, 4, 4)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	got, err := numbers(archive.NewReader(feed, &w.live, archivetest.NewFollower(w.arch)).Read(ctx, evtlog.Window{To: number(6)}))
	if got != "" || !errors.Is(err, archive.ErrBehind) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a follower that never applies: got %q, %v", got, err)
	}
}

// hollow is an archive that claims its watermark but lost its newest records.
type hollow struct{ archive.Archive }

func (a hollow) Read(ctx context.Context, s evtlog.StreamName, r archive.Range) iter.Seq2[evtlog.Record, error] {
	if number(2).Less(r.To) {
		r.To, r.AtLeast = number(2), evtid.ID{}
	}
	return a.Archive.Read(ctx, s, r)
}

func TestArchiveWithoutItsNewestRecordsIsNotPassedOver(t *testing.T) {
	for _, reverse := range []bool{false, true} {
		w := newWorld(t, 6, 4, 4)
		r := archive.NewReader(feed, &w.live, hollow{w.arch})
		got, err := numbers(r.Read(t.Context(), evtlog.Window{Reverse: reverse}))
		want := "a1 a2"
		if reverse {
			want = "l6 l5"
		}
		var gap *archive.GapError
		if got != want || !errors.As(err, &gap) || gap.After != number(2) || gap.To != number(4) {
			t.Errorf("reverse %t: got %q, %v; want %q and a gap from 2 to 4", reverse, got, err, want)
		}
	}
}

// foreign is a live stream with an entry that has no id behind record 4.
type foreign struct{ *archivetest.MemoryLive }

var errForeign = &evtlog.ForeignEntryError{Stream: feed, Entry: "1704067200004-4194304"}

func (f foreign) Page(ctx context.Context, after, to evtid.ID, n int) ([]evtlog.Record, evtid.ID, error) {
	page, floor, err := f.MemoryLive.Page(ctx, after, to, n)
	for i := range page {
		if number(4).Less(page[i].ID) {
			return page[:i], floor, errForeign
		}
	}
	return page, floor, err
}

func (f foreign) PageBefore(ctx context.Context, after, to evtid.ID, n int) ([]evtlog.Record, error) {
	page, err := f.MemoryLive.PageBefore(ctx, after, to, n)
	for i := range page {
		if !number(4).Less(page[i].ID) {
			return page[:i], errForeign
		}
	}
	return page, err
}

func TestRecordsBeforeAForeignEntryAreYielded(t *testing.T) {
	tests := map[string]struct {
		window evtlog.Window
		want   string
		ends   bool
	}{
		"forward":                   {evtlog.Window{}, "l1 l2 l3 l4", true},
		"forward, limit before it":  {evtlog.Window{Limit: 3}, "l1 l2 l3", false},
		"forward, limit at it":      {evtlog.Window{Limit: 4}, "l1 l2 l3 l4", false},
		"forward, limit behind it":  {evtlog.Window{Limit: 5}, "l1 l2 l3 l4", true},
		"forward, bound before it":  {evtlog.Window{To: number(3)}, "l1 l2 l3", false},
		"backward":                  {evtlog.Window{Reverse: true}, "l6 l5", true},
		"backward, limit before it": {evtlog.Window{Reverse: true, Limit: 2}, "l6 l5", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 6, 0, 0)
			for kind, arch := range map[string]archive.Archive{"with an archive": w.arch, "live only": nil} {
				r := archive.NewReader(feed, foreign{&w.live}, arch)
				r.SetPageSize(4)
				got, err := numbers(r.Read(t.Context(), tt.window))
				if got != tt.want || errors.Is(err, evtlog.ErrForeignEntry) != tt.ends {
					t.Errorf("%s: got %q, %v; want %q, foreign entry %t", kind, got, err, tt.want, tt.ends)
				}
			}
		})
	}
}
