package volume_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/volume"
	"github.com/evtlog/evtlog/evtid"
)

var stream = evtlog.StreamName{Queue: "cm", Name: "feed"}

// record returns a record of the given second of the year 2025.
func record(second int, event string) evtlog.Record {
	id, err := evtid.Make(time.Date(2025, 1, 1, 0, 0, second, 0, time.UTC).UnixMilli(), 7, 0)
	if err != nil {
		panic(err)
	}
	return evtlog.Record{ID: id, Fields: []evtlog.Field{evtlog.F("event", event)}}
}

func openStore() (store *volume.Store, done func()) {
	dir, err := os.MkdirTemp("", "volume-example-")
	if err != nil {
		panic(err)
	}
	store, err = volume.Open(filepath.Join(dir, "archive.db"), volume.Options{})
	if err != nil {
		panic(err)
	}
	return store, func() {
		_ = store.Close()
		_ = os.RemoveAll(dir)
	}
}

func Example() {
	store, done := openStore()
	defer done()
	ctx := context.Background()

	records := []evtlog.Record{record(1, "opened"), record(2, "scored"), record(3, "settled")}
	w, err := store.Fold(ctx, stream, evtid.ID{}, records)
	fmt.Println(w, err)

	for r, err := range store.Read(ctx, stream, archive.Range{After: records[0].ID}) {
		event, _ := r.Get("event")
		fmt.Println(r.ID.Time().Format(time.TimeOnly), event, r.Source, err)
	}
	// Output:
	// EVT09nSpRawgIi <nil>
	// 00:00:02 scored archive <nil>
	// 00:00:03 settled archive <nil>
}

// A fold whose answer was lost is simply repeated. Another fold in its place is
// a conflict that names the watermark to go on from.
func ExampleStore_Fold() {
	store, done := openStore()
	defer done()
	ctx := context.Background()

	first := []evtlog.Record{record(1, "opened")}
	for range 2 {
		w, err := store.Fold(ctx, stream, evtid.ID{}, first)
		fmt.Println(w.Time().Second(), err)
	}
	_, err := store.Fold(ctx, stream, evtid.ID{}, []evtlog.Record{record(2, "scored")})
	var conflict *archive.ConflictError
	fmt.Println(errors.As(err, &conflict), conflict.Watermark == first[0].ID)
	// Output:
	// 1 <nil>
	// 1 <nil>
	// true true
}

// Begin and Commit let a writer decide on a state and be sure that it still
// holds when the decision is written.
func ExampleStore_Commit() {
	store, done := openStore()
	defer done()
	ctx := context.Background()

	base, _ := store.Begin(ctx, stream)
	head, err := store.Commit(ctx, base, []evtlog.Record{record(1, "opened")})
	fmt.Println(head.LSN, head.Count, err)

	_, err = store.Commit(ctx, base, []evtlog.Record{record(2, "scored")})
	var stale *volume.HeadConflictError
	if errors.As(err, &stale) {
		head, err = store.Commit(ctx, stale.Head, []evtlog.Record{record(2, "scored")})
		fmt.Println(head.LSN, head.Count, err)
	}
	// Output:
	// 1 1 <nil>
	// 2 2 <nil>
}

func ExampleStore_Verify() {
	store, done := openStore()
	defer done()
	ctx := context.Background()

	_, _ = store.Fold(ctx, stream, evtid.ID{}, []evtlog.Record{record(1, "opened"), record(2, "scored")})
	report, err := store.Verify(ctx, stream)
	fmt.Println(report.Commits, report.Records, err)
	// Output: 1 2 <nil>
}

// A damaged file is never replaced unasked. Moving it aside makes room for a new
// one, to be filled from a copy.
func ExampleQuarantine() {
	dir, _ := os.MkdirTemp("", "volume-example-")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "archive.db")
	_ = os.WriteFile(path, []byte("half a file"), 0o600)

	_, err := volume.Open(path, volume.Options{})
	fmt.Println(errors.Is(err, archive.ErrCorrupt))

	_, err = volume.Quarantine(path)
	fmt.Println(err)

	store, err := volume.Open(path, volume.Options{})
	fmt.Println(err)
	_ = store.Close()
	// Output:
	// true
	// <nil>
	// <nil>
}

// Commits are copied from store to store; the copy has the same chain.
func ExampleStore_Commits() {
	source, done := openStore()
	defer done()
	_, _ = source.Fold(context.Background(), stream, evtid.ID{}, []evtlog.Record{record(1, "opened")})

	for c, err := range source.Commits(context.Background(), stream, 0, 0) {
		records, _ := c.Records(stream)
		fmt.Println(c.LSN, c.Count, records[0].Fields[0].Value, err)
	}
	// Output: 1 1 opened <nil>
}
