package runtime_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/streamconsumer"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/redislog"
	"github.com/evtlog/evtlog/runtime"
)

// Members without a name, with several workers each, share the work; after a
// restart they have the same names.
func TestConsumersWithoutANameShareTheWork(t *testing.T) {
	srv := redistest.Start(t)
	var l ledger
	consumer := runtime.Consumer{
		Queue: "q", Stream: "s", Group: "g", Start: streamconsumer.FromHead, Handler: l.handle,
		Block: 50 * time.Millisecond, Workers: 2, Slots: 2,
		Key: func(d evtlog.Delivery) string { v, _ := d.Get("n"); return v },
	}
	cfg := runtime.Config{
		Redis: redislog.Config{URL: srv.URL()}, Streams: []runtime.Stream{{Queue: "q", Name: "s"}},
		Consumers: []runtime.Consumer{consumer, consumer},
	}
	for range 3 {
		rt := start(t, cfg)
		names := map[string]bool{}
		for _, c := range rt.Consumers() {
			names[c.Member] = true
		}
		if len(names) != 2 || !names["slot-1"] || !names["slot-2"] {
			t.Errorf("names = %v", names)
		}
		log, err := rt.Stream("q", "s")
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			if _, err := log.Append(bounded(t), evtlog.F("n", fmt.Sprint(i%3))); err != nil {
				t.Fatal(err)
			}
		}
		if err := rt.Drain(bounded(t)); err != nil {
			t.Fatal(err)
		}
		if err := rt.Stop(bounded(t)); err != nil {
			t.Fatal(err)
		}
	}
	if l.count() != 60 {
		t.Errorf("%d deliveries, want 60", l.count())
	}
}

// A stop, as on SIGTERM, that comes while a handler takes its time: the entry is
// acknowledged, and not delivered again.
func TestStopWhileAHandlerTakesItsTime(t *testing.T) {
	for name, workers := range map[string]int{"one worker": 1, "three workers": 3} {
		t.Run(name, func(t *testing.T) {
			srv := redistest.Start(t)
			began := make(chan struct{}, 10)
			var l ledger
			cfg := runtime.Config{
				Redis: redislog.Config{URL: srv.URL()}, Streams: []runtime.Stream{{Queue: "q", Name: "s"}},
				Consumers: []runtime.Consumer{{
					Queue: "q", Stream: "s", Group: "g", Name: "m", Start: streamconsumer.FromHead, Workers: workers,
					MinIdle: 600 * time.Millisecond, // shorter than the handler
					Handler: func(ctx context.Context, d evtlog.Delivery) error {
						began <- struct{}{}
						<-time.After(1500 * time.Millisecond)
						return l.handle(ctx, d)
					},
				}},
			}
			rt := start(t, cfg)
			log, err := rt.Stream("q", "s")
			if err != nil {
				t.Fatal(err)
			}
			for range workers {
				if _, err := log.Append(bounded(t), evtlog.F("event", "scored")); err != nil {
					t.Fatal(err)
				}
			}
			for range workers {
				<-began
			}
			if err := rt.Stop(bounded(t)); err != nil {
				t.Fatal(err)
			}
			if l.count() != workers {
				t.Fatalf("%d handlers had returned when the stop was done, want %d", l.count(), workers)
			}
			again := start(t, cfg)
			if err := again.Drain(bounded(t)); err != nil {
				t.Fatal(err)
			}
			if s := again.Consumers()[0]; s.Delivered != 0 || s.Drained != 0 {
				t.Errorf("after the restart: %+v", s.Stats)
			}
		})
	}
}
