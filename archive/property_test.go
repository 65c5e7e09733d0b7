package archive_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/archivetest"
	"github.com/evtlog/evtlog/evtid"
)

// history is a stream whose writer, archivers and trimmers act at random between
// any two commands of a read. Record n is the n-th that was ever appended.
type history struct {
	t        *rapid.T
	live     archivetest.MemoryLive
	arch     *archivetest.Memory
	follower *archivetest.Follower
	top      int // newest appended
	folded   int // the archive's watermark
	trimmed  int
	budget   int // actions left in this read
	// first and last are the top at the first and the last look at the stream.
	first, last int
	looked      bool
	pinned      int // the top when an open window was pinned
	// pageLast says that the stream was looked at after the archive was.
	pageLast bool
}

func newHistory(t *rapid.T) *history {
	arch := archivetest.NewMemory()
	h := &history{t: t, arch: arch, follower: archivetest.NewFollower(arch)}
	h.live.SetHook(func(_ context.Context, step archivetest.Step) error {
		h.act()
		switch step {
		case archivetest.BeforeInfo:
			h.pinned = h.top
		case archivetest.BeforeRange, archivetest.BeforeReverse:
			h.look()
		}
		return nil
	})
	arch.SetHook(func(_ context.Context, step archivetest.Step) error {
		if step == archivetest.BeforeRead || step == archivetest.BeforeWatermark || step == archivetest.BeforeRecord {
			h.act()
		}
		return nil
	})
	return h
}

// look notes what a command that is about to run will see.
func (h *history) look() {
	if !h.looked {
		h.first, h.looked = h.top, true
	}
	h.last, h.pageLast = h.top, true
}

// act does up to three things that other clients may do at any moment.
func (h *history) act() {
	for range min(h.budget, rapid.IntRange(0, 3).Draw(h.t, "acts")) {
		h.budget--
		h.actOnce(rapid.SampledFrom([]string{"append", "fold", "seal", "trim", "apply", "lose floor", "archive"}).Draw(h.t, "act"))
	}
}

func (h *history) actOnce(what string) {
	switch what {
	case "append":
		n := rapid.IntRange(1, 3).Draw(h.t, "n")
		h.check(h.live.Append(archivetest.Records(h.top+1, h.top+n)...))
		h.top += n
	case "fold":
		h.fold()
	case "seal":
		h.live.Seal(number(h.folded))
	case "trim":
		h.live.Seal(number(h.folded))
		h.trimmed = max(h.trimmed, rapid.IntRange(h.trimmed, h.folded).Draw(h.t, "through"))
		h.live.TrimThrough(number(h.trimmed))
	case "apply":
		h.follower.Apply(feed, number(rapid.IntRange(0, h.folded).Draw(h.t, "applied")))
	case "lose floor":
		h.live.DropFloor()
	case "archive":
		h.fold()
		h.live.Seal(number(h.folded))
		h.trimmed = h.folded
		h.live.TrimThrough(number(h.trimmed))
	}
}

func (h *history) fold() {
	if h.folded == h.top {
		return
	}
	to := rapid.IntRange(h.folded+1, h.top).Draw(h.t, "fold up to")
	_, err := h.arch.Fold(context.Background(), feed, number(h.folded), archivetest.Records(h.folded+1, to))
	h.check(err)
	h.folded = to
}

func (h *history) check(err error) {
	if err != nil {
		h.t.Fatal(err)
	}
}

// Read, Fold and Watermark make history an archive whose follower catches up as
// far as a read asks for, at the latest when it asks.
func (h *history) Read(ctx context.Context, s evtlog.StreamName, r archive.Range) iter.Seq2[evtlog.Record, error] {
	h.pageLast = false
	through := h.folded
	for n := h.folded; n > 0 && !number(n).Less(r.AtLeast); n-- {
		through = n
	}
	if !r.AtLeast.IsZero() {
		h.follower.Apply(s, number(rapid.IntRange(through, h.folded).Draw(h.t, "caught up")))
	}
	return h.follower.Read(ctx, s, r)
}

func (h *history) Fold(ctx context.Context, s evtlog.StreamName, prev evtid.ID, records []evtlog.Record) (evtid.ID, error) {
	return h.follower.Fold(ctx, s, prev, records)
}

