package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/streamconsumer"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/redislog"
	"github.com/evtlog/evtlog/runtime"
)

// consumerConfig is a member of group g on q/s that does not own the stream.
func consumerConfig(srv *redistest.Server, member string, h evtlog.Handler) runtime.Config {
	return runtime.Config{
		Redis: redislog.Config{URL: srv.URL()}, Node: 2,
		Consumers: []runtime.Consumer{{
			Queue: queue, Stream: name, Group: "g", Name: member, Start: streamconsumer.FromHead,
			Handler: h, Block: 100 * time.Millisecond, MinIdle: 300 * time.Millisecond,
			RetryMin: 20 * time.Millisecond, RetryMax: 50 * time.Millisecond, MaxDeliveries: 4,
		}},
	}
}

// log of deliveries, in order.
type deliveries struct {
	mu  sync.Mutex
	all []evtlog.Delivery
}

func (d *deliveries) handle(_ context.Context, x evtlog.Delivery) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, x)
	return nil
}

func (d *deliveries) ids() []evtid.ID {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []evtid.ID
	for _, x := range d.all {
		out = append(out, x.ID)
	}
	return out
}

func (d *deliveries) get(id evtid.ID) (found evtlog.Delivery, times int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range d.all {
		if x.ID == id {
			found = x
			times++
		}
	}
	return found, times
}

// appendN appends n records and returns their ids.
func appendN(t *testing.T, log *runtime.Log, n int) []evtid.ID {
	t.Helper()
	var ids []evtid.ID
	for i := range n {
		id, err := log.Append(testContext(t), evtlog.F("v", fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// crashed leaves n entries pending under a member that never comes back by
// reading them as another program would.
func crashed(t *testing.T, srv *redistest.Server, member string, n int) {
	t.Helper()
	srv.Do("XGROUP", "CREATE", key, "g", "0")
	srv.Do("XREADGROUP", "GROUP", "g", member, "COUNT", fmt.Sprint(n), "STREAMS", key, ">")
}

func pending(srv *redistest.Server) string { return srv.Do("XPENDING", key, "g", "-", "+", "1") }

// nothingPending is the first line of an empty XPENDING answer.
const nothingPending = "*0"

func TestOwnPendingFirst(t *testing.T) {
	srv := redistest.Start(t)
	_, log := oneStream(t, srv, runtime.Stream{})
	ids := appendN(t, log, 30)
	crashed(t, srv, "m1", 10)
	var got deliveries
	start(t, consumerConfig(srv, "m1", got.handle))
	eventually(t, 10*time.Second, "all handled", func() bool { return len(got.ids()) >= 30 && pending(srv) == nothingPending })
	if !slices.Equal(got.ids(), ids) {
		t.Errorf("handled %v, want the ten pending ones first and then the new ones, each once", got.ids())
	}
	first, _ := got.get(ids[0])
	last, _ := got.get(ids[29])
	if first.Attempts < 2 || last.Attempts != 1 {
		t.Errorf("attempts %d and %d; the first was delivered before, the last was not", first.Attempts, last.Attempts)
	}
}

func TestDeadPeerIsReclaimed(t *testing.T) {
	srv := redistest.Start(t)
	_, log := oneStream(t, srv, runtime.Stream{})
	ids := appendN(t, log, 30)
	crashed(t, srv, "dead", 10)
	var got deliveries
	start(t, consumerConfig(srv, "alive", got.handle))
	eventually(t, 15*time.Second, "the dead peer's entries too", func() bool { return len(got.ids()) >= 30 && pending(srv) == nothingPending })
	handled := got.ids()
	slices.SortFunc(handled, evtid.ID.Compare)
	if !slices.Equal(handled, ids) {
		t.Errorf("handled %v", handled)
	}
}

func TestPoisonDoesNotHoldOthersBack(t *testing.T) {
	srv := redistest.Start(t)
	_, log := oneStream(t, srv, runtime.Stream{})
	ids := appendN(t, log, 5)
	poison, panics := ids[1], ids[3]
	var got deliveries
	rt := start(t, consumerConfig(srv, "m", func(ctx context.Context, d evtlog.Delivery) error {
		switch d.ID {
		case poison:
			return errors.New("poison")
		case panics:
			panic("handler panics")
		}
		return got.handle(ctx, d)
	}))
	eventually(t, 5*time.Second, "the others", func() bool { return len(got.ids()) == 3 })
	more := appendN(t, log, 5)
	eventually(t, 20*time.Second, "the newer ones and both dead", func() bool {
		return len(got.ids()) == 8 && srv.Do("XLEN", key+".dead") == ":2" && pending(srv) == nothingPending
	})
	if want := []evtid.ID{ids[0], ids[2], ids[4]}; !slices.Equal(got.ids()[:3], want) || !slices.Equal(got.ids()[3:], more) {
		t.Errorf("handled %v", got.ids())
	}
	if h := rt.Health(); !h.OK() {
		t.Errorf("health %s after failing handlers: %+v", h.State, h.Components)
	}
}

func TestTrimmedPendingEntryComesFromTheArchive(t *testing.T) {
	srv := redistest.Start(t)
	store := openVolume(t)
	_, log := oneStream(t, srv, runtime.Stream{
		Retention: evtlog.KeepLast(3), Durability: runtime.Commit, Archive: store,
	})
	ids := appendN(t, log, 20)
	crashed(t, srv, "m1", 5)
	crashed(t, srv, "dead", 5)
	if err := log.Sweep(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if n := srv.Do("XLEN", key); n != ":3" {
		t.Fatalf("%s entries are live", n)
	}
	var got deliveries
	cfg := consumerConfig(srv, "m1", got.handle)
	cfg.Consumers[0].Archive = store
	start(t, cfg)
	eventually(t, 15*time.Second, "all, trimmed or not", func() bool {
		seen := map[evtid.ID]bool{}
		for _, id := range got.ids() {
			seen[id] = true
		}
		return len(seen) == 20 && pending(srv) == nothingPending
	})
	for i, id := range ids {
		d, _ := got.get(id)
		if v, _ := d.Get("v"); v != fmt.Sprint(i) {
			t.Errorf("%s was delivered with %q", id, v)
		}
		if archived := d.Source == evtlog.Archived; archived != (i < 17) {
			t.Errorf("record %d came from %s", i, d.Source)
		}
	}
}
