package integration

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

// history is what member processes said: which record was handled by whom and
// when, and what was given up.
type history struct {
	minIdle time.Duration

	mu     sync.Mutex
	groups map[string]*groupHistory
	pulse  map[*memberProcess]int64
	frozen map[*memberProcess][]pause
	odd    []string
}

type groupHistory struct {
	runs    map[evtid.ID][]*run
	handled map[evtid.ID]bool
	// lost is what consumers reported; trimmed what the trimmer did.
	lost, trimmed []span
}

// run is one call of a handler. Times are Unix nanoseconds; all processes are on
// one machine.
type run struct {
	by         *memberProcess
	begin, end int64 // end 0: nothing was heard of it
	archived   bool
}

// span selects after < id <= to.
type span struct{ after, to evtid.ID }

// pause is a time in which a process did not run.
type pause struct{ from, to int64 }

func newHistory(minIdle time.Duration, groups ...string) *history {
	h := &history{
		minIdle: minIdle, groups: map[string]*groupHistory{},
		pulse: map[*memberProcess]int64{}, frozen: map[*memberProcess][]pause{},
	}
	for _, g := range groups {
		h.groups[g] = &groupHistory{runs: map[evtid.ID][]*run{}, handled: map[evtid.ID]bool{}}
	}
	return h
}

// hear takes one line of a member process.
func (h *history) hear(p *memberProcess, words []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.note(p, words); err != nil {
		h.odd = append(h.odd, fmt.Sprintf("%q: %v", words, err))
	}
}

func (h *history) note(p *memberProcess, words []string) error {
	switch words[0] {
	case sayReady:
		return nil
	case sayAlive:
		return h.noteAlive(p, words[1])
	}
	g := h.groups[words[1]]
	if words[0] == sayLost {
		after, err := evtid.ParseEntry(words[2])
		if err != nil {
			return err
		}
		to, err := evtid.ParseEntry(words[3])
		g.lost = append(g.lost, span{after, to})
		return err
	}
	id, err := evtid.Parse(words[2])
	if err != nil {
		return err
	}
	begin, err := strconv.ParseInt(words[3], 10, 64)
	if err != nil {
		return err
	}
	r := g.find(id, p, begin)
	r.archived = words[len(words)-1] == evtlog.Archived.String()
	if words[0] == sayBegin {
		return nil
	}
	r.end, err = strconv.ParseInt(words[4], 10, 64)
	g.handled[id] = g.handled[id] || words[0] == sayEnd
	return err
}

// find returns the run that began then, a new one when there is none.
func (g *groupHistory) find(id evtid.ID, p *memberProcess, begin int64) *run {
	for _, r := range g.runs[id] {
		if r.by == p && r.begin == begin {
			return r
		}
	}
	r := &run{by: p, begin: begin}
	g.runs[id] = append(g.runs[id], r)
	return r
}

// noteAlive sees that a process was not given the processor for so long that it
// cannot be said to have renewed what it holds.
func (h *history) noteAlive(p *memberProcess, text string) error {
	at, err := strconv.ParseInt(text, 10, 64)
	if last, ok := h.pulse[p]; ok && time.Duration(at-last) > h.minIdle/3 {
		h.frozen[p] = append(h.frozen[p], pause{last, at})
	}
	h.pulse[p] = at
	return err
}

// trimmed takes what the trimmer says that a group lost.
func (h *history) trimmed(e evtlog.Event) {
	l, ok := e.(evtlog.Lost)
	if !ok {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if g := h.groups[l.Group]; g != nil {
		g.trimmed = append(g.trimmed, span{l.After, l.To})
	} else {
		h.odd = append(h.odd, fmt.Sprintf("%+v", l))
	}
}

func (h *history) handledBy(group string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.groups[group].handled)
}

// figures are what a history comes down to for one group.
type figures struct {
	runs, again, recovered int
	lost, lostAndHandled   int
	overlaps, froze        int
}

// check compares the history of a group with what was appended: every record was
// handled, or lies in a range that was reported as lost (which needs lossy), and
// no record was handled by two live members at a time.
func (h *history) check(t *testing.T, group string, appended []evtid.ID, lossy bool) figures {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, odd := range h.odd {
		t.Errorf("unexpected: %s", odd)
	}
	g := h.groups[group]
	var f figures
	lost, trimmed := merged(g.lost), merged(g.trimmed)
	known := make(map[evtid.ID]bool, len(appended))
	missing := 0
	for _, id := range appended {
		known[id] = true
		isLost, wasTrimmed := covered(lost, id), covered(trimmed, id)
		switch {
		case isLost && g.handled[id]:
			f.lostAndHandled++
		case isLost:
			f.lost++
		}
		if g.handled[id] || lossy && isLost && wasTrimmed {
			continue
		}
		if missing++; missing <= 10 {
			t.Errorf("group %s: %s was not handled (lost: by a member %v, by the trimmer %v)", group, id, isLost, wasTrimmed)
		}
	}
	if missing > 10 {
		t.Errorf("group %s: %d records were not handled", group, missing)
	}
	if !lossy && len(lost) > 0 {
		t.Errorf("group %s: lost %v, although there is an archive", group, lost)
	}
	for id, runs := range g.runs {
		if !known[id] {
			t.Errorf("group %s: %s was handled and never appended", group, id)
		}
		h.checkRuns(t, group, id, runs, &f)
	}
	return f
}

func (h *history) checkRuns(t *testing.T, group string, id evtid.ID, runs []*run, f *figures) {
	f.runs += len(runs)
	f.again += len(runs) - 1
	slices.SortFunc(runs, func(a, b *run) int { return cmp.Compare(a.begin, b.begin) })
	for i, b := range runs {
		if b.archived {
			f.recovered++
		}
		for _, a := range runs[:i] {
			switch {
			case a.until() <= b.begin:
			case h.wasFrozen(a.by, b.begin):
				f.froze++
			default:
				f.overlaps++
				t.Errorf("group %s: %s runs at %s (since %s, archived %v) and at %s (archived %v) at once, for %s", group, id,
					a.by.cfg.Name, time.Duration(b.begin-a.begin), a.archived, b.by.cfg.Name, b.archived, time.Duration(a.until()-b.begin))
			}
		}
	}
}

// until is when a run ended, at the latest with its process.
func (r *run) until() int64 {
	switch {
	case r.end != 0:
		return r.end
	case r.by.killed != 0:
		return r.by.killed
	}
	return math.MaxInt64
}

// wasFrozen reports whether a process stood still in the time in which it should
// have renewed what it held at the given moment.
func (h *history) wasFrozen(p *memberProcess, at int64) bool {
	return slices.ContainsFunc(h.frozen[p], func(x pause) bool {
		return x.from < at && x.to > at-int64(h.minIdle)
	})
}

// merged sorts spans and joins those that touch.
func merged(spans []span) []span {
	spans = slices.Clone(spans)
	slices.SortFunc(spans, func(a, b span) int { return a.after.Compare(b.after) })
	var out []span
	for _, s := range spans {
		if n := len(out); n > 0 && !out[n-1].to.Less(s.after) {
			if out[n-1].to.Less(s.to) {
				out[n-1].to = s.to
			}
			continue
		}
		out = append(out, s)
	}
	return out
}

// covered reports whether one of the merged spans holds id.
func covered(spans []span, id evtid.ID) bool {
	i, _ := slices.BinarySearchFunc(spans, id, func(s span, id evtid.ID) int {
		if s.to.Less(id) {
			return -1
		}
		return 1
	})
	return i < len(spans) && spans[i].after.Less(id)
}
