package publisher_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/publisher"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/faultproxy"
	"github.com/evtlog/evtlog/internal/redistest"
)

// clock is a clock that tests set.
type clock struct{ offset atomic.Int64 }

func (c *clock) now() int64 { return time.Now().UnixMilli() + c.offset.Load() }

func (c *clock) step(d time.Duration) { c.offset.Add(d.Milliseconds()) }

func appendAll(t testing.TB, b *bench, n int) (ids []evtid.ID) {
	t.Helper()
	for i := range n {
		id, err := b.Append(within(t), evtlog.F("n", fmt.Sprint(i)))
		if err != nil {
			t.Fatalf("append %d: %v", i, err)
		}
		if len(ids) > 0 && !ids[len(ids)-1].Less(id) {
			t.Fatalf("%s follows %s", id, ids[len(ids)-1])
		}
		ids = append(ids, id)
	}
	return ids
}

func TestTheClockIsSetBack(t *testing.T) {
	var c clock
	b := running(t, redistest.Start(t), publisher.Config{Now: c.now})
	last := appendAll(t, b, 3)[2]
	c.step(-30 * time.Second)
	if next := appendAll(t, b, 3); !last.Less(next[0]) {
		t.Errorf("%s after the step, %s before it", next[0], last)
	}
	c.step(-time.Hour)
	var skew *evtid.SkewError
	if _, err := b.Append(within(t), evtlog.F("k", "refused")); !errors.As(err, &skew) {
		t.Errorf("an hour back: %v", err)
	}
	await(t, "it is reported as degraded", func() bool {
		n := b.system.Tree()[1]
		return n.State == evtlog.Degraded && errors.As(n.Err, &skew)
	})
	c.step(time.Hour + 30*time.Second)
	appendAll(t, b, 3)
	if got := stored(t, b.log); len(got) != 9 {
		t.Errorf("%d records, want 9", len(got))
	}
}

func TestRestartOnASlowClock(t *testing.T) {
	server := redistest.Start(t)
	before := running(t, server, publisher.Config{})
	last := appendAll(t, before, 3)[2]
	before.stop(t)

	slow := clock{}
	slow.step(-50 * time.Second)
	b := running(t, server, publisher.Config{Now: slow.now})
	// Not only above the top, but of a later millisecond: what the former process
	// may still have had on its way is not made again.
	if first := appendAll(t, b, 1)[0]; first.UnixMilli() <= last.UnixMilli() {
		t.Errorf("the first id of the new process is %s, the last of the old %s", first.Entry(), last.Entry())
	}

	slower := clock{}
	slower.step(-time.Hour)
	p, err := publisher.New(publisher.Config{Stream: feedStream(t), Now: slower.now}, b.log, nil)
	if err != nil {
		t.Fatal(err)
	}
	system := supervise.NewSystem(supervise.Config{})
	var skew *evtid.SkewError
	if _, err := system.Branch(within(t), "b", p.Spec()); !errors.As(err, &skew) {
		t.Errorf("start an hour behind the top: %v", err)
	}
	if err := system.Stop(within(t)); err != nil {
		t.Error(err)
	}
}

// Two writers with one node number: nothing is written twice or out of order,
// every refusal names the top and its node, and appends go on in both.
func TestTwoPublishersWithOneNode(t *testing.T) {
	const each = 300
	server := redistest.Start(t)
	a, b := running(t, server, publisher.Config{Node: 3}), running(t, server, publisher.Config{Node: 3})
	var committed, refused atomic.Int64
	var wg sync.WaitGroup
	for _, w := range []*bench{a, b} {
		wg.Go(func() {
			for i := range each {
				_, err := w.Append(within(t), evtlog.F("n", fmt.Sprint(i)))
				var second *evtlog.NonMonotonicError
				switch {
				case err == nil:
					committed.Add(1)
				case errors.As(err, &second) && !second.Top.Less(second.ID) && second.Top.Node() == 3:
					refused.Add(1)
				default:
					t.Errorf("append: %v", err)
				}
			}
		})
	}
	wg.Wait()
	records := stored(t, a.log)
	if int64(len(records)) != committed.Load() {
		t.Errorf("%d records, %d callers were told committed", len(records), committed.Load())
	}
	for i := 1; i < len(records); i++ {
		if !records[i-1].ID.Less(records[i].ID) {
			t.Errorf("%s follows %s", records[i].ID, records[i-1].ID)
		}
	}
	reports := len(seen[evtlog.SecondWriter](&a.journal)) + len(seen[evtlog.SecondWriter](&b.journal))
	if committed.Load() == 0 || refused.Load() == 0 || reports == 0 || int64(reports) > refused.Load() {
		t.Errorf("committed %d, refused %d, reported %d", committed.Load(), refused.Load(), reports)
	}
}

