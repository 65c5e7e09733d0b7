package integration

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/runtime"
)

// TestServerRestartUnderLoad kills redis-server three times while 16 callers
// append and the archiver folds and trims. The server syncs each write, so every
// receipt that was given is readable afterwards, none is doubled, and what was
// uncertain can be settled.
func TestServerRestartUnderLoad(t *testing.T) {
	srv := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	store := openVolume(t)
	_, log := oneStream(t, srv, runtime.Stream{
		Retention: evtlog.KeepLast(500), Durability: runtime.Window(100), Archive: store,
	})
	ctx, done := context.WithCancel(testContext(t))
	got := newReceipts()
	var mu sync.Mutex
	var uncertain []evtid.ID
	var wg sync.WaitGroup
	wg.Go(func() {
		appendLoop(ctx, t, log, 16, 0, got, func(err error) {
			var u *evtlog.UncertainError
			if errors.As(err, &u) {
				mu.Lock()
				defer mu.Unlock()
				uncertain = append(uncertain, u.ID)
			}
		})
	})
	for range 3 {
		before := got.len()
		eventually(t, 30*time.Second, "a thousand more appends", func() bool { return got.len() > before+1000 })
		srv.Kill()
		srv.Restart()
	}
	before := got.len()
	eventually(t, 30*time.Second, "appends after the last restart", func() bool { return got.len() > before+1000 })
	done()
	wg.Wait()
	settleCtx := testContext(t)
	for _, id := range uncertain {
		var rejected *evtlog.RejectedError
		if err := log.Resolve(settleCtx, id); err != nil && !errors.As(err, &rejected) {
			t.Errorf("resolve %s: %v", id, err)
		}
	}
	if err := log.Sweep(settleCtx); err != nil {
		t.Error(err)
	}
	t.Logf("%d receipts, %d uncertain", got.len(), len(uncertain))
	// Calls that ctx cut off may have been written without a receipt.
	got.check(t, collect(t, log, evtlog.Window{}), true)
}

// TestUncertainAppendsAreSettled gives each append 30 ms while the server is
// killed and frozen under it. Whatever is uncertain then gets a final answer,
// and the answer is the truth: committed is readable, rejected is not.
func TestUncertainAppendsAreSettled(t *testing.T) {
	srv := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	_, log := oneStream(t, srv, runtime.Stream{})
	ctx, done := context.WithCancel(testContext(t))
	got := newReceipts()
	var mu sync.Mutex
	uncertain := map[evtid.ID]string{}
	var wg sync.WaitGroup
	for caller := range 8 {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				value := fmt.Sprintf("%d-%d", caller, i)
				call, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Millisecond)
				id, err := log.Append(call, evtlog.F("v", value))
				cancel()
				var u *evtlog.UncertainError
				switch {
				case err == nil:
					got.add(t, id, value)
				case errors.As(err, &u):
					mu.Lock()
					uncertain[u.ID] = value
					mu.Unlock()
				case !errors.Is(err, evtlog.ErrOverloaded):
					t.Errorf("append %s: %v", value, err)
				}
			}
		})
	}
	fault := []func(){
		func() { srv.Kill(); srv.Restart() },
		func() { srv.Pause(); <-time.After(200 * time.Millisecond); srv.Resume() },
	}
	for i := range 6 {
		before := got.len()
		eventually(t, 30*time.Second, "more appends", func() bool { return got.len() > before+200 })
		fault[i%2]()
	}
	before := got.len()
	eventually(t, 30*time.Second, "appends after the last fault", func() bool { return got.len() > before+200 })
	done()
	wg.Wait()
	if len(uncertain) == 0 {
		t.Error("no append was uncertain; the test has shown nothing")
	}
	committed := 0
	for id, value := range uncertain {
		var rejected *evtlog.RejectedError
		switch err := log.Resolve(testContext(t), id); {
		case err == nil:
			committed++
			got.add(t, id, value)
		case !errors.As(err, &rejected):
			t.Errorf("resolve %s: %v", id, err)
		}
	}
	t.Logf("%d receipts, %d uncertain of which %d had been committed", got.len(), len(uncertain), committed)
	got.check(t, collect(t, log, evtlog.Window{}), false)
}
