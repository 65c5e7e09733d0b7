package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/streamconsumer"
	"github.com/evtlog/evtlog/redislog"
	"github.com/evtlog/evtlog/runtime"
)

// memberVerb as first argument makes this program a member; the queue and the
// member's name follow.
const memberVerb = "member"

const (
	streamName = "work"
	groupName  = "workers"

	// batch is how many entries a member reads at once.
	batch = 10
	// handling is how long the handler takes.
	handling = 5 * time.Millisecond
	// minIdle is how long a silent member keeps its entries.
	minIdle = time.Second
	// attempts is how often an entry is tried before it is given up.
	attempts = 5

	// fieldKind says what is special about a record: no handler can handle poison,
	// and the member whose name follows hangs hangs at its first try. A kill at
	// that moment finds a batch half done.
	fieldKind = "kind"
	poison    = "poison"
	hangs     = "hangs "
)

// What a member tells its parent, one line each, on standard output. An entry's
// line goes on with the count of its deliveries and its id.
const (
	sayReady     = "ready"
	sayTaken     = "taken"
	sayHandled   = "handled"
	sayDrained   = "drained"
	sayReclaimed = "reclaimed"
)

// nodes are the numbers that the members write dead letters under; the parent,
// which writes the stream, is 1.
var nodes = map[string]int{"ada": 2, "bob": 3}

// urlVariable names the server to a member. A URL may hold a password, and the
// arguments of a process can be read by everyone on the machine.
const urlVariable = "EVTLOG_REDIS_URL"

// runMember is the body of a member process.
func runMember(ctx context.Context, queue, name string, out io.Writer) error {
	var mu sync.Mutex
	say := func(what string, more ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(out, append([]any{what}, more...)...)
	}
	rt, err := runtime.Start(ctx, runtime.Config{
		Redis: redisConfig(os.Getenv(urlVariable)), Node: nodes[name],
		Consumers: []runtime.Consumer{{
			Queue: queue, Stream: streamName, Group: groupName, Name: name,
			Start: streamconsumer.FromHead, Count: batch, Block: 200 * time.Millisecond, MinIdle: minIdle,
			MaxDeliveries: attempts, RetryMin: 20 * time.Millisecond, RetryMax: 100 * time.Millisecond,
			Handler: func(ctx context.Context, d evtlog.Delivery) error {
				say(sayTaken, d.Attempts, d.ID)
				if err := handle(ctx, name, d); err != nil {
					return err
				}
				say(sayHandled, d.Attempts, d.ID)
				return nil
			},
		}},
		Observer: func(e evtlog.Event) {
			switch e := e.(type) {
			case evtlog.Drained:
				say(sayDrained, e.Entries)
			case evtlog.Reclaimed:
				say(sayReclaimed, e.Entries)
			}
		},
	})
	if err != nil {
		return err
	}
	say(sayReady)
	<-ctx.Done()
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	return rt.Stop(stopCtx)
}

// handle is the work.
func handle(ctx context.Context, name string, d evtlog.Delivery) error {
	kind, _ := d.Get(fieldKind)
	if kind == poison {
		return errors.New("this record is poison")
	}
	pause := handling
	if kind == hangs+name && d.Attempts == 1 {
		pause = time.Hour
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(pause):
		return nil
	}
}

func redisConfig(url string) redislog.Config {
	return redislog.Config{URL: url, ClientName: "evtlog-peldrain"}
}
