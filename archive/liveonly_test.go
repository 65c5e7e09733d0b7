package archive_test

import (
	"context"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/archivetest"
	"github.com/evtlog/evtlog/evtid"
)

func (w *world) liveReader(page int) *archive.Reader {
	r := archive.NewReader(feed, &w.live, nil)
	r.SetPageSize(page)
	return r
}

func TestLiveOnly(t *testing.T) {
	tests := map[string]struct {
		appended, folded, trimmed int
		window                    evtlog.Window
		want                      string
		gapAfter, gapTo           evtid.ID
	}{
		"all":                        {5, 0, 0, evtlog.Window{}, "l1 l2 l3 l4 l5", evtid.ID{}, evtid.ID{}},
		"nothing":                    {0, 0, 0, evtlog.Window{}, "", evtid.ID{}, evtid.ID{}},
		"begins where it is kept":    {5, 0, 2, evtlog.Window{}, "l3 l4 l5", evtid.ID{}, evtid.ID{}},
		"window":                     {9, 0, 2, evtlog.Window{After: number(4), To: number(6)}, "l5 l6", evtid.ID{}, evtid.ID{}},
		"limit":                      {9, 0, 2, evtlog.Window{Limit: 3}, "l3 l4 l5", evtid.ID{}, evtid.ID{}},
		"archived elsewhere":         {6, 3, 3, evtlog.Window{}, "", number(0), number(3)},
		"archived, still there":      {6, 3, 0, evtlog.Window{}, "", number(0), number(1).Prev()},
		"archived, trimmed in part":  {6, 3, 1, evtlog.Window{}, "", number(0), number(2).Prev()},
		"above what was archived":    {6, 3, 3, evtlog.Window{After: number(3)}, "l4 l5 l6", evtid.ID{}, evtid.ID{}},
		"all archived and trimmed":   {3, 3, 3, evtlog.Window{After: number(1)}, "", number(1), number(3)},
		"window below the floor":     {9, 6, 6, evtlog.Window{After: number(1), To: number(4)}, "", number(1), number(4)},
		"backward":                   {5, 0, 2, evtlog.Window{Reverse: true}, "l5 l4 l3", evtid.ID{}, evtid.ID{}},
		"backward, archived":         {6, 3, 3, evtlog.Window{Reverse: true}, "l6 l5 l4", number(0), number(3)},
		"backward, archived in part": {6, 3, 2, evtlog.Window{After: number(1), Reverse: true}, "l6 l5 l4 l3", number(1), number(3).Prev()},
		"backward, limit":            {6, 3, 3, evtlog.Window{Limit: 3, Reverse: true}, "l6 l5 l4", evtid.ID{}, evtid.ID{}},
		"backward, above the floor":  {6, 3, 3, evtlog.Window{After: number(3), Reverse: true}, "l6 l5 l4", evtid.ID{}, evtid.ID{}},
		"backward, below the floor":  {9, 6, 6, evtlog.Window{To: number(4), Reverse: true}, "", number(0), number(4)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for _, page := range []int{1, 2, 1000} {
				w := newWorld(t, tt.appended, tt.folded, tt.trimmed)
				got, err := numbers(w.liveReader(page).Read(t.Context(), tt.window))
				if got != tt.want {
					t.Errorf("page size %d: got %q; want %q", page, got, tt.want)
				}
				wantGap(t, err, tt.gapAfter, tt.gapTo)
			}
		})
	}
}

// wantGap fails the test unless err is the gap, or no error when to is zero.
func wantGap(t *testing.T, err error, after, to evtid.ID) {
	t.Helper()
	var gap *archive.GapError
	switch {
	case to.IsZero() && err != nil:
		t.Errorf("error %v, want none", err)
	case to.IsZero():
	case !errors.As(err, &gap) || !errors.Is(err, archive.ErrGap) || gap.After != after || gap.To != to || gap.Stream != feed:
		t.Errorf("error %v, want a gap of %s above %q up to %q", err, feed, after, to)
	}
}

