package archive_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/archivetest"
	"github.com/evtlog/evtlog/evtid"
)

// TestReadBesideWriterAndArchiver runs everything at once, for the race detector
// and for orders that no hook thinks of.
func TestReadBesideWriterAndArchiver(t *testing.T) {
	const records = 2000
	w := newWorld(t, 1, 0, 0)
	r := w.reader(7)
	stop := make(chan struct{})
	var readers, archiver sync.WaitGroup
	archiver.Go(func() {
		folded := 0
		for folded < records {
			live := w.live.Records()
			if last := len(live) + folded; last > folded {
				w.foldAndTrim(folded, folded+1+len(live)/2)
				folded += 1 + len(live)/2
			}
		}
	})
	for i := range 3 {
		readers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := readAll(r, &w.live, (n+i)%2 == 1); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for n := 2; n <= records; n++ {
		w.append(n, n)
	}
	archiver.Wait()
	close(stop)
	readers.Wait()
}

// readAll reads the whole stream and checks that it holds every record that had
// been appended when the read began, in order.
func readAll(r *archive.Reader, live *archivetest.MemoryLive, reverse bool) error {
	top, err := live.Last(context.Background())
	if err != nil {
		return err
	}
	n, first, last := 0, 0, 0
	for rec, err := range r.Read(context.Background(), evtlog.Window{Reverse: reverse}) {
		if err != nil {
			return err
		}
		at := int(rec.ID.UnixMilli() - evtid.EpochMillis)
		if n++; n == 1 {
			first = at
		} else if at != last+1 && !reverse || at != last-1 && reverse {
			return fmt.Errorf("record %d follows record %d (reverse %t)", at, last, reverse)
		}
		last = at
	}
	if reverse {
		first, last = last, first
	}
	if first != 1 || number(last).Less(top) {
		return fmt.Errorf("a read of everything up to %s gave records %d to %d (reverse %t)", top, first, last, reverse)
	}
	return nil
}

// bare is a live stream that gives one page again and again.
type bare struct{ records []evtlog.Record }

func (b bare) Last(context.Context) (evtid.ID, error) { return b.records[len(b.records)-1].ID, nil }

func (b bare) Page(_ context.Context, after, _ evtid.ID, n int) ([]evtlog.Record, evtid.ID, error) {
	i := int(after.UnixMilli() - evtid.EpochMillis)
	if i > 0 && after.Less(number(i)) {
		i--
	}
	return b.records[i:min(i+n, len(b.records))], number(1).Prev(), nil
}

func (b bare) PageBefore(context.Context, evtid.ID, evtid.ID, int) ([]evtlog.Record, error) {
	return nil, nil
}

// The records of a page are passed on as they are: what a read allocates does not
// depend on how many there are.
func TestReadAllocatesNothingPerRecord(t *testing.T) {
	b := bare{archivetest.Records(1, 50_000)}
	r := archive.NewReader(feed, b, archivetest.NewMemory())
	allocs := testing.AllocsPerRun(5, func() {
		n := 0
		for _, err := range r.Read(t.Context(), evtlog.Window{After: number(1).Prev()}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != len(b.records) {
			t.Fatalf("%d records", n)
		}
	})
	if allocs > 100 {
		t.Errorf("%.0f allocations for %d records in pages of 1,000", allocs, len(b.records))
	}
}

func BenchmarkReadLive(b *testing.B) {
	live := bare{archivetest.Records(1, 10_000)}
	r := archive.NewReader(feed, live, nil)
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range r.Read(context.Background(), evtlog.Window{After: number(1).Prev()}) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(live.records)), "ns/record")
}