// A foreign writer with a fast clock: each append is refused with its id and node
// as long as the clock is behind, with one report and no hot loop.
func TestASecondWriterFarAhead(t *testing.T) {
	server := redistest.Start(t)
	var c clock
	b := running(t, server, publisher.Config{Node: 3, Now: c.now})
	appendAll(t, b, 1)
	ahead, err := evtid.Make(c.now()+(2*time.Hour).Milliseconds(), 9, 0)
	if err != nil {
		t.Fatal(err)
	}
	server.Do("XADD", feedStream(t).Key(), ahead.Entry(), "id", ahead.String(), "k", "v")
	for i := range 5 {
		_, err := b.Append(within(t), evtlog.F("k", "refused"))
		var second *evtlog.NonMonotonicError
		var skew *evtid.SkewError
		switch {
		case i == 0 && (!errors.As(err, &second) || second.Top != ahead || second.Top.Node() != 9):
			t.Errorf("the first refusal: %v", err)
		case i > 0 && (!errors.As(err, &skew) || skew.ID != ahead):
			t.Errorf("refusal %d: %v", i, err)
		}
	}
	if got := seen[evtlog.SecondWriter](&b.journal); len(got) != 1 || got[0].Top != ahead {
		t.Errorf("reports: %+v", got)
	}
	c.step(2 * time.Hour)
	appendAll(t, b, 2)
}

// At a reconnect the server's top is above everything this writer made.
func TestASecondWriterWhileDisconnected(t *testing.T) {
	server := redistest.Start(t)
	proxy := faultproxy.Start(t, server.Addr)
	b := start(t, proxy.URL(), publisher.Config{Node: 3}, nil)
	appendAll(t, b, 1)
	foreign, err := evtid.Make(time.Now().UnixMilli()+20_000, 9, 0)
	if err != nil {
		t.Fatal(err)
	}
	server.Do("XADD", feedStream(t).Key(), foreign.Entry(), "id", foreign.String(), "k", "v")
	proxy.CutAll()
	// This one was on its way when the loss was noticed.
	var second *evtlog.NonMonotonicError
	if _, err := b.Append(within(t), evtlog.F("k", "refused")); !errors.As(err, &second) || second.Top != foreign {
		t.Errorf("the append that met the other writer: %v", err)
	}
	if ids := appendAll(t, b, 2); !foreign.Less(ids[0]) {
		t.Errorf("%s is not above %s", ids[0], foreign)
	}
	if got := seen[evtlog.SecondWriter](&b.journal); len(got) != 1 || got[0].Top != foreign {
		t.Errorf("reports: %+v", got)
	}
}

// At a reconnect the server's top is below what was committed: a failover lost
// it. It is reported as a range, once, and appends go on above it.
func TestAServerThatLostRecords(t *testing.T) {
	server := redistest.Start(t)
	proxy := faultproxy.Start(t, server.Addr)
	b := start(t, proxy.URL(), publisher.Config{}, nil)
	ids := appendAll(t, b, 5)
	// What a replica that lagged two records behind looks like once promoted.
	server.Do("DEL", feedStream(t).Key())
	for _, id := range ids[:3] {
		server.Do("XADD", feedStream(t).Key(), id.Entry(), "id", id.String(), "n", "0")
	}
	for range 2 {
		proxy.CutAll()
		if next := appendAll(t, b, 1)[0]; !ids[4].Less(next) {
			t.Errorf("%s is not above the lost %s", next, ids[4])
		}
	}
	lost := seen[evtlog.Lost](&b.journal)
	if len(lost) != 1 || lost[0].After != ids[2] || lost[0].To != ids[4] || lost[0].Group != "" {
		t.Errorf("losses %+v; want one, (%s, %s]", lost, ids[2], ids[4])
	}
}

func TestResolveOfAnyID(t *testing.T) {
	server := redistest.Start(t)
	var c clock
	b := running(t, server, publisher.Config{Now: c.now})
	var ids []evtid.ID
	for range 3 {
		ids = append(ids, appendAll(t, b, 1)...)
		c.step(10 * time.Millisecond)
	}
	var rejected *evtlog.RejectedError
	var doubt *evtlog.UncertainError
	if err := b.Resolve(within(t), evtid.ID{}); err == nil {
		t.Error("the zero id was resolved")
	}
	if err := b.Resolve(within(t), ids[1]); err != nil {
		t.Errorf("a committed id: %v", err)
	}
	if err := b.Resolve(within(t), ids[2].Prev()); !errors.As(err, &rejected) {
		t.Errorf("an id that was never appended: %v", err)
	}
	if err := b.Resolve(within(t), ids[2].Next()); !errors.As(err, &doubt) {
		t.Errorf("an id above the top: %v", err)
	}
	// Retention without an archive: nobody can tell any more.
	server.Do("XTRIM", feedStream(t).Key(), "MAXLEN", "=", "0")
	if err := b.Resolve(within(t), ids[1]); !errors.As(err, &doubt) {
		t.Errorf("a trimmed id: %v", err)
	}
	b.stop(t)
	if err := b.Resolve(within(t), ids[1]); !errors.As(err, &doubt) {
		t.Errorf("after the stop: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Resolve(ended, ids[1]); !errors.As(err, &doubt) {
		t.Errorf("without time: %v", err)
	}
}
