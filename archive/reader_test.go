package archive_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/archivetest"
	"github.com/evtlog/evtlog/evtid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var feed = evtlog.StreamName{Queue: "cm", Name: "feed"}

// world is one stream: its live half and its archive.
type world struct {
	t    testing.TB
	live archivetest.MemoryLive
	arch *archivetest.Memory
}

// newWorld appends records 1..appended, folds those up to folded, and trims
// those up to trimmed.
func newWorld(t testing.TB, appended, folded, trimmed int) *world {
	t.Helper()
	w := &world{t: t, arch: archivetest.NewMemory()}
	w.append(1, appended)
	if folded > 0 {
		w.fold(0, folded)
		w.live.Seal(archivetest.ID(folded))
	}
	if trimmed > 0 {
		w.live.TrimThrough(archivetest.ID(trimmed))
	}
	return w
}

func (w *world) append(from, to int) {
	w.t.Helper()
	if err := w.live.Append(archivetest.Records(from, to)...); err != nil {
		w.t.Fatal(err)
	}
}

// fold folds the records after..to; after is the watermark's number.
func (w *world) fold(after, to int) {
	w.t.Helper()
	if _, err := w.arch.Fold(context.Background(), feed, number(after), archivetest.Records(after+1, to)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) reader(page int) *archive.Reader {
	r := archive.NewReader(feed, &w.live, w.arch)
	r.SetPageSize(page)
	return r
}

// number returns the id of record n, the zero ID for 0.
func number(n int) evtid.ID {
	if n == 0 {
		return evtid.ID{}
	}
	return archivetest.ID(n)
}

// numbers renders a sequence: "a3" is record 3 from the archive, "l4" record 4
// from the live stream.
func numbers(seq iter.Seq2[evtlog.Record, error]) (string, error) {
	var out []string
	for rec, err := range seq {
		if err != nil {
			return strings.Join(out, " "), err
		}
		n, _ := rec.Get("n")
		out = append(out, rec.Source.String()[:1]+n)
	}
	return strings.Join(out, " "), nil
}

func TestReadWindows(t *testing.T) {
	tests := map[string]struct {
		appended, folded, trimmed int
		window                    evtlog.Window
		want                      string
	}{
		"nothing at all":               {0, 0, 0, evtlog.Window{}, ""},
		"live only":                    {4, 0, 0, evtlog.Window{}, "l1 l2 l3 l4"},
		"archived, nothing trimmed":    {4, 2, 0, evtlog.Window{}, "a1 a2 l3 l4"},
		"archived and trimmed":         {5, 3, 3, evtlog.Window{}, "a1 a2 a3 l4 l5"},
		"archived, trimmed in part":    {5, 3, 2, evtlog.Window{}, "a1 a2 a3 l4 l5"},
		"all archived and trimmed":     {3, 3, 3, evtlog.Window{}, "a1 a2 a3"},
		"window in the archive":        {9, 6, 6, evtlog.Window{After: number(2), To: number(4)}, "a3 a4"},
		"window in the live stream":    {9, 4, 4, evtlog.Window{After: number(6), To: number(8)}, "l7 l8"},
		"window over the seam":         {9, 4, 4, evtlog.Window{After: number(2), To: number(7)}, "a3 a4 l5 l6 l7"},
		"window ends at the seam":      {9, 4, 4, evtlog.Window{After: number(2), To: number(4)}, "a3 a4"},
		"window begins at the seam":    {9, 4, 4, evtlog.Window{After: number(4), To: number(6)}, "l5 l6"},
		"window between ids":           {9, 4, 4, evtlog.Window{After: number(3).Prev(), To: number(6).Prev()}, "a3 a4 l5"},
		"window beyond the top":        {5, 2, 2, evtlog.Window{After: number(4), To: number(50)}, "l5"},
		"window above the top":         {5, 2, 2, evtlog.Window{After: number(7), To: number(50)}, ""},
		"open window above the top":    {5, 2, 2, evtlog.Window{After: number(7)}, ""},
		"window before the first":      {5, 2, 2, evtlog.Window{To: number(1).Prev()}, ""},
		"empty window":                 {5, 2, 2, evtlog.Window{After: number(3), To: number(3)}, ""},
		"limit in the archive":         {9, 4, 4, evtlog.Window{Limit: 3}, "a1 a2 a3"},
		"limit at the seam":            {9, 4, 4, evtlog.Window{Limit: 4}, "a1 a2 a3 a4"},
		"limit in the live stream":     {9, 4, 4, evtlog.Window{Limit: 7}, "a1 a2 a3 a4 l5 l6 l7"},
		"limit beyond the end":         {5, 2, 2, evtlog.Window{Limit: 70}, "a1 a2 l3 l4 l5"},
		"backward":                     {5, 3, 3, evtlog.Window{Reverse: true}, "l5 l4 a3 a2 a1"},
		"backward, nothing trimmed":    {5, 3, 0, evtlog.Window{Reverse: true}, "l5 l4 l3 l2 l1"},
		"backward, trimmed in part":    {5, 3, 2, evtlog.Window{Reverse: true}, "l5 l4 l3 a2 a1"},
		"backward, nothing archived":   {4, 0, 0, evtlog.Window{Reverse: true}, "l4 l3 l2 l1"},
		"backward in the archive":      {9, 6, 6, evtlog.Window{After: number(2), To: number(4), Reverse: true}, "a4 a3"},
		"backward over the seam":       {9, 4, 4, evtlog.Window{After: number(2), To: number(7), Reverse: true}, "l7 l6 l5 a4 a3"},
		"backward in the live stream":  {9, 4, 4, evtlog.Window{After: number(6), To: number(8), Reverse: true}, "l8 l7"},
		"backward down to the seam":    {9, 4, 4, evtlog.Window{After: number(4), To: number(6), Reverse: true}, "l6 l5"},
		"backward, all archived":       {3, 3, 3, evtlog.Window{Reverse: true}, "a3 a2 a1"},
		"backward with a limit":        {9, 4, 4, evtlog.Window{Limit: 3, Reverse: true}, "l9 l8 l7"},
		"backward, limit at the seam":  {9, 4, 4, evtlog.Window{Limit: 5, Reverse: true}, "l9 l8 l7 l6 l5"},
		"backward, limit in archive":   {9, 4, 4, evtlog.Window{Limit: 7, Reverse: true}, "l9 l8 l7 l6 l5 a4 a3"},
		"backward in an empty window":  {5, 2, 2, evtlog.Window{After: number(3), To: number(3), Reverse: true}, ""},
		"backward from beyond the top": {5, 2, 2, evtlog.Window{To: number(50), After: number(3), Reverse: true}, "l5 l4"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for _, page := range []int{1, 2, 3, 1000} {
				w := newWorld(t, tt.appended, tt.folded, tt.trimmed)
				r := w.reader(page)
				for range 2 { // the second read knows how far the archive reaches
					got, err := numbers(r.Read(t.Context(), tt.window))
					if err != nil || sources(got, tt.window.Reverse) != sources(tt.want, tt.window.Reverse) {
						t.Errorf("page size %d: got %q, %v; want %q", page, got, err, tt.want)
					}
				}
			}
		})
	}
}

