// Package archivetest helps to test archives and what is built on them: an
// archive and a live stream in memory, with hooks that put faults and other
// clients between their steps, and Conformance, the contract of archive.Archive
// as a suite that every implementation passes.
package archivetest

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sort"
	"sync"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
)

// Step is a moment inside a method of Memory or MemoryLive at which the hook is
// called.
type Step string

// The steps of Memory.
const (
	// BeforeFold: nothing has changed. An error fails the fold.
	BeforeFold Step = "before fold"
	// AfterFold: the fold is done. An error hides that from the caller, as a lost
	// reply does.
	AfterFold Step = "after fold"
	// BeforeWatermark: an error fails Watermark.
	BeforeWatermark Step = "before watermark"
	// BeforeRead: no record was read. An error ends the sequence.
	BeforeRead Step = "before read"
	// BeforeRecord comes before each record. An error ends the sequence there.
	BeforeRecord Step = "before record"
)

// Hook is called at each step, in the goroutine of the caller and with no lock
// held: it may block to delay the step, and use the object it is called from. A
// non-nil error fails the step.
type Hook func(ctx context.Context, step Step) error

// hooked calls a hook that may be exchanged at any time.
type hooked struct {
	mu   sync.Mutex
	hook Hook
}

// SetHook installs h in place of the former hook; nil removes it.
func (h *hooked) SetHook(hook Hook) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hook = hook
}

func (h *hooked) at(ctx context.Context, step Step) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("archivetest: %s: %w", step, err)
	}
	h.mu.Lock()
	hook := h.hook
	h.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(ctx, step)
}

var _ archive.Archive = (*Memory)(nil)

// Memory is an archive.Archive in memory. The zero value is not usable; make
// one with NewMemory. It is safe for concurrent use.
type Memory struct {
	hooked
	mu      sync.Mutex
	volumes map[evtlog.StreamName]*volume
	// moved is closed and replaced at each fold.
	moved chan struct{}
}

// volume is one stream. Records and folds are only ever appended to, so a
// prefix that was handed out stays valid.
type volume struct {
	records []evtlog.Record
	// folds holds how many records there were after each fold.
	folds []int
}

// NewMemory returns an empty archive.
func NewMemory() *Memory {
	return &Memory{volumes: map[evtlog.StreamName]*volume{}, moved: make(chan struct{})}
}

// Fold implements archive.Archive.
func (m *Memory) Fold(ctx context.Context, stream evtlog.StreamName, prev evtid.ID, records []evtlog.Record) (evtid.ID, error) {
	if err := archive.CheckFold(stream, prev, records); err != nil {
		return evtid.ID{}, err
	}
	if err := m.at(ctx, BeforeFold); err != nil {
		return evtid.ID{}, err
	}
	w, err := m.fold(stream, prev, records)
	if err != nil {
		return evtid.ID{}, err
	}
	if err := m.at(ctx, AfterFold); err != nil {
		return evtid.ID{}, err
	}
	return w, nil
}

func (m *Memory) fold(stream evtlog.StreamName, prev evtid.ID, records []evtlog.Record) (evtid.ID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := m.volumes[stream]
	if v == nil {
		v = &volume{}
		m.volumes[stream] = v
	}
	last := records[len(records)-1].ID
	switch w := v.watermark(); {
	case v.done(prev, records):
		return last, nil
	case w != prev:
		return evtid.ID{}, &archive.ConflictError{Stream: stream, Prev: prev, Watermark: w}
	}
	for _, r := range records {
		v.records = append(v.records, clone(r))
	}
	v.folds = append(v.folds, len(v.records))
	close(m.moved)
	m.moved = make(chan struct{})
	return last, nil
}

// done reports whether this very fold has been done before.
func (v volume) done(prev evtid.ID, records []evtlog.Record) bool {
	from := v.above(prev)
	i := sort.SearchInts(v.folds, from+1)
	if i == len(v.folds) || v.folds[i] != from+len(records) {
		return false
	}
	if from > 0 && v.records[from-1].ID != prev || from == 0 && !prev.IsZero() {
		return false
	}
	return slices.EqualFunc(v.records[from:v.folds[i]], records, equal)
}

func (v volume) watermark() evtid.ID {
	if len(v.records) == 0 {
		return evtid.ID{}
	}
	return v.records[len(v.records)-1].ID
}

// above returns the index of the first record above id.
func (v volume) above(id evtid.ID) int {
	return sort.Search(len(v.records), func(i int) bool { return id.Less(v.records[i].ID) })
}

// Watermark implements archive.Archive.
func (m *Memory) Watermark(ctx context.Context, stream evtlog.StreamName) (evtid.ID, error) {
	if err := m.at(ctx, BeforeWatermark); err != nil {
		return evtid.ID{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.snapshot(stream).watermark(), nil
}

// snapshot returns the volume as it is now. The caller holds mu.
func (m *Memory) snapshot(stream evtlog.StreamName) volume {
	if v := m.volumes[stream]; v != nil {
		return *v
	}
	return volume{}
}

// Read implements archive.Archive.
func (m *Memory) Read(ctx context.Context, stream evtlog.StreamName, r archive.Range) iter.Seq2[evtlog.Record, error] {
	return m.read(ctx, r, func() (volume, <-chan struct{}) {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.snapshot(stream), m.moved
	})
}

// read reads from the first state that has reached r.AtLeast.
func (h *hooked) read(ctx context.Context, r archive.Range, state func() (volume, <-chan struct{})) iter.Seq2[evtlog.Record, error] {
	return func(yield func(evtlog.Record, error) bool) {
		if err := h.at(ctx, BeforeRead); err != nil {
			yield(evtlog.Record{}, err)
			return
		}
		v, err := await(ctx, r.AtLeast, state)
		if err != nil {
			yield(evtlog.Record{}, err)
			return
		}
		for _, rec := range v.span(r) {
			if err := h.at(ctx, BeforeRecord); err != nil {
				yield(evtlog.Record{}, err)
				return
			}
			if !yield(archived(rec), nil) {
				return
			}
		}
	}
}

func await(ctx context.Context, atLeast evtid.ID, state func() (volume, <-chan struct{})) (volume, error) {
	for {
		v, moved := state()
		w := v.watermark()
		if !w.Less(atLeast) {
			return v, nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return volume{}, fmt.Errorf("archivetest: %w: waited for %s but the watermark is %q: %w", archive.ErrBehind, atLeast, w, ctx.Err())
		}
	}
}

// span returns the records of r, in the order of r.
func (v volume) span(r archive.Range) []evtlog.Record {
	to := r.To
	if to.IsZero() {
		to = v.watermark()
	}
	i := v.above(r.After)
	span := v.records[i:max(i, v.above(to))]
	if r.Reverse {
		span = slices.Clone(span)
		slices.Reverse(span)
	}
	return span
}

// clone copies what the owner of r could change.
func clone(r evtlog.Record) evtlog.Record {
	r.Fields = slices.Clone(r.Fields)
	return r
}

func archived(r evtlog.Record) evtlog.Record {
	r = clone(r)
	r.Source = evtlog.Archived
	return r
}

// equal compares what belongs to the event: Source does not.
func equal(a, b evtlog.Record) bool {
	return a.ID == b.ID && a.Unbranded == b.Unbranded && slices.Equal(a.Fields, b.Fields)
}
