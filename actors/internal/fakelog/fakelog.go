// Package fakelog is a stream in memory, for tests of the components that trim.
// It behaves as redislog.Log does on a server, can be given faults, and calls a
// hook around every command.
package fakelog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// Hook is called with the context and the name of a command before it runs (after is false) and
// once it has run (true). An error fails the command, before without and after
// with its effect, as a lost connection would.
type Hook func(ctx context.Context, op string, after bool) error

// Log is the fake. Fields are set before use.
type Log struct {
	// Hook is called without any lock, so it may use the Log.
	Hook Hook
	// Lazy makes trims do nothing.
	Lazy bool
	// Eager makes trims remove so many entries too many.
	Eager int
	// Foreign is reported by FirstForeign.
	Foreign string

	mu      sync.Mutex
	exists  bool
	entries []evtlog.Record
	last    evtid.ID
	added   int64
	floor   evtid.ID
	sealed  evtid.ID
	groups  map[string]*group
	reads   int
}

type group struct {
	delivered evtid.ID
	pending   []evtid.ID
}

// ID returns the n-th id of a fixed sequence that begins in 2024, n milliseconds
// apart.
func ID(n int) evtid.ID {
	id, err := evtid.Make(evtid.EpochMillis+int64(n), 1, 0)
	if err != nil {
		panic(err)
	}
	return id
}

// Append appends ID(n) for each n in from..to, both included.
func (l *Log) Append(from, to int) {
	for n := from; n <= to; n++ {
		l.Add(ID(n))
	}
}

// Add appends a record with that id.
func (l *Log) Add(id evtid.ID, fields ...evtlog.Field) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.last.Less(id) {
		panic(fmt.Sprintf("fakelog: %s is not above the top %s", id, l.last))
	}
	if fields == nil {
		fields = []evtlog.Field{evtlog.F("n", id.String())}
	}
	l.entries = append(l.entries, evtlog.Record{ID: id, Fields: fields})
	l.last, l.exists = id, true
	l.added++
}

// Delete removes the stream and what belongs to it, as FLUSHALL does.
func (l *Log) Delete() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.exists, l.entries, l.last, l.added, l.floor, l.sealed = false, nil, evtid.ID{}, 0, evtid.ID{}, evtid.ID{}
}

// Remove takes the n oldest entries away, as a foreign trimmer does.
func (l *Log) Remove(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = l.entries[n:]
}

// Group puts a group at a position with pending entries.
func (l *Log) Group(name string, delivered evtid.ID, pending ...evtid.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.groups == nil {
		l.groups = map[string]*group{}
	}
	l.groups[name] = &group{delivered: delivered, pending: pending}
}

// IDs returns the ids of the entries.
func (l *Log) IDs() []evtid.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := make([]evtid.ID, len(l.entries))
	for i, r := range l.entries {
		ids[i] = r.ID
	}
	return ids
}

// Reads counts the records that pages returned.
func (l *Log) Reads() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reads
}

// Floor returns the floor and the watermark for foreign readers.
func (l *Log) Floor() (floor, sealed evtid.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.floor, l.sealed
}

// do runs one command between the two calls of the hook.
func (l *Log) do(ctx context.Context, op string, command func()) error {
	if l.Hook != nil {
		if err := l.Hook(ctx, op, false); err != nil {
			return err
		}
	}
	l.mu.Lock()
	command()
	l.mu.Unlock()
	if l.Hook != nil {
		return l.Hook(ctx, op, true)
	}
	return nil
}

// Info implements the log.
func (l *Log) Info(ctx context.Context) (info redislog.StreamInfo, err error) {
	err = l.do(ctx, "info", func() {
		info = redislog.StreamInfo{Exists: l.exists, Length: int64(len(l.entries)), Last: l.last, EntriesAdded: l.added}
		if len(l.entries) > 0 {
			info.First, info.Newest = l.entries[0].ID, l.entries[len(l.entries)-1].ID
		}
	})
	return info, err
}

