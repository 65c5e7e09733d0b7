package streamconsumer_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/streamconsumer"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/redislog"
)

// A member of the group "notify" handles what is appended to the stream.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	server, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := redislog.Open(ctx, redislog.Config{URL: "redis://" + server.Addr()})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	stream, err := keyspace.NewStream("cm", "feed")
	if err != nil {
		log.Fatal(err)
	}

	handled := make(chan struct{})
	consumer, err := streamconsumer.New(streamconsumer.Config{
		Stream: stream,
		Group:  "notify",
		Name:   "notify-1",
		Start:  streamconsumer.FromHead,
		Handler: func(ctx context.Context, d evtlog.Delivery) error {
			game, _ := d.Get("game")
			fmt.Printf("%s: game %s, attempt %d\n", d.Stream, game, d.Attempts)
			close(handled)
			return nil
		},
	}, client.Log(stream), nil, appendTo(client.Log(stream.Dead())))
	if err != nil {
		log.Fatal(err)
	}
	system := supervise.NewSystem(supervise.Config{})
	if _, err := system.Branch(ctx, "consumer/cm/feed/notify", consumer.Spec()); err != nil {
		log.Fatal(err)
	}

	if _, err := appendTo(client.Log(stream))(ctx, evtlog.F("event", "scored"), evtlog.F("game", "g7")); err != nil {
		log.Fatal(err)
	}
	<-handled
	if err := system.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("acknowledged:", consumer.Stats().Acked)
	// Output:
	// cm/feed: game g7, attempt 1
	// acknowledged: 1
}

// appendTo stands for the publisher of a stream.
func appendTo(l *redislog.Log) func(context.Context, ...evtlog.Field) (evtid.ID, error) {
	return func(ctx context.Context, fields ...evtlog.Field) (evtid.ID, error) {
		minter, err := evtid.NewMinter(evtid.MinterConfig{})
		if err != nil {
			return evtid.ID{}, err
		}
		id, err := minter.Mint()
		if err != nil {
			return id, err
		}
		writer, err := l.NewWriter(ctx)
		if err != nil {
			return id, err
		}
		defer writer.Close()
		writer.Append(id, fields)
		if err := writer.Flush(); err != nil {
			return id, err
		}
		return id, writer.ReceiveAppend(id)
	}
}

// A handler that works for long listens to its context.
func ExampleErrNotOwner() {
	handler := func(ctx context.Context, d evtlog.Delivery) error {
		for range 100 {
			if ctx.Err() != nil {
				// streamconsumer.ErrNotOwner, evtlog.ErrStopped, or what the program
				// gave to Cancel.
				return context.Cause(ctx)
			}
			// one step of the work
		}
		return nil
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(streamconsumer.ErrNotOwner)
	fmt.Println(handler(ctx, evtlog.Delivery{}))
	// Output: the entry belongs to another member
}
