package publisher

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
)

var name = evtlog.StreamName{Queue: "cm", Name: "feed"}

// asking makes a request of records that each charge cost.
func asking(cost int, records int) *request {
	r := &request{done: make(chan struct{}, 1), items: make([]item, records), open: records, cost: cost * records}
	for i := range r.items {
		r.items[i] = item{req: r, cost: cost, size: cost}
	}
	return r
}

// put queues a request as a caller does.
func put(ctx context.Context, q *inbox, r *request) error {
	if got, err := q.try(ctx, r, false); got == queued || err != nil {
		return err
	}
	if err := q.admit(ctx, r.cost); err != nil {
		return err
	}
	return q.push(r)
}

func waitFor(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !cond(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("waiting until %s", what)
		}
	}
}

func waiters(q *inbox) func(n int) func() bool {
	return func(n int) func() bool {
		return func() bool {
			q.mu.Lock()
			defer q.mu.Unlock()
			return q.waiting.Len() == n
		}
	}
}

func TestInboxAdmitsInOrder(t *testing.T) {
	q := newInbox(name, limits{100, 10})
	if err := put(t.Context(), q, asking(60, 1)); err != nil {
		t.Fatal(err)
	}
	var order []int
	var mu sync.Mutex
	var wg sync.WaitGroup
	// The second would fit beside the first; it must not pass the big one that
	// came before it, which would then wait for ever.
	for i, cost := range []int{90, 10} {
		wg.Go(func() {
			if err := put(t.Context(), q, asking(cost, 1)); err != nil {
				t.Error(err)
			}
			mu.Lock()
			order = append(order, cost)
			mu.Unlock()
		})
		waitFor(t, "it waits", waiters(q)(i+1))
	}
	if got := q.take(nil, 10, 1000); len(got) != 1 {
		t.Errorf("%d records were admitted", len(got))
	}
	q.release(60)
	wg.Wait()
	if _, used := q.depth(); used != 100 || len(order) != 2 {
		t.Errorf("%d are charged; order %v", used, order)
	}
}

func TestInboxGivesBackTheRoomOfThoseWhoLeave(t *testing.T) {
	q := newInbox(name, limits{100, 10})
	first := asking(100, 1)
	if err := put(t.Context(), q, first); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	left, admitted := make(chan error), make(chan error)
	go func() { left <- put(ctx, q, asking(100, 1)) }()
	waitFor(t, "one waits", waiters(q)(1))
	go func() { admitted <- put(t.Context(), q, asking(10, 1)) }()
	waitFor(t, "two wait", waiters(q)(2))
	cancel()
	if err := <-left; !errors.Is(err, evtlog.ErrOverloaded) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if n := q.withdraw(first); n != 0 {
		t.Errorf("the withdrawn request had %d records taken", n)
	}
	if err := <-admitted; err != nil {
		t.Error(err)
	}
	if queued, used := q.depth(); queued != 1 || used != 10 {
		t.Errorf("%d records, %d bytes", queued, used)
	}
}

func TestInboxLetsOnlySoManyWait(t *testing.T) {
	q := newInbox(name, limits{bytes: 100, callers: 3})
	if err := put(t.Context(), q, asking(100, 1)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan error)
	for i := range 3 {
		go func() { told <- put(ctx, q, asking(100, 1)) }()
		waitFor(t, "it waits", waiters(q)(i+1))
	}
	var refused *OverloadedError
	err := put(t.Context(), q, asking(1, 1))
	if !errors.As(err, &refused) || refused.Waiting != 3 || !errors.Is(err, evtlog.ErrOverloaded) || !strings.Contains(err.Error(), "3 callers") {
		t.Errorf("the fourth was told %v", err)
	}
	cancel()
	for range 3 {
		if err := <-told; !errors.Is(err, context.Canceled) || errors.As(err, &refused) {
			t.Errorf("one who waited was told %v", err)
		}
	}
	if n := q.callers(); n != 0 {
		t.Errorf("%d wait", n)
	}
}

