package volume

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
	"pgregory.net/rapid"
)

// model is what a store must behave like: two archives in memory.
type model struct {
	store   *Store
	path    string
	streams []evtlog.StreamName
	records map[evtlog.StreamName][]evtlog.Record
	// folds are the folds that were done, to be repeated.
	folds map[evtlog.StreamName][]done
}

type done struct {
	prev    evtid.ID
	records []evtlog.Record
}

func (m *model) watermark(s evtlog.StreamName) evtid.ID {
	if n := len(m.records[s]); n > 0 {
		return m.records[s][n-1].ID
	}
	return evtid.ID{}
}

func (m *model) stream(t *rapid.T) evtlog.StreamName {
	return rapid.SampledFrom(m.streams).Draw(t, "stream")
}

// anyID draws an id at, near, or far from a record.
func (m *model) anyID(t *rapid.T, s evtlog.StreamName) evtid.ID {
	all := m.records[s]
	if len(all) == 0 || rapid.IntRange(0, 9).Draw(t, "far") == 0 {
		return rapid.SampledFrom([]evtid.ID{{}, id(1), id(1 << 30), evtid.Max}).Draw(t, "bound")
	}
	at := all[rapid.IntRange(0, len(all)-1).Draw(t, "record")].ID
	return rapid.SampledFrom([]evtid.ID{at, at.Prev(), at.Next()}).Draw(t, "near")
}

// fresh draws records above an id.
func fresh(t *rapid.T, above evtid.ID) []evtlog.Record {
	var out []evtlog.Record
	for range rapid.SampledFrom([]int{1, 2, 40, 300}).Draw(t, "count") {
		step := rapid.SampledFrom([]uint64{1, 2, 1 << 22, 1 << 35}).Draw(t, "step")
		next, err := evtid.FromSnowflake(above.Snowflake() + step)
		if err != nil {
			t.Fatal(err)
		}
		above = next
		out = append(out, evtlog.Record{ID: next, Fields: []evtlog.Field{evtlog.F("k", next.String())}, Unbranded: step == 2})
	}
	if rapid.Bool().Draw(t, "odd") {
		out[0] = anyRecord(t, out[0].ID)
	}
	return out
}

func (m *model) fold(t *rapid.T) {
	s := m.stream(t)
	prev, records := m.watermark(s), fresh(t, m.watermark(s))
	w, err := m.store.Fold(context.Background(), s, prev, records)
	if err != nil || w != records[len(records)-1].ID {
		t.Fatalf("fold: %v %v", w, err)
	}
	m.records[s] = append(m.records[s], records...)
	m.folds[s] = append(m.folds[s], done{prev, records})
}

func (m *model) commit(t *rapid.T) {
	s := m.stream(t)
	base, err := m.store.Begin(context.Background(), s)
	if err != nil || base.Watermark != m.watermark(s) || base.Count != uint64(len(m.records[s])) || base.LSN != uint64(len(m.folds[s])) {
		t.Fatalf("begin: %+v %v", base, err)
	}
	records := fresh(t, base.Watermark)
	h, err := m.store.Commit(context.Background(), base, records)
	if err != nil || h.LSN != base.LSN+1 {
		t.Fatalf("commit: %+v %v", h, err)
	}
	m.records[s] = append(m.records[s], records...)
	m.folds[s] = append(m.folds[s], done{base.Watermark, records})
	if _, err := m.store.Commit(context.Background(), base, records); !errors.Is(err, archive.ErrConflict) {
		t.Fatalf("stale commit: %v", err)
	}
}

func (m *model) repeat(t *rapid.T) {
	s := m.stream(t)
	if len(m.folds[s]) == 0 {
		return
	}
	f := rapid.SampledFrom(m.folds[s]).Draw(t, "fold")
	w, err := m.store.Fold(context.Background(), s, f.prev, f.records)
	if err != nil || w != f.records[len(f.records)-1].ID {
		t.Fatalf("repeat: %v %v", w, err)
	}
	changed := slices.Clone(f.records)
	changed[len(changed)-1].Fields = append(slices.Clone(changed[len(changed)-1].Fields), evtlog.F("not", "the same"))
	if _, err := m.store.Fold(context.Background(), s, f.prev, changed); !errors.Is(err, archive.ErrConflict) {
		t.Fatalf("another fold in the same place: %v", err)
	}
}

func (m *model) conflict(t *rapid.T) {
	s := m.stream(t)
	prev := m.anyID(t, s)
	if prev == m.watermark(s) || prev == evtid.Max {
		return
	}
	records := fresh(t, later(prev, id(1<<30)))
	_, err := m.store.Fold(context.Background(), s, prev, records)
	var c *archive.ConflictError
	if !errors.As(err, &c) || c.Watermark != m.watermark(s) {
		t.Fatalf("fold from %v with watermark %v: %v", prev, m.watermark(s), err)
	}
}

func later(a, b evtid.ID) evtid.ID {
	if a.Less(b) {
		return b
	}
	return a
}

func (m *model) read(t *rapid.T) {
	s := m.stream(t)
	r := archive.Range{After: m.anyID(t, s), To: m.anyID(t, s), Reverse: rapid.Bool().Draw(t, "reverse")}
	want := within(m.records[s], r)
	got, err := read(m.store, s, r)
	if err != nil || !same(got, want) {
		t.Fatalf("read %+v: %d records, want %d: %v", r, len(got), len(want), err)
	}
}

func (m *model) reopen(t *rapid.T) {
	if err := m.store.Close(); err != nil {
		t.Fatal(err)
	}
	var err error
	if m.store, err = Open(m.path, Options{}); err != nil {
		t.Fatal(err)
	}
}

func (m *model) check(t *rapid.T) {
	for _, s := range m.streams {
		w, err := m.store.Watermark(context.Background(), s)
		if err != nil || w != m.watermark(s) {
			t.Fatalf("watermark of %s: %v, want %v: %v", s, w, m.watermark(s), err)
		}
	}
}

func TestStoreIsTheModel(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		path := filepath.Join(dir, fmt.Sprint(n, ".db"))
		store, err := Open(path, Options{})
		if err != nil {
			rt.Fatal(err)
		}
		m := &model{
			store: store, path: path, streams: []evtlog.StreamName{feed, other},
			records: map[evtlog.StreamName][]evtlog.Record{}, folds: map[evtlog.StreamName][]done{},
		}
		defer func() { _ = m.store.Close() }()
		rt.Repeat(map[string]func(*rapid.T){
			"": m.check, "fold": m.fold, "commit": m.commit, "repeat": m.repeat,
			"conflict": m.conflict, "read": m.read, "reopen": m.reopen,
		})
		verifyAll(t, m.store)
	})
}
