package publisher

import (
	"testing"

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
