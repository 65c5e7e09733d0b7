package archivetest

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
)

var feed = evtlog.StreamName{Queue: "cm", Name: "feed"}

// failAt returns a hook that fails one step.
func failAt(step Step, err error) Hook {
	return func(_ context.Context, at Step) error {
		if at == step {
			return err
		}
		return nil
	}
}

func TestHooksFailTheirStep(t *testing.T) {
	boom := errors.New("boom")
	m := NewMemory()

	m.SetHook(failAt(BeforeFold, boom))
	if _, err := m.Fold(t.Context(), feed, evtid.ID{}, Records(1, 2)); !errors.Is(err, boom) {
		t.Fatalf("fold that fails before: %v", err)
	}
	if w, _ := m.Watermark(t.Context(), feed); !w.IsZero() {
		t.Fatalf("fold that failed before its commit moved the watermark to %s", w)
	}

	m.SetHook(failAt(AfterFold, boom))
	if _, err := m.Fold(t.Context(), feed, evtid.ID{}, Records(1, 2)); !errors.Is(err, boom) {
		t.Fatalf("fold that fails after: %v", err)
	}
	if w, _ := m.Watermark(t.Context(), feed); w != ID(2) {
		t.Fatalf("fold whose reply was lost left the watermark at %q", w)
	}

	m.SetHook(failAt(BeforeWatermark, boom))
	if _, err := m.Watermark(t.Context(), feed); !errors.Is(err, boom) {
		t.Fatalf("watermark: %v", err)
	}

	for _, step := range []Step{BeforeRead, BeforeRecord} {
		m.SetHook(failAt(step, boom))
		var got error
		for _, err := range m.Read(t.Context(), feed, archive.Range{}) {
			got = err
		}
		if !errors.Is(got, boom) {
			t.Fatalf("read that fails %s: %v", step, got)
		}
	}

	m.SetHook(nil)
	if w, err := m.Watermark(t.Context(), feed); err != nil || w != ID(2) {
		t.Fatalf("without a hook: %q, %v", w, err)
	}
}

func TestFollowerIsBehindUntilItApplies(t *testing.T) {
	leader := NewMemory()
	f := NewFollower(leader)
	if _, err := f.Fold(t.Context(), feed, evtid.ID{}, Records(1, 4)); err != nil {
		t.Fatal(err)
	}
	if w, err := f.Watermark(t.Context(), feed); err != nil || w != ID(4) {
		t.Fatalf("the watermark is the leader's: got %q, %v", w, err)
	}
	count := func(r archive.Range) (n int) {
		for _, err := range f.Read(t.Context(), feed, r) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	if n := count(archive.Range{}); n != 0 {
		t.Fatalf("a node that applied nothing gave %d records", n)
	}
	f.Apply(feed, ID(2))
	f.Apply(feed, ID(1))
	if n := count(archive.Range{}); n != 2 {
		t.Fatalf("a node that applied two records gave %d", n)
	}
	read := make(chan int)
	go func() { read <- count(archive.Range{AtLeast: ID(4)}) }()
	f.Apply(feed, ID(3))
	f.Apply(feed, ID(4))
	if n := <-read; n != 4 {
		t.Fatalf("a read that waited gave %d records, want 4", n)
	}
}

func TestMemoryLiveHasTheRulesOfTheServer(t *testing.T) {
	var l MemoryLive
	ctx := t.Context()
	if top, err := l.Last(ctx); err != nil || !top.IsZero() {
		t.Fatalf("top of an absent stream: %q, %v", top, err)
	}
	if err := l.Append(Records(1, 5)...); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(Records(5, 6)...); !errors.Is(err, evtlog.ErrNonMonotonic) {
		t.Fatalf("append at the top: %v", err)
	}
	if n := l.TrimThrough(ID(5)); n != 5 {
		t.Fatalf("trim removed %d", n)
	}
	if top, _ := l.Last(ctx); top != ID(5) {
		t.Fatalf("the top after a trim of everything is %q", top)
	}
	if err := l.Append(Records(3, 3)...); !errors.Is(err, evtlog.ErrNonMonotonic) {
		t.Fatalf("append below a trimmed top: %v", err)
	}
	l.Seal(ID(5))
	l.Seal(ID(3))
	if page, floor, err := l.Page(ctx, evtid.ID{}, ID(9), 10); err != nil || len(page) != 0 || floor != ID(5) {
		t.Fatalf("page %v, floor %q, %v", page, floor, err)
	}
	l.DropFloor()
	if _, floor, _ := l.Page(ctx, evtid.ID{}, ID(9), 10); !floor.IsZero() {
		t.Fatalf("floor %q after it was dropped", floor)
	}
	if _, _, err := l.Page(ctx, evtid.ID{}, ID(9), 0); err == nil {
		t.Fatal("a page of no records was given")
	}
}

func TestMemoryLivePages(t *testing.T) {
	var l MemoryLive
	if err := l.Append(Records(1, 6)...); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		after, to evtid.ID
		n         int
		up, down  []evtlog.Record
	}{
		"all":            {evtid.ID{}, evtid.Max, 10, Records(1, 6), Records(1, 6)},
		"bounds":         {ID(2), ID(5), 10, Records(3, 5), Records(3, 5)},
		"count":          {ID(1), ID(6), 2, Records(2, 3), Records(5, 6)},
		"nothing":        {ID(3), ID(3), 10, nil, nil},
		"inverted":       {ID(5), ID(2), 10, nil, nil},
		"a zero to":      {evtid.ID{}, evtid.ID{}, 10, nil, nil},
		"between ids":    {ID(2).Next(), ID(4).Prev(), 10, Records(3, 3), Records(3, 3)},
		"beyond the top": {ID(6), evtid.Max, 10, nil, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			up, _, err := l.Page(t.Context(), tt.after, tt.to, tt.n)
			if err != nil || !slices.EqualFunc(up, tt.up, equal) {
				t.Errorf("Page gave %v, %v; want %v", up, err, tt.up)
			}
			down, err := l.PageBefore(t.Context(), tt.after, tt.to, tt.n)
			slices.Reverse(down)
			if err != nil || !slices.EqualFunc(down, tt.down, equal) {
				t.Errorf("PageBefore gave, reversed, %v, %v; want %v", down, err, tt.down)
			}
		})
	}
}