func TestInboxTakesABatchInParts(t *testing.T) {
	q := newInbox(name, limits{10_000, 10})
	batch, single := asking(10, 5), asking(10, 1)
	for _, r := range []*request{batch, single} {
		if err := put(t.Context(), q, r); err != nil {
			t.Fatal(err)
		}
	}
	first := q.take(nil, 3, 1000)
	if len(first) != 3 || first[2] != &batch.items[2] {
		t.Fatalf("took %d", len(first))
	}
	if got := q.take(nil, 3, 15); len(got) != 1 || got[0] != &batch.items[3] {
		t.Fatalf("a flush of 15 bytes took %d records of 10", len(got))
	}
	if n := q.withdraw(batch); n != 4 {
		t.Errorf("%d records were taken, want 4", n)
	}
	if n := q.withdraw(batch); n != 5 {
		t.Errorf("withdrawing again says %d, want all", n)
	}
	if got := q.take(nil, 3, 5); len(got) != 1 || got[0] != &single.items[0] {
		t.Errorf("the record behind the batch: %d", len(got))
	}
	if queued, used := q.depth(); queued != 0 || used != 50 {
		t.Errorf("%d records, %d bytes; want 0 and the 50 that were taken", queued, used)
	}
}

func TestInboxClosesAndOpens(t *testing.T) {
	q := newInbox(name, limits{100, 10})
	if err := put(t.Context(), q, asking(100, 1)); err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error)
	go func() { waiting <- put(t.Context(), q, asking(50, 1)) }()
	waitFor(t, "one waits", waiters(q)(1))
	q.close(evtlog.ErrStopped)
	q.close(evtlog.ErrDenied)
	for _, err := range []error{<-waiting, put(t.Context(), q, asking(1, 1))} {
		if !errors.Is(err, evtlog.ErrStopped) {
			t.Errorf("got %v", err)
		}
	}
	if q.park(false) {
		t.Error("a closed inbox lets the pump wait")
	}
	if got := q.take(nil, 9, 999); len(got) != 1 {
		t.Errorf("%d records are left, want the one that was queued", len(got))
	}
	q.release(100)
	q.reopen()
	if err := put(t.Context(), q, asking(100, 1)); err != nil {
		t.Error(err)
	}
	if _, used := q.depth(); used != 100 {
		t.Errorf("%d are charged", used)
	}
}

func TestInboxWakesThePump(t *testing.T) {
	q := newInbox(name, limits{100, 10})
	for range 3 {
		if !q.park(false) {
			t.Fatal("an empty inbox does not let the pump wait")
		}
		go func() { _ = put(t.Context(), q, asking(1, 1)) }()
		<-q.wake
		if q.park(false) {
			t.Fatal("the pump may wait although there is something to take")
		}
		if got := q.take(nil, 9, 99); len(got) != 1 {
			t.Fatalf("took %d", len(got))
		}
	}
	q.park(false)
	_ = put(t.Context(), q, asking(1, 1))
	q.unpark()
	select {
	case <-q.wake:
		t.Error("a wake is left over")
	default:
	}
}

func TestConfigNamesTheBadField(t *testing.T) {
	ok := Config{}.withDefaults()
	for field, change := range map[string]func(*Config){
		"MaxRecordBytes": func(c *Config) { c.MaxRecordBytes = -1 },
		"MaxBatch":       func(c *Config) { c.MaxBatch = -1 },
		"Replicas":       func(c *Config) { c.Replicas = -1 },
		"ReplicaTimeout": func(c *Config) { c.ReplicaTimeout = -1 },
		"MaxSkew":        func(c *Config) { c.MaxSkew = -1 },
		"Stream":         func(*Config) {},
	} {
		c := ok
		change(&c)
		if err := c.validate(); err == nil || !strings.Contains(err.Error(), "Config."+field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
