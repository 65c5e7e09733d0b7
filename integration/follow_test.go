package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/faultproxy"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/redislog"
	"github.com/evtlog/evtlog/runtime"
)

const (
	followRate = 500
	followJob  = "JOB00000000001"
	// fieldLast marks the last record there will be.
	fieldLast = "last"
)

// followBody makes a record large enough for a buffer of them to be seen.
var followBody = strings.Repeat("x", 4<<10)

// TestFollowEqualsTheLog follows a stream whose announcements are dropped, three
// in ten, and whose connections are all cut every second or so, with a receiver
// that stands still for long in the middle. What it is given is the log: every
// record, once, in order. While it stands still nothing piles up for it, and
// folding and trimming go on.
func TestFollowEqualsTheLog(t *testing.T) {
	limit, long := soak(t, 8*time.Second)
	stall := 5 * time.Second
	if long {
		stall = 90 * time.Second
	}
	f := newFollowed(t)
	ctx, cancel := context.WithTimeout(context.Background(), limit+stall)
	defer cancel()
	var work sync.WaitGroup
	work.Go(func() { f.append(ctx) })
	work.Go(func() { f.cut(ctx) })
	defer work.Wait()
	defer cancel()

	follow, stop := context.WithTimeout(context.Background(), limit+stall+time.Minute)
	defer stop()
	var got []evtid.ID
	caughtUp, outages := 0, 0
	stallAt := time.Now().Add(limit / 3)
	for u, err := range f.rt.Follow(follow, queue, name, evtid.ID{}) {
		switch {
		case errors.Is(err, evtlog.ErrUnavailable):
			outages++
			continue
		case err != nil:
			t.Fatalf("after %d records: %v", len(got), err)
		case u.CaughtUp:
			caughtUp++
			continue
		}
		got = append(got, u.ID)
		if v, _ := u.Get("v"); v != fmt.Sprint(len(got)-1) {
			t.Fatalf("record %d holds %q", len(got)-1, v)
		}
		if !stallAt.IsZero() && time.Now().After(stallAt) {
			stallAt = time.Time{}
			f.standStill(stall)
		}
		if _, last := u.Get(fieldLast); last {
			break
		}
	}
	work.Wait()
	t.Logf("%d records followed, %d errors told, %d announcements dropped, %d cuts, %d connections made", len(got), outages, f.proxy.Dropped(), f.cuts, f.proxy.Accepted())
	if !slices.Equal(got, f.ids) {
		t.Errorf("%d records were followed, %d were appended; they are not the same in the same order", len(got), len(f.ids))
	}
	if caughtUp != 1 {
		t.Errorf("caught up %d times", caughtUp)
	}
	if f.proxy.Dropped() == 0 || f.cuts == 0 {
		t.Error("the faults did not happen; the test has shown nothing")
	}
}

// followed is a stream that is written, folded and followed through one faulty
// network.
type followed struct {
	t     *testing.T
	rnd   *rand.Rand
	proxy *faultproxy.Proxy
	rt    *runtime.Runtime
	log   *runtime.Log
	cuts  int

	mu  sync.Mutex
	ids []evtid.ID
}

func newFollowed(t *testing.T) *followed {
	t.Helper()
	f := &followed{t: t, rnd: random(t)}
	srv := redistest.Start(t)
	f.proxy = faultproxy.Start(t, srv.Addr)
	dropping := rand.New(rand.NewPCG(f.rnd.Uint64(), 2))
	f.proxy.Drop(func(answer []byte) bool {
		return faultproxy.IsMessage(answer) && dropping.IntN(10) < 3
	})
	f.rt = start(t, runtime.Config{
		Redis: redislog.Config{URL: f.proxy.URL()}, Node: 1,
		Streams: []runtime.Stream{{
			Queue: queue, Name: name, Retention: evtlog.KeepLast(500), Durability: runtime.Window(200), Archive: openVolume(t),
		}},
	})
	var err error
	if f.log, err = f.rt.Stream(queue, name); err != nil {
		t.Fatal(err)
	}
	return f
}

// append announces nine records of ten, and appends the tenth without a word.
func (f *followed) append(ctx context.Context) {
	tick := time.NewTicker(time.Second / followRate)
	defer tick.Stop()
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Minute)
	defer cancel()
	for n, last := 0, false; !last; n++ {
		fields := []evtlog.Field{evtlog.F("v", fmt.Sprint(n)), evtlog.F("body", followBody)}
		if last = ctx.Err() != nil; last {
			fields = append(fields, evtlog.F(fieldLast, "1"))
		}
		var id evtid.ID
		var err error
		if n%10 == 9 {
			id, err = f.log.Append(patience, fields...)
		} else {
			id, err = f.log.Announce(patience, "e", followJob, fields...)
		}
		if err != nil {
			f.t.Errorf("append %d: %v", n, err)
			return
		}
		f.mu.Lock()
		f.ids = append(f.ids, id)
		f.mu.Unlock()
		<-tick.C
	}
}

// cut cuts every connection at random moments.
func (f *followed) cut(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(300+f.rnd.IntN(1200)) * time.Millisecond):
			f.proxy.CutAll()
			f.cuts++
		}
	}
}

func (f *followed) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.ids)
}

// standStill is a receiver that takes nothing for a while. What is appended
// meanwhile must not be in memory afterwards, and must have been archived.
func (f *followed) standStill(d time.Duration) {
	appended, heap := f.count(), heapInUse()
	before, err := f.watermark()
	if err != nil {
		f.t.Error(err)
	}
	<-time.After(d)
	bytes := int64(f.count()-appended) * int64(len(followBody))
	grown := heapInUse() - heap
	f.t.Logf("stood still for %s: %d MiB appended, heap grew by %d KiB", d, bytes>>20, grown>>10)
	if grown > bytes/2 {
		f.t.Errorf("the heap grew by %d bytes while %d were appended: they pile up for a slow receiver", grown, bytes)
	}
	after, err := f.watermark()
	if err != nil || !before.Less(after) {
		f.t.Errorf("the watermark went from %s to %s, %v: a slow receiver holds the archiver up", before, after, err)
	}
}

func (f *followed) watermark() (evtid.ID, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return f.log.Watermark(ctx)
}

// heapInUse is what is reachable now.
func heapInUse() int64 {
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
