package runtime_test

import (
	"context"
	"testing"
	"time"

	"github.com/evtlog/evtlog/feed"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/redislog"
	"github.com/evtlog/evtlog/runtime"
)

// subscribers is the server's answer to how many connections subscribe to the
// queue's channel, in its own form.
func subscribers(srv *redistest.Server, queue string) string {
	return srv.Do("PUBLISH", "emq:{"+queue+"}:events", "x")
}

// TestSubscriptionsEndWithTheRuntime ranges under a context that never ends.
func TestSubscriptionsEndWithTheRuntime(t *testing.T) {
	srv := redistest.Start(t)
	rt := start(t, runtime.Config{Redis: redislog.Config{URL: srv.URL()}})
	events, err := rt.Subscribe(context.Background(), "q")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Subscribe(context.Background(), "q"); err != nil {
		t.Fatal(err)
	}
	heard, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		var last error
		for a, err := range events {
			if last = err; err == nil {
				heard <- a.Event
			}
		}
		ended <- last
	}()
	if _, err := rt.Publish(bounded(t), "q", feed.Announcement{Event: "tick", Job: job}); err != nil {
		t.Fatal(err)
	}
	if got := <-heard; got != "tick" {
		t.Errorf("heard %q", got)
	}
	if err := rt.Stop(bounded(t)); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the subscription outlives the runtime")
	}
	await(t, "the end of the ranged subscription and of the one nobody ranged over", func() bool { return subscribers(srv, "q") == ":0" })
}

// TestSubscriptionThatIsNotRangedOverEndsWithItsContext: until then nobody else
// could close it.
func TestSubscriptionThatIsNotRangedOverEndsWithItsContext(t *testing.T) {
	srv := redistest.Start(t)
	rt := start(t, runtime.Config{Redis: redislog.Config{URL: srv.URL()}})
	ctx, cancel := context.WithCancel(bounded(t))
	events, err := rt.Subscribe(ctx, "q")
	if err != nil {
		t.Fatal(err)
	}
	if got := subscribers(srv, "q"); got != ":1" {
		t.Fatalf("%s subscribers", got)
	}
	cancel()
	await(t, "the end of the subscription", func() bool { return subscribers(srv, "q") == ":0" })
	for a, err := range events {
		t.Errorf("it yielded %+v, %v", a, err)
	}
}
