package publisher_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/publisher"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/redistest"
)

// Many callers at once: every receipt is in the stream exactly once, the stream
// is in id order, and each caller's records are in the order of its calls.
func TestOrderTheorem(t *testing.T) {
	const callers, each = 64, 800
	b := running(t, redistest.Start(t), publisher.Config{Node: 7})
	ctx := within(t)
	receipts := make([][]evtid.ID, callers)
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for n := range each {
				id, err := b.Append(ctx, evtlog.F("caller", fmt.Sprint(c)), evtlog.F("n", fmt.Sprint(n)))
				if err != nil {
					t.Errorf("caller %d: %v", c, err)
					return
				}
				receipts[c] = append(receipts[c], id)
			}
		})
	}
	wg.Wait()
	b.stop(t)
	next := make([]int, callers)
	records := stored(t, b.log)
	for i, r := range records {
		if i > 0 && !records[i-1].ID.Less(r.ID) {
			t.Fatalf("%s follows %s", r.ID, records[i-1].ID)
		}
		var c, n int
		fmt.Sscan(r.Fields[0].Value, &c)
		fmt.Sscan(r.Fields[1].Value, &n)
		if next[c] != n || receipts[c][n] != r.ID || r.ID.Node() != 7 || r.Unbranded {
			t.Fatalf("record %#v: caller %d expected its number %d under %s", r, c, next[c], receipts[c][n])
		}
		next[c]++
	}
	if len(records) != callers*each {
		t.Errorf("%d records, want %d", len(records), callers*each)
	}
	if s := b.Stats(); s.Appended != callers*each || s.Rejected != 0 || s.Uncertain != 0 || s.Queued != 0 || s.QueuedBytes != 0 || s.LastReply.IsZero() {
		t.Errorf("stats %+v", s)
	}
}

func TestAppendBatchIsContiguous(t *testing.T) {
	const callers, rounds, size = 8, 10, 300
	b := running(t, redistest.Start(t), publisher.Config{MaxBatch: 64})
	ctx := within(t)
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for round := range rounds {
				records := make([][]evtlog.Field, size)
				for i := range records {
					records[i] = []evtlog.Field{evtlog.F("k", fmt.Sprintf("%d.%d", c, round)), evtlog.F("i", fmt.Sprint(i))}
				}
				receipts, err := b.AppendBatch(ctx, records)
				if err != nil || len(receipts) != size {
					t.Errorf("%d receipts, %v", len(receipts), err)
					return
				}
			}
		})
	}
	wg.Wait()
	records := stored(t, b.log)
	if len(records) != callers*rounds*size {
		t.Fatalf("%d records", len(records))
	}
	for i, r := range records {
		if want := fmt.Sprint(i % size); r.Fields[1].Value != want || r.Fields[0] != records[i-i%size].Fields[0] {
			t.Fatalf("record %d is %v; want number %s of one batch", i, r.Fields, want)
		}
	}
}

func TestBadRecordsAreRefusedBeforeTheWire(t *testing.T) {
	b := running(t, redistest.Start(t), publisher.Config{MaxRecordBytes: 100, MaxQueuedBytes: 2000})
	ctx := within(t)
	big := evtlog.F("k", string(make([]byte, 100)))
	announce := func(extra string) func() error {
		return func() error {
			_, err := b.Announce(ctx, "scored", "JOB0KHTOWnGLuC", evtlog.F("pct", "83"), evtlog.F(extra, "x"))
			var field *evtlog.FieldError
			if errors.As(err, &field) && (field.Index != 1 || field.Name != extra) {
				t.Errorf("%s: the error names %d %s", extra, field.Index, field.Name)
			}
			return err
		}
	}
	for name, try := range map[string]func() error{
		"reserved name":       func() error { _, err := b.Append(ctx, evtlog.F("id", "x")); return err },
		"too large":           func() error { _, err := b.Append(ctx, big); return err },
		"reserved in a batch": func() error { _, err := b.AppendBatch(ctx, [][]evtlog.Field{nil, {evtlog.F("id", "x")}}); return err },
		"too large a batch":   func() error { _, err := b.AppendBatch(ctx, make([][]evtlog.Field, 4)); return err },
		"too large announced": func() error {
			_, err := b.Announce(ctx, "scored", "JOB0KHTOWnGLuC", evtlog.F("k", string(make([]byte, 80))))
			return err
		},
		"malformed job":        func() error { _, err := b.Announce(ctx, "scored", "job-1"); return err },
		"no event":             func() error { _, err := b.Announce(ctx, "", "JOB0KHTOWnGLuC"); return err },
		"member evt":           announce("evt"),
		"member prev":          announce("prev"),
		"member event":         announce("event"),
		"member job":           announce("job"),
		"job out of the shape": func() error { _, err := b.Announce(ctx, "scored", "JOB0KHTOWnGL}C"); return err },
	} {
		err := try()
		var parse *evtid.ParseError
		if !errors.Is(err, evtlog.ErrBadField) && !errors.Is(err, evtlog.ErrTooLarge) && !errors.As(err, &parse) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := b.Append(ended, evtlog.F("k", "v")); !errors.Is(err, evtlog.ErrOverloaded) || !errors.Is(err, context.Canceled) {
		t.Errorf("a caller whose context has ended: %v", err)
	}
	if receipts, err := b.AppendBatch(ctx, nil); receipts != nil || err != nil {
		t.Errorf("an empty batch: %v, %v", receipts, err)
	}
	if last, err := b.log.Last(ctx); err != nil || !last.IsZero() {
		t.Errorf("something was written: %s, %v", last, err)
	}
}
