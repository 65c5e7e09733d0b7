package publisher_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/alicebob/miniredis/v2"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/publisher"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/redislog"
)

func Example() {
	// A stand-in for Redis, so that the example runs anywhere.
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	defer server.Close()

	ctx := context.Background()
	client, err := redislog.Open(ctx, redislog.Config{URL: "redis://" + server.Addr()})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	stream, err := keyspace.NewStream("cm", "feed")
	if err != nil {
		panic(err)
	}

	p, err := publisher.New(publisher.Config{Stream: stream, Node: 7}, client.Log(stream), nil)
	if err != nil {
		panic(err)
	}
	system := supervise.NewSystem(supervise.Config{})
	if _, err := system.Branch(ctx, "stream/cm/feed", p.Spec()); err != nil {
		panic(err)
	}

	first, err := p.Append(ctx, evtlog.F("event", "opened"))
	fmt.Println("node", first.Node(), "error", err)

	second, err := p.Announce(ctx, "scored", "JOB0KHTOWnGLuC", evtlog.F("pct", "83"))
	fmt.Println("in order:", first.Less(second), "error", err)

	receipts, err := p.AppendBatch(ctx, [][]evtlog.Field{{evtlog.F("n", "1")}, {evtlog.F("n", "2")}})
	fmt.Println(len(receipts), "receipts, error", err)

	_, err = p.Append(ctx, evtlog.F("id", "mine"))
	fmt.Println("reserved name:", errors.Is(err, evtlog.ErrBadField))

	if err := system.Stop(ctx); err != nil {
		panic(err)
	}
	_, err = p.Append(ctx, evtlog.F("n", "3"))
	fmt.Println("after the stop:", errors.Is(err, evtlog.ErrStopped))
	// Output:
	// node 7 error <nil>
	// in order: true error <nil>
	// 2 receipts, error <nil>
	// reserved name: true
	// after the stop: true
}

func ExamplePublisher_Append_uncertain() {
	var p *publisher.Publisher // as in the package example
	save := func(ctx context.Context) error {
		id, err := p.Append(ctx, evtlog.F("event", "scored"))
		var doubt *evtlog.UncertainError
		if errors.As(err, &doubt) {
			// Not again: ask what became of it, with more time.
			return p.Resolve(context.WithoutCancel(ctx), doubt.ID)
		}
		_ = id
		return err
	}
	_ = save
}