// Page implements the log.
func (l *Log) Page(ctx context.Context, after, to evtid.ID, n int) (page []evtlog.Record, floor evtid.ID, err error) {
	err = l.do(ctx, "page", func() {
		between := l.between(after, to)
		page = slices.Clone(between[:min(n, len(between))])
		floor = l.floor
		l.reads += len(page)
	})
	return page, floor, err
}

// between returns the entries with after < id <= to. The caller holds mu.
func (l *Log) between(after, to evtid.ID) []evtlog.Record {
	above := func(id evtid.ID) int {
		return sort.Search(len(l.entries), func(i int) bool { return id.Less(l.entries[i].ID) })
	}
	from := above(after)
	return l.entries[from:max(from, above(to))]
}

// PageBefore implements the log.
func (l *Log) PageBefore(ctx context.Context, after, to evtid.ID, n int) (page []evtlog.Record, err error) {
	err = l.do(ctx, "pagebefore", func() {
		between := l.between(after, to)
		page = slices.Clone(between[max(0, len(between)-n):])
		slices.Reverse(page)
		l.reads += len(page)
	})
	return page, err
}

// Seal implements the log.
func (l *Log) Seal(ctx context.Context, w evtid.ID) error {
	return l.do(ctx, "seal", func() {
		if l.floor.Less(w) {
			l.floor = w
		}
		l.sealed = w
	})
}

// FirstForeign implements the log.
func (l *Log) FirstForeign(ctx context.Context) (entry string, found bool, err error) {
	err = l.do(ctx, "foreign", func() { entry, found = l.Foreign, l.Foreign != "" })
	return entry, found, err
}

// TrimThrough implements the log. Groups are moved up, so that each range is
// recorded once.
func (l *Log) TrimThrough(ctx context.Context, through evtid.ID) (res redislog.TrimResult, err error) {
	var effect error
	err = l.do(ctx, "trim", func() {
		defer l.judge(l.entries, through, &effect)
		if l.Lazy {
			return
		}
		for _, name := range sorted(l.groups) {
			if s, some := l.groups[name].skip(name, through); some {
				res.Skipped = append(res.Skipped, s)
			}
		}
		n := 0
		for n < len(l.entries) && !through.Less(l.entries[n].ID) {
			n++
		}
		if n > 0 {
			res.Through, n = l.entries[n-1].ID, min(n+l.Eager, len(l.entries))
		}
		l.entries, res.Removed = slices.Clone(l.entries[n:]), int64(n)
	})
	return res, errors.Join(err, effect)
}

// judge compares the entries before a trim with those after it, as redislog does.
func (l *Log) judge(before []evtlog.Record, through evtid.ID, effect *error) {
	want, got := "", ""
	for _, r := range slices.Backward(before) {
		if through.Less(r.ID) {
			want = r.ID.Entry()
		}
	}
	if len(l.entries) > 0 {
		got = l.entries[0].ID.Entry()
	}
	if want != got {
		*effect = &redislog.TrimEffectError{Stream: evtlog.StreamName{Queue: "cm", Name: "feed"}, Through: through, Want: want, Got: got}
	}
}

func (g *group) skip(name string, through evtid.ID) (s redislog.Skipped, some bool) {
	s.Group = name
	if g.delivered.Less(through) {
		s.Range = redislog.SkippedRange{After: g.delivered, To: through}
		g.delivered = through
	}
	for _, id := range g.pending {
		if !through.Less(id) {
			s.Pending = append(s.Pending, id)
		}
	}
	g.pending = slices.DeleteFunc(g.pending, func(id evtid.ID) bool { return !through.Less(id) })
	return s, s.Range != redislog.SkippedRange{} || len(s.Pending) > 0
}

func sorted(groups map[string]*group) []string {
	var names []string
	for name := range groups {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