// sources drops where records came from in a backward read, whose second run may
// take from the archive what the first took from the live stream.
func sources(s string, reverse bool) string {
	if !reverse {
		return s
	}
	return strings.NewReplacer("a", "", "l", "").Replace(s)
}

func TestWindowIsCheckedFirst(t *testing.T) {
	w := newWorld(t, 3, 0, 0)
	w.live.SetHook(func(context.Context, archivetest.Step) error { return errors.New("the stream was read") })
	for name, window := range map[string]evtlog.Window{
		"inverted":       {After: number(3), To: number(2)},
		"negative limit": {Limit: -1},
	} {
		got, err := numbers(w.reader(2).Read(t.Context(), window))
		var bad *evtlog.WindowError
		if got != "" || !errors.As(err, &bad) {
			t.Errorf("%s: got %q, %v; want a *WindowError", name, got, err)
		}
	}
	got, err := numbers(w.reader(2).Read(t.Context(), evtlog.Window{After: number(2), To: number(2)}))
	if got != "" || err != nil {
		t.Errorf("empty window: got %q, %v; want nothing, and nothing read", got, err)
	}
}

// during calls act before the nth occurrence of a step.
func during(step archivetest.Step, nth int, act func()) archivetest.Hook {
	return func(_ context.Context, at archivetest.Step) error {
		if at == step {
			if nth--; nth == 0 {
				act()
			}
		}
		return nil
	}
}