func (h *history) Watermark(ctx context.Context, s evtlog.StreamName) (evtid.ID, error) {
	return h.follower.Watermark(ctx, s)
}

// window draws a window with bounds on, between and beyond the records.
func (h *history) window() evtlog.Window {
	bound := func(from int, label string) evtid.ID {
		n := rapid.IntRange(from, h.top+3).Draw(h.t, label)
		id := number(n)
		switch rapid.IntRange(0, 4).Draw(h.t, label+" beside") {
		case 0:
			return id.Next()
		case 1:
			return id.Prev()
		}
		return id
	}
	w := evtlog.Window{After: bound(0, "after"), Reverse: rapid.Bool().Draw(h.t, "reverse")}
	if rapid.Bool().Draw(h.t, "bounded") {
		w.To = bound(1, "to")
		if w.To.Less(w.After) {
			w.After, w.To = w.To, w.After
		}
	}
	if rapid.Bool().Draw(h.t, "limited") {
		w.Limit = rapid.IntRange(1, 6).Draw(h.t, "limit")
	}
	return w
}

// expect is the oracle: what the window held when the top was the given one.
func (h *history) expect(w evtlog.Window, to evtid.ID, top int) []int {
	var in []int
	for n := 1; n <= top; n++ {
		if w.After.Less(number(n)) && !to.Less(number(n)) {
			in = append(in, n)
		}
	}
	if w.Reverse {
		slices.Reverse(in)
	}
	if w.Limit > 0 {
		in = in[:min(len(in), w.Limit)]
	}
	return in
}

// TestMergedReadIsTheLog reads 10,000 random windows while other clients append,
// fold, seal, trim, lose the floor and let the follower lag between any two
// commands. Each read gives the records that were there at one moment: its last
// page's forward, its first page's backward.
func TestMergedReadIsTheLog(t *testing.T) {
	const windows = 100 // in each of rapid's histories, 100 by default
	reads := 0
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t)
		r := archive.NewReader(feed, &h.live, h)
		r.SetPageSize(rapid.IntRange(1, 4).Draw(t, "page size"))
		for range windows {
			h.budget = rapid.IntRange(0, 12).Draw(t, "budget")
			h.actOnce("append")
			h.act()
			if rapid.IntRange(0, 9).Draw(t, "fresh reader") == 0 {
				r = archive.NewReader(feed, &h.live, h)
				r.SetPageSize(rapid.IntRange(1, 4).Draw(t, "page size"))
			}
			h.readOnce(r, h.window())
			reads++
		}
	})
	t.Logf("%d windows were read", reads)
}

func (h *history) readOnce(r *archive.Reader, w evtlog.Window) {
	h.first, h.last, h.looked, h.pageLast = 0, 0, false, false
	var got []int
	var from []evtlog.Source
	for rec, err := range r.Read(context.Background(), w) {
		h.check(err)
		got, from = append(got, int(rec.ID.UnixMilli()-evtid.EpochMillis)), append(from, rec.Source)
	}
	to := w.To
	if to.IsZero() {
		to = number(h.pinned)
	}
	seen := h.moment(w, got, from)
	if want := h.expect(w, to, seen); !slices.Equal(got, want) {
		h.t.Fatalf("%s\n got %v from %v\nwant %v (top %d then, %d now, watermark %d, trimmed %d)", showWindow(w), got, from, want, seen, h.top, h.folded, h.trimmed)
	}
}

// moment returns the top at the moment whose records the read must have given.
func (h *history) moment(w evtlog.Window, got []int, from []evtlog.Source) int {
	switch {
	case w.Reverse && h.looked && len(from) > 0 && from[0] == evtlog.Archived:
		// The live stream had nothing to show: any moment from then on.
		return max(h.first, got[0])
	case w.Reverse && h.looked:
		return h.first
	case !w.Reverse && h.pageLast:
		return h.last
	}
	// The archive ended the read, so all of the window was archived.
	return h.top
}

func showWindow(w evtlog.Window) string {
	return fmt.Sprintf("window above %q up to %q, limit %d, reverse %t", w.After, w.To, w.Limit, w.Reverse)
}