func TestLiveOnlyGoesOnBehindAGap(t *testing.T) {
	w := newWorld(t, 6, 4, 2)
	window, got := evtlog.Window{}, ""
	for range 2 {
		part, err := numbers(w.liveReader(2).Read(t.Context(), window))
		got += part
		var gap *archive.GapError
		if errors.As(err, &gap) {
			window.After = gap.To
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if want := "l3 l4 l5 l6"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Without an archive, a trim that overtakes the read is noticed although the
// stream has no floor: the record that was yielded last is gone.
func TestLiveOnlyNoticesATrimWhileReading(t *testing.T) {
	tests := map[string]struct {
		through         int
		want            string
		gapAfter, gapTo evtid.ID
	}{
		"below the cursor":          {1, "l1 l2 l3 l4 l5 l6", evtid.ID{}, evtid.ID{}},
		"just the cursor":           {2, "l1 l2", number(2), number(3).Prev()},
		"past the cursor":           {3, "l1 l2", number(2), number(4).Prev()},
		"everything":                {6, "l1 l2", number(2), number(6)},
		"everything and one beyond": {7, "l1 l2", number(2), number(6)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 7, 0, 0)
			w.live.SetHook(during(archivetest.BeforeRange, 2, func() { w.live.TrimThrough(number(tt.through)) }))
			got, err := numbers(w.liveReader(2).Read(t.Context(), evtlog.Window{To: number(6)}))
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			wantGap(t, err, tt.gapAfter, tt.gapTo)
		})
	}
}

// TestLiveOnlyAccountsForEveryRecord trims by a retention policy, which leaves no
// floor, at random between the pages of reads without an archive. Each record
// that the first page could have begun with is yielded, or lies in a gap that
// was reported.
func TestLiveOnlyAccountsForEveryRecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var live archivetest.MemoryLive
		top, trimmed := 0, 0
		act := func() {
			switch n := rapid.IntRange(0, 3).Draw(t, "n"); rapid.IntRange(0, 2).Draw(t, "act") {
			case 0:
				if err := live.Append(archivetest.Records(top+1, top+n)...); err != nil {
					t.Fatal(err)
				}
				top += n
			case 1:
				trimmed = min(top, trimmed+n)
				live.TrimThrough(number(trimmed))
			}
		}
		r := archive.NewReader(feed, &live, nil)
		for range 20 {
			live.SetHook(nil)
			act()
			r.SetPageSize(rapid.IntRange(1, 4).Draw(t, "page size"))
			kept, pinned, gone := 0, 0, 0 // gone: what was trimmed when the stream was looked at last
			live.SetHook(func(_ context.Context, step archivetest.Step) error {
				act()
				if step == archivetest.BeforeInfo {
					pinned = top
				}
				if step == archivetest.BeforeRange {
					gone = trimmed
					if kept == 0 {
						kept = trimmed + 1
					}
				}
				return nil
			})
			next := 0
			for rec, err := range r.Read(context.Background(), evtlog.Window{}) {
				var gap *archive.GapError
				switch {
				case errors.As(err, &gap):
					if gap.After != number(next-1) || gap.To.Less(number(min(gone, pinned))) || number(gone+1).Prev().Less(gap.To) {
						t.Fatalf("gap above %q up to %q behind record %d, trimmed through %d of %d", gap.After, gap.To, next-1, gone, pinned)
					}
					next = pinned + 1
				case err != nil:
					t.Fatal(err)
				case next == 0 && rec.ID != number(kept) || next > 0 && rec.ID != number(next):
					t.Fatalf("record %s came where %d was expected (kept from %d)", rec.ID, next, kept)
				default:
					next = int(rec.ID.UnixMilli()-evtid.EpochMillis) + 1
				}
			}
			if next == 0 {
				next = max(kept, 1)
			}
			if next <= pinned && kept <= pinned {
				t.Fatalf("the read ended at %d of %d (kept from %d)", next-1, pinned, kept)
			}
		}
	})
}
