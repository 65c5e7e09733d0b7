package runtime_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/alicebob/miniredis/v2"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/streamconsumer"
	"github.com/evtlog/evtlog/archive/archivetest"
	"github.com/evtlog/evtlog/redislog"
	"github.com/evtlog/evtlog/runtime"
)

func Example() {
	server := miniredis.NewMiniRedis() // stands in for a Redis server here
	if err := server.Start(); err != nil {
		panic(err)
	}
	defer server.Close()

	ctx := context.Background()
	handled := make(chan evtlog.Delivery, 1)
	rt, err := runtime.Start(ctx, runtime.Config{
		Redis:   redislog.Config{URL: "redis://" + server.Addr()},
		Node:    7,
		Streams: []runtime.Stream{{Queue: "cm", Name: "feed"}},
		Consumers: []runtime.Consumer{{
			Queue: "cm", Stream: "feed", Group: "notify", Name: "notify-1", Start: streamconsumer.FromHead,
			Handler: func(_ context.Context, d evtlog.Delivery) error {
				handled <- d
				return nil
			},
		}},
	})
	if err != nil {
		panic(err)
	}
	defer rt.Stop(ctx)

	feed, err := rt.Stream("cm", "feed")
	if err != nil {
		panic(err)
	}
	id, err := feed.Append(ctx, evtlog.F("event", "scored"), evtlog.F("pct", "83"))
	if err != nil {
		panic(err)
	}
	d := <-handled
	fmt.Println(d.ID == id, d.Group, d.Attempts, d.Fields)
	for rec, err := range feed.Read(ctx, evtlog.Window{}) {
		fmt.Println(rec.ID == id, rec.Source, err)
	}
	// Output:
	// true notify 1 [{event scored} {pct 83}]
	// true live <nil>
}

// A console, or any process that only looks: it declares the stream ReadOnly, with
// the archive that the writer folds into.
func ExampleStream_readOnly() {
	server := miniredis.NewMiniRedis() // stands in for a Redis server here
	if err := server.Start(); err != nil {
		panic(err)
	}
	defer server.Close()
	ctx, store := context.Background(), archivetest.NewMemory()
	begin := func(s runtime.Stream) (*runtime.Runtime, *runtime.Log) {
		s.Queue, s.Name, s.Archive = "cm", "feed", store
		rt, err := runtime.Start(ctx, runtime.Config{
			Redis: redislog.Config{URL: "redis://" + server.Addr()}, Streams: []runtime.Stream{s},
		})
		if err != nil {
			panic(err)
		}
		log, err := rt.Stream("cm", "feed")
		if err != nil {
			panic(err)
		}
		return rt, log
	}
	writer, feed := begin(runtime.Stream{Durability: runtime.Commit})
	defer writer.Stop(ctx)
	if _, err := feed.Append(ctx, evtlog.F("event", "scored")); err != nil {
		panic(err)
	}

	console, view := begin(runtime.Stream{ReadOnly: true})
	defer console.Stop(ctx)
	for u, err := range console.Follow(ctx, "cm", "feed", runtime.ID{}) {
		if err != nil || u.CaughtUp {
			break
		}
		fmt.Println(u.Fields)
	}
	_, err := view.Append(ctx, evtlog.F("event", "forged"))
	fmt.Println(errors.Is(err, runtime.ErrReadOnlyStream))
	// Output:
	// [{event scored}]
	// true
}

func ExampleConfigError() {
	_, err := runtime.Start(context.Background(), runtime.Config{
		Streams: []runtime.Stream{{Queue: "cm", Name: "feed", Durability: runtime.Commit}},
	})
	fmt.Println(err)
	// Output:
	// runtime: Streams[0].Archive = "nil" refused: Streams[0].Durability folds, so it needs an archive to fold into
}
