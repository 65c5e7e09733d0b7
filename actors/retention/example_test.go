package retention_test

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/retention"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/redislog"
)

// log returns a stream of so many records, one a minute from noon on, in a
// stand-in for Redis.
func log(ctx context.Context, records int) (keyspace.Stream, *redislog.Log, func()) {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	client, err := redislog.Open(ctx, redislog.Config{URL: "redis://" + server.Addr()})
	if err != nil {
		panic(err)
	}
	feed, err := keyspace.NewStream("cm", "feed")
	if err != nil {
		panic(err)
	}
	for n := range records {
		id, err := evtid.Make(noon.Add(time.Duration(n)*time.Minute).UnixMilli(), 1, 0)
		if err != nil {
			panic(err)
		}
		if _, err := server.XAdd(feed.Key(), id.Entry(), []string{"id", id.String(), "event", "scored"}); err != nil {
			panic(err)
		}
	}
	return feed, client.Log(feed), func() {
		_ = client.Close()
		server.Close()
	}
}

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// Keep the newest records, to the record.
func ExampleRetention_Trim() {
	ctx := context.Background()
	feed, stream, stop := log(ctx, 60)
	defer stop()

	keep := retention.KeepLast(10)
	keep.Exact = true
	r, err := retention.New(retention.Config{Stream: feed, Keep: keep}, stream)
	if err != nil {
		panic(err)
	}
	result, err := r.Trim(ctx)
	fmt.Println(result.Removed, "removed through", result.Through.Time().Format(time.TimeOnly), err)
	// Output: 50 removed through 12:49:00 <nil>
}

// Keep what was minted since an instant. By default less than 100 records that
// are due stay.
func ExampleKeepSince() {
	ctx := context.Background()
	feed, stream, stop := log(ctx, 300)
	defer stop()

	r, err := retention.New(retention.Config{Stream: feed, Keep: retention.KeepSince(noon.Add(2 * time.Hour))}, stream)
	if err != nil {
		panic(err)
	}
	result, err := r.Trim(ctx)
	fmt.Println(result.Removed, "removed through", result.Through.Time().Format(time.TimeOnly), err)
	// Output: 120 removed through 13:59:00 <nil>
}

// Keep what was minted in the last hour.
func ExampleKeepFor() {
	ctx := context.Background()
	feed, stream, stop := log(ctx, 300)
	defer stop()

	r, err := retention.New(retention.Config{
		Stream: feed,
		Keep:   retention.KeepFor(time.Hour),
		Now:    func() time.Time { return noon.Add(5 * time.Hour) },
	}, stream)
	if err != nil {
		panic(err)
	}
	result, err := r.Trim(ctx)
	fmt.Println(result.Removed, "removed through", result.Through.Time().Format(time.TimeOnly), err)
	// Output: 240 removed through 15:59:00 <nil>
}

// As a component, a retention trims at once and then on each tick.
func ExampleRetention_Spec() {
	ctx := context.Background()
	feed, stream, stop := log(ctx, 300)
	defer stop()

	trimmed := make(chan evtlog.Trimmed, 1)
	r, err := retention.New(retention.Config{
		Stream: feed,
		Keep:   retention.KeepLast(200),
		Observer: func(e evtlog.Event) {
			if t, ok := e.(evtlog.Trimmed); ok {
				trimmed <- t
			}
		},
	}, stream)
	if err != nil {
		panic(err)
	}
	system := supervise.NewSystem(supervise.Config{})
	if _, err := system.Branch(ctx, "stream/cm/feed", r.Spec()); err != nil {
		panic(err)
	}
	t := <-trimmed
	fmt.Println(t.Stream, t.Removed)
	fmt.Println(system.Stop(ctx))
	// Output:
	// cm/feed 100
	// <nil>
}
