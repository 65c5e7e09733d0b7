package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/streamconsumer"
	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/redislog"
	"github.com/evtlog/evtlog/runtime"
)

// Numbers of records of a full run.
const (
	consumed       = 800_000
	peerConsumed   = 60_000
	streamConsumed = 200_000
	asynqProcessed = 20_000
	loneEntries    = 4_000
)

func consumeTests() []test {
	return asTests(
		comparison{
			name: "consume", against: "redis-benchmark XREADGROUP COUNT 100", target: atLeast(1.2),
			limit: readGroupLimit(consumed), product: consumes(consumed, 1),
		},
		comparison{
			name: "consume-vs-watermill", against: "watermill-redisstream, one subscriber", target: atLeast(10),
			limit: peerOn("watermill-consume", peerConsumed, 1), product: consumes(consumed, 1),
		},
		comparison{
			name: "consume-vs-jetstream", against: "embedded JetStream, Fetch(1000), each acknowledged", target: atLeast(1.8),
			limit: peerOn("jetstream-consume", streamConsumed, 1), product: consumes(consumed, 1),
		},
		comparison{
			name: "consume-vs-asynq", against: "asynq, 10 workers", informative: true,
			limit: peerOn("asynq-process", asynqProcessed, 10), product: consumes(consumed, 1),
		},
		comparison{
			name: "consume-vs-redigo", against: "redigo XREADGROUP COUNT 100, XACK riding with the next read", informative: true,
			limit: peerOn("redigo-consume", consumed, 1), product: consumes(consumed, 1),
		},
		comparison{
			name: "consume-allocs", unit: "allocations/record", target: atMost(8), of: sample.allocsPerRecord,
			product: consumes(consumed, 1),
		},
		comparison{
			name: "end-to-end", against: "redigo XADD, then a blocked XREADGROUP", unit: "µs (p50)", target: atMost(1.3),
			of: sample.median, limit: peerOn("redigo-endtoend", loneEntries, 1), product: endToEnd(loneEntries),
		},
	)
}

// readGroupLimit reads with redis-benchmark, which acknowledges nothing.
func readGroupLimit(n int) measurement {
	return func(ctx context.Context, e *env) (sample, error) {
		name, err := e.fill(ctx, e.scale(n))
		if err != nil {
			return sample{}, err
		}
		if _, err := e.cli(ctx, "XGROUP", "CREATE", key(name), "g", "0"); err != nil {
			return sample{}, err
		}
		const count = 100
		s, err := e.benchmark(ctx, e.scale(n)/count, 1, 1,
			"XREADGROUP", "GROUP", "g", "c", "COUNT", strconv.Itoa(count), "STREAMS", key(name), ">")
		s.records *= count
		// A latency of a read is not one of a record.
		s.p50, s.p99 = 0, 0
		return s, err
	}
}

// consumes has members of one group consume a stream that is there already. It
// counts from the start of the runtime until everything is acknowledged.
func consumes(n, members int) measurement {
	return func(ctx context.Context, e *env) (sample, error) {
		records := e.scale(n)
		name, err := e.fill(ctx, records)
		if err != nil {
			return sample{}, err
		}
		cfg := runtime.Config{Redis: e.redisConfig()}
		for i := range members {
			cfg.Consumers = append(cfg.Consumers, runtime.Consumer{
				Queue: queue, Stream: name, Group: "g", Name: "c" + strconv.Itoa(i), Start: streamconsumer.FromHead, Count: 100,
				Handler: func(context.Context, evtlog.Delivery) error { return nil },
			})
		}
		var rt *runtime.Runtime
		s, err := e.timed(records, func() (err error) {
			if rt, err = runtime.Start(ctx, cfg); err != nil {
				return err
			}
			return until(ctx, "everything is acknowledged", func() (bool, error) {
				var acked int64
				for _, c := range rt.Consumers() {
					acked += c.Acked
				}
				return acked >= int64(records), nil
			})
		})
		if rt != nil {
			err = errors.Join(err, rt.Stop(context.WithoutCancel(ctx)))
		}
		if err != nil {
			return s, err
		}
		return s, e.nothingPending(ctx, name, records)
	}
}

// nothingPending checks that the group has had everything and has nothing
// pending.
func (e *env) nothingPending(ctx context.Context, stream string, records int) error {
	client, err := redislog.Open(ctx, e.redisConfig())
	if err != nil {
		return err
	}
	defer client.Close()
	k, err := keyspace.NewStream(queue, stream)
	if err != nil {
		return err
	}
	groups, err := client.Log(k).Groups(ctx)
	if err != nil {
		return err
	}
	if len(groups) != 1 || groups[0].Pending != 0 || groups[0].EntriesRead != int64(records) {
		return fmt.Errorf("after %d records the groups are %+v", records, groups)
	}
	return nil
}

// lonePause lies between two lone entries, so that the reader is parked again.
const lonePause = time.Millisecond

// endToEnd measures from the append of a lone entry to the call of the handler.
func endToEnd(n int) measurement {
	return func(ctx context.Context, e *env) (sample, error) {
		name, err := e.fresh(ctx)
		if err != nil {
			return sample{}, err
		}
		handled := make(chan time.Time, 1)
		rt, log, err := e.start(ctx, runtime.Config{
			Streams: []runtime.Stream{{Queue: queue, Name: name}},
			Consumers: []runtime.Consumer{{
				Queue: queue, Stream: name, Group: "g", Name: "c", Start: streamconsumer.FromHead,
				Handler: func(context.Context, evtlog.Delivery) error {
					handled <- time.Now()
					return nil
				},
			}},
		})
		if err != nil {
			return sample{}, err
		}
		defer e.stop(ctx, rt)
		latencies := make([]time.Duration, e.scale(n))
		s, err := e.timed(len(latencies), func() error {
			for i := range latencies {
				time.Sleep(lonePause)
				start := time.Now()
				if _, err := log.Append(ctx, fields...); err != nil {
					return err
				}
				select {
				case at := <-handled:
					latencies[i] = at.Sub(start)
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		})
		return s.withLatencies(latencies), err
	}
}
