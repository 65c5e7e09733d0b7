package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/runtime"
)

// TestMergedReadEqualsOracle reads 10,000 random windows, forward and backward,
// while records are appended, folded and trimmed all the time. A window whose
// upper end was appended before the read began holds exactly the records that
// were appended into it.
func TestMergedReadEqualsOracle(t *testing.T) {
	const windows, readers = 10_000, 4
	srv := redistest.Start(t)
	store := openVolume(t)
	_, log := oneStream(t, srv, runtime.Stream{
		Retention: evtlog.KeepLast(200), Durability: runtime.Window(50), Archive: store,
	})
	ctx, done := context.WithCancel(testContext(t))
	var writer sync.WaitGroup
	oracle := &oracle{}
	writer.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			id, err := log.Append(ctx, evtlog.F("v", fmt.Sprint(i)))
			if err != nil {
				if ctx.Err() == nil {
					t.Errorf("append: %v", err)
				}
				return
			}
			oracle.add(id)
		}
	})
	// The tick is a second; sweeping by hand, now and then, keeps folds and trims
	// running and leaves a live tail between two of them.
	writer.Go(func() {
		for ctx.Err() == nil {
			if err := log.Sweep(ctx); err != nil && ctx.Err() == nil {
				t.Errorf("sweep: %v", err)
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	eventually(t, 20*time.Second, "records above and below the seam", func() bool {
		w, err := log.Watermark(ctx)
		return err == nil && !w.IsZero() && oracle.len() > 1000
	})
	var fromArchive, fromLive, straddling atomic.Int64
	var wg sync.WaitGroup
	rnd := random(t)
	for range readers {
		mine := rand.New(rand.NewPCG(rnd.Uint64(), 2))
		wg.Go(func() {
			for range windows / readers {
				w, want := oracle.window(mine)
				archived, live, err := compare(ctx, log, w, want)
				if err != nil {
					t.Error(err)
					return
				}
				fromArchive.Add(int64(archived))
				fromLive.Add(int64(live))
				if archived > 0 && live > 0 {
					straddling.Add(1)
				}
			}
		})
	}
	wg.Wait()
	done()
	writer.Wait()
	t.Logf("%d records from the archive, %d live, %d windows across the seam", fromArchive.Load(), fromLive.Load(), straddling.Load())
	if fromArchive.Load() == 0 || fromLive.Load() == 0 || straddling.Load() == 0 {
		t.Error("the windows did not exercise both sides of the seam")
	}
}

// oracle is what was appended, in order.
type oracle struct {
	mu  sync.Mutex
	ids []evtid.ID
}

func (o *oracle) add(id evtid.ID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ids = append(o.ids, id)
}

func (o *oracle) len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.ids)
}

// window picks a random window of up to 600 records that ends at one that is
// acknowledged, near the newest as often as not, and tells what it holds.
func (o *oracle) window(rnd *rand.Rand) (evtlog.Window, []evtid.ID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(o.ids)
	to := rnd.IntN(n)
	if rnd.IntN(2) == 0 {
		to = n - 1 - rnd.IntN(min(n, 400))
	}
	from := max(0, to-rnd.IntN(600))
	w := evtlog.Window{To: o.ids[to], Reverse: rnd.IntN(2) == 0}
	if from > 0 {
		w.After = o.ids[from-1]
	}
	want := append([]evtid.ID(nil), o.ids[from:to+1]...)
	if w.Reverse {
		for i, j := 0, len(want)-1; i < j; i, j = i+1, j-1 {
			want[i], want[j] = want[j], want[i]
		}
	}
	if rnd.IntN(4) == 0 {
		w.Limit = 1 + rnd.IntN(len(want))
		want = want[:w.Limit]
	}
	return w, want
}

// compare reads a window and says where its records came from.
func compare(ctx context.Context, log *runtime.Log, w evtlog.Window, want []evtid.ID) (archived, live int, err error) {
	i := 0
	for r, err := range log.Read(ctx, w) {
		if err != nil {
			return archived, live, fmt.Errorf("read %+v: %w", w, err)
		}
		if i >= len(want) || r.ID != want[i] {
			return archived, live, fmt.Errorf("read %+v: record %d is %s (%s), want %v", w, i, r.ID, r.Source, want[min(i, len(want)-1)])
		}
		i++
		if r.Source == evtlog.Archived {
			archived++
		} else {
			live++
		}
	}
	if i != len(want) {
		return archived, live, fmt.Errorf("read %+v: %d records, want %d", w, i, len(want))
	}
	return archived, live, nil
}