// foldAndTrim is what an archiver does, in its order.
func (w *world) foldAndTrim(after, to int) {
	w.fold(after, to)
	w.live.Seal(number(to))
	w.live.TrimThrough(number(to))
}

func TestReadWhileTheSeamMoves(t *testing.T) {
	tests := map[string]struct {
		window evtlog.Window
		step   archivetest.Step
		nth    int
		want   string
	}{
		"before the first page":               {evtlog.Window{}, archivetest.BeforeRange, 1, "a1 a2 a3 a4 l5 l6"},
		"between first page and its floor":    {evtlog.Window{}, archivetest.BeforeFloor, 1, "a1 a2 a3 a4 l5 l6"},
		"before the second page":              {evtlog.Window{}, archivetest.BeforeRange, 2, "l1 l2 a3 a4 l5 l6"},
		"between second page and its floor":   {evtlog.Window{}, archivetest.BeforeFloor, 2, "l1 l2 a3 a4 l5 l6"},
		"after the last page that matters":    {evtlog.Window{}, archivetest.BeforeRange, 3, "l1 l2 l3 l4 l5 l6"},
		"under a bound":                       {evtlog.Window{To: number(3)}, archivetest.BeforeFloor, 2, "l1 l2 a3"},
		"backward, before the first page":     {evtlog.Window{Reverse: true}, archivetest.BeforeReverse, 1, "l6 l5 a4 a3 a2 a1"},
		"backward, before the second page":    {evtlog.Window{Reverse: true}, archivetest.BeforeReverse, 2, "l6 l5 a4 a3 a2 a1"},
		"backward, before the third page":     {evtlog.Window{Reverse: true}, archivetest.BeforeReverse, 3, "l6 l5 l4 l3 a2 a1"},
		"backward, before the floor is read":  {evtlog.Window{Reverse: true}, archivetest.BeforeFloor, 1, "l6 l5 l4 l3 l2 l1"},
		"backward with a bound in the middle": {evtlog.Window{To: number(5), After: number(1), Reverse: true}, archivetest.BeforeReverse, 2, "l5 l4 a3 a2"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 6, 0, 0)
			w.live.SetHook(during(tt.step, tt.nth, func() { w.foldAndTrim(0, 4) }))
			got, err := numbers(w.reader(2).Read(t.Context(), tt.window))
			if err != nil || got != tt.want {
				t.Errorf("got %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

// An archiver as fast as the reader folds behind every page. Each discarded page
// is followed by what the archive holds of it, so the read ends.
func TestReadEndsAlthoughFoldingNeverStops(t *testing.T) {
	w := newWorld(t, 3, 0, 0)
	folded := 0
	w.live.SetHook(func(_ context.Context, at archivetest.Step) error {
		if at == archivetest.BeforeFloor {
			w.append(len(w.live.Records())+folded+1, len(w.live.Records())+folded+2)
			w.foldAndTrim(folded, folded+1)
			folded++
		}
		return nil
	})
	got, err := numbers(w.reader(1).Read(t.Context(), evtlog.Window{}))
	if want := "a1 a2 a3"; err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	got, err = numbers(w.reader(1).Read(t.Context(), evtlog.Window{To: number(9)}))
	if err != nil || !strings.HasPrefix(got, "a1 a2 a3 a4 ") || !strings.HasSuffix(got, "9") {
		t.Errorf("bound in the future: got %q, %v; want records 1 to 9", got, err)
	}
}

func TestRecordsAppendedWhileReadingAreOutsideAnOpenWindow(t *testing.T) {
	for _, reverse := range []bool{false, true} {
		w := newWorld(t, 3, 1, 1)
		next := 4
		w.live.SetHook(func(_ context.Context, at archivetest.Step) error {
			if at != archivetest.BeforeInfo {
				w.append(next, next)
				next++
			}
			return nil
		})
		got, err := numbers(w.reader(1).Read(t.Context(), evtlog.Window{Reverse: reverse}))
		want := "a1 l2 l3"
		if reverse {
			want = "l3 l2 a1"
		}
		if err != nil || got != want {
			t.Errorf("reverse %t: got %q, %v; want %q", reverse, got, err, want)
		}
	}
}

func TestWithoutFloorTheArchiveIsAsked(t *testing.T) {
	for _, reverse := range []bool{false, true} {
		w := newWorld(t, 5, 3, 2)
		w.live.DropFloor()
		asked := 0
		w.arch.SetHook(during(archivetest.BeforeWatermark, 1, func() { asked++ }))
		got, err := numbers(w.reader(2).Read(t.Context(), evtlog.Window{Reverse: reverse}))
		want := "a1 a2 a3 l4 l5"
		if reverse {
			want = "l5 l4 l3 a2 a1"
		}
		if err != nil || got != want || asked != 1 {
			t.Errorf("reverse %t: got %q, %v, asked %d times; want %q", reverse, got, err, asked, want)
		}
	}
}

// Redis was emptied: what is archived can still be read, also up to an open end.
func TestStreamThatIsGone(t *testing.T) {
	w := newWorld(t, 4, 4, 0)
	var empty archivetest.MemoryLive
	r := archive.NewReader(feed, &empty, w.arch)
	for _, window := range []evtlog.Window{{}, {To: number(9)}, {After: number(0), To: number(4)}} {
		if got, err := numbers(r.Read(t.Context(), window)); err != nil || got != "a1 a2 a3 a4" {
			t.Errorf("%+v: got %q, %v", window, got, err)
		}
	}
	if got, err := numbers(r.Read(t.Context(), evtlog.Window{Reverse: true, Limit: 2})); err != nil || got != "a4 a3" {
		t.Errorf("backward: got %q, %v", got, err)
	}
}

// A window that the archive is known to cover takes no round trip to Redis.
func TestArchivedWindowNeedsNoLiveStream(t *testing.T) {
	w := newWorld(t, 9, 6, 6)
	r := w.reader(10)
	if _, err := numbers(r.Read(t.Context(), evtlog.Window{})); err != nil {
		t.Fatal(err)
	}
	w.live.SetHook(func(context.Context, archivetest.Step) error { return errors.New("the stream was read") })
	for _, reverse := range []bool{false, true} {
		got, err := numbers(r.Read(t.Context(), evtlog.Window{After: number(3), To: number(6), Reverse: reverse}))
		if err != nil || len(got) != len("a4 a5 a6") {
			t.Errorf("reverse %t: got %q, %v", reverse, got, err)
		}
	}
}

// A recent window needs no archive, so it can be read while the archive is down.
func TestRecentWindowNeedsNoArchive(t *testing.T) {
	w := newWorld(t, 9, 6, 6)
	down := errors.New("archive is down")
	w.arch.SetHook(func(context.Context, archivetest.Step) error { return down })
	for _, reverse := range []bool{false, true} {
		got, err := numbers(w.reader(2).Read(t.Context(), evtlog.Window{After: number(6), Reverse: reverse}))
		if err != nil || len(got) != len("l7 l8 l9") {
			t.Errorf("reverse %t: got %q, %v", reverse, got, err)
		}
	}
	if got, err := numbers(w.reader(2).Read(t.Context(), evtlog.Window{After: number(5)})); got != "" || !errors.Is(err, down) {
		t.Errorf("a window that needs the archive: got %q, %v", got, err)
	}
}
