package archivetest

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"sync"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
)

// The steps of MemoryLive: before each command that a real stream would be
// sent. BeforeFloor stands between the two commands of Page, where another
// client's commands fit in although both travel in one pipeline.
const (
	BeforeInfo    Step = "before XINFO STREAM"
	BeforeRange   Step = "before XRANGE"
	BeforeFloor   Step = "before XREVRANGE of the floor"
	BeforeReverse Step = "before XREVRANGE"
	AfterRead     Step = "after the last command of a read"
)

var _ archive.Live = (*MemoryLive)(nil)

// MemoryLive is an archive.Live in memory: one stream and its floor, with the
// rules of the server. Ids only rise, a trim takes the oldest entries, the top
// survives every trim, the floor never goes back. The zero value is an absent
// stream. It is safe for concurrent use.
type MemoryLive struct {
	hooked
	mu      sync.Mutex
	records []evtlog.Record
	top     evtid.ID
	floor   evtid.ID
}

// Append adds records at the end. The first id that is not above the top is
// evtlog.ErrNonMonotonic; the records before it stay.
func (l *MemoryLive) Append(records ...evtlog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range records {
		if !l.top.Less(r.ID) {
			return &evtlog.NonMonotonicError{ID: r.ID, Top: l.top}
		}
		l.records = append(l.records, clone(r))
		l.top = r.ID
	}
	return nil
}

// Seal publishes w as the floor. A floor that is higher already stays.
func (l *MemoryLive) Seal(w evtid.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.floor.Less(w) {
		l.floor = w
	}
}

// DropFloor removes the floor key.
func (l *MemoryLive) DropFloor() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.floor = evtid.ID{}
}

// TrimThrough removes every record up to and including id, and returns how many.
func (l *MemoryLive) TrimThrough(id evtid.ID) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.above(id)
	// The backing array is left alone: a page may still show it.
	l.records = l.records[n:]
	return n
}

// Records returns the records that are in the stream.
func (l *MemoryLive) Records() []evtlog.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return page(l.records)
}

// Last implements archive.Live.
func (l *MemoryLive) Last(ctx context.Context) (evtid.ID, error) {
	if err := l.at(ctx, BeforeInfo); err != nil {
		return evtid.ID{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.top, nil
}

// Page implements archive.Live.
func (l *MemoryLive) Page(ctx context.Context, after, to evtid.ID, n int) ([]evtlog.Record, evtid.ID, error) {
	if err := checkPage(n); err != nil {
		return nil, evtid.ID{}, err
	}
	if err := l.at(ctx, BeforeRange); err != nil {
		return nil, evtid.ID{}, err
	}
	records := l.span(after, to)
	records = page(records[:min(n, len(records))])
	if err := l.at(ctx, BeforeFloor); err != nil {
		return nil, evtid.ID{}, err
	}
	l.mu.Lock()
	floor := l.floor
	l.mu.Unlock()
	return records, floor, l.at(ctx, AfterRead)
}

// PageBefore implements archive.Live.
func (l *MemoryLive) PageBefore(ctx context.Context, after, to evtid.ID, n int) ([]evtlog.Record, error) {
	if err := checkPage(n); err != nil {
		return nil, err
	}
	if err := l.at(ctx, BeforeReverse); err != nil {
		return nil, err
	}
	records := l.span(after, to)
	records = page(records[max(0, len(records)-n):])
	slices.Reverse(records)
	return records, l.at(ctx, AfterRead)
}

func checkPage(n int) error {
	if n <= 0 {
		return fmt.Errorf("archivetest: a page of %d records was asked for; it must be positive", n)
	}
	return nil
}

func (l *MemoryLive) span(after, to evtid.ID) []evtlog.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := l.above(after)
	return l.records[i:max(i, l.above(to))]
}

// above returns the index of the first record above id. The caller holds mu.
func (l *MemoryLive) above(id evtid.ID) int {
	return sort.Search(len(l.records), func(i int) bool { return id.Less(l.records[i].ID) })
}

// page copies records for a receiver.
func page(records []evtlog.Record) []evtlog.Record {
	out := make([]evtlog.Record, len(records))
	for i, r := range records {
		out[i] = clone(r)
		out[i].Source = evtlog.Live
	}
	return out
}
