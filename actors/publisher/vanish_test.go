package publisher

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

func TestRemade(t *testing.T) {
	for name, c := range map[string]struct {
		tally
		want bool
	}{
		"the first look":             {tally{Before: uncounted, Added: 5, Since: 3}, false},
		"a server that does not say": {tally{Before: uncounted, Added: uncounted, Since: 3}, false},
		"nothing happened":           {tally{Before: 5, Added: 5}, false},
		"all were counted":           {tally{Before: 5, Added: 8, Since: 3}, false},
		"others append too":          {tally{Before: 5, Added: 90, Since: 3}, false},
		"some were counted before":   {tally{Before: 5, Added: 6, Since: 3, Open: 2}, false},
		"deleted, nothing since":     {tally{Before: 5, Added: 0}, true},
		"deleted, then appended":     {tally{Before: 5, Added: 3, Since: 3}, true},
		"deleted in between":         {tally{Before: 5, Added: 7, Since: 9}, true},
		"deleted, some on their way": {tally{Before: 5, Added: 6, Since: 4, Open: 2}, true},
		"a stream that never was":    {tally{Before: 0, Added: 3, Since: 3}, false},
	} {
		if got := c.remade(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestGone(t *testing.T) {
	id := func(n int) evtid.ID {
		id, err := evtid.Make(evtid.EpochMillis+int64(n), 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	for name, c := range map[string]struct {
		mark, known, first, after, to evtid.ID
	}{
		"nothing is live":      {known: id(9), to: id(9)},
		"one is live again":    {known: id(9), first: id(9), to: id(9).Prev()},
		"all are newer":        {known: id(9), first: id(11), to: id(9)},
		"some are archived":    {mark: id(4), known: id(9), after: id(4), to: id(9)},
		"all are archived":     {mark: id(9), known: id(9), after: id(9), to: id(9)},
		"the archive is ahead": {mark: id(9), known: id(9), first: id(7), after: id(9), to: id(7).Prev()},
	} {
		after, to := gone(c.mark, c.known, redislog.StreamInfo{First: c.first})
		if after != c.after || to != c.to {
			t.Errorf("%s: after %s to %s", name, after, to)
		}
	}
}

func TestCarried(t *testing.T) {
	for _, c := range []struct{ before, want census }{
		{census{added: uncounted, open: 3}, census{added: uncounted}},
		{census{at: 1, added: 5, since: 2, open: 3, trimmed: evtid.Max}, census{at: 1, added: 2, since: 2, trimmed: evtid.Max}},
		{census{added: 2, open: 3}, census{}},
	} {
		if got := c.before.carried(); got != c.want {
			t.Errorf("%+v: %+v, want %+v", c.before, got, c.want)
		}
	}
}

func TestTrimmedBy(t *testing.T) {
	first, last := evtid.Max.Prev().Prev(), evtid.Max.Prev()
	for name, c := range map[string]struct {
		info redislog.StreamInfo
		want evtid.ID
	}{
		"some are live":             {redislog.StreamInfo{First: first, Last: last}, first.Prev()},
		"none is live":              {redislog.StreamInfo{Last: last}, last},
		"nothing was ever appended": {redislog.StreamInfo{}, evtid.ID{}},
	} {
		if got := trimmedBy(c.info); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// A stream that is deleted between two looks is found out by the next look that
// is answered: also when one in between was not, as happens while the server is
// busy with the deletion, and when the connection was lost and an append of it
// arrived all the same, so that the new top is none too low.
func TestADeletionIsFoundOutLater(t *testing.T) {
	for name, trouble := range map[string]func(f *fakeStream, appendOne, look func()){
		"at the next look": func(*fakeStream, func(), func()) {},
		"a look is not answered": func(f *fakeStream, _, look func()) {
			f.change(func() { f.infoErr = errBroken })
			look()
			f.change(func() { f.infoErr = nil })
		},
		"the connection is lost": func(f *fakeStream, appendOne, _ func()) {
			f.onFlush = func() (error, bool) { f.onFlush = nil; return errBroken, true }
			appendOne()
		},
	} {
		t.Run(name, func(t *testing.T) {
			var now atomic.Int64
			now.Store(time.Now().UnixMilli())
			f := &fakeStream{}
			var lost []evtlog.Lost
			p := onFake(t, f, Config{Now: now.Load, Observer: func(e evtlog.Event) {
				if e, ok := e.(evtlog.Lost); ok {
					f.change(func() { lost = append(lost, e) })
				}
			}})
			runPump(t, p)
			appendOne := func() {
				if _, err := p.Append(t.Context(), evtlog.F("k", "v")); err != nil {
					t.Fatal(err)
				}
			}
			look := func() {
				var before int
				f.change(func() { before = f.looks })
				now.Add(lookEvery.Milliseconds())
				appendOne()
				until(t, f, func() bool { return f.looks > before })
			}
			for range 3 {
				look()
			}
			old := f.all()
			f.change(func() { f.records, f.top = nil, evtid.ID{} })
			trouble(f, appendOne, look)
			look()
			until(t, f, func() bool { return len(lost) > 0 })
			if from, to := old[0].ID, old[len(old)-1].ID; len(lost) != 1 || !lost[0].After.Less(from) || lost[0].To.Less(to) || !lost[0].To.Less(f.all()[0].ID) {
				t.Errorf("%+v, want one that holds %s to %s", lost, from, to)
			}
		})
	}
}

// until waits for a condition of the fake.
func until(t *testing.T, f *fakeStream, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for met := false; !met; f.change(func() { met = cond() }) {
		if err := supervise.Wait(ctx, time.Millisecond); err != nil {
			t.Fatal("the condition is not met")
		}
	}
}
