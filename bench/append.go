package main

import (
	"context"
	"fmt"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/runtime"
)

// Numbers of records of a full run.
const (
	loneAppends   = 60_000
	manyAppends   = 600_000
	limitAppends  = 800_000
	peerAppends   = 120_000
	asynqAppends  = 80_000
	perBatch      = 256
	announcedJob  = "JOB0KHTOWnGLuC"
	announcements = 400_000
)

func appendTests() []test {
	return asTests(
		comparison{
			name: "append-1", against: "redis-benchmark XADD, pipeline 1", target: atLeast(0.95),
			limit: xaddLimit(loneAppends, 1), product: appends(loneAppends, 1),
		},
		comparison{
			name: "append-64", against: "redis-benchmark XADD, pipeline 64", target: atLeast(0.65),
			limit: xaddLimit(limitAppends, 64), product: appends(manyAppends, 64),
		},
		comparison{
			name: "append-1024", against: "redis-benchmark XADD, pipeline 256", target: atLeast(0.90),
			limit: xaddLimit(limitAppends, 256), product: appends(manyAppends, 1024),
		},
		comparison{
			name: "append-batch", against: "redis-benchmark XADD, pipeline 256", target: atLeast(0.95),
			limit: xaddLimit(limitAppends, 256), product: batches(limitAppends),
		},
		comparison{
			name: "append-allocs", unit: "allocations/record", target: atMost(3), of: sample.allocsPerRecord,
			product: appends(manyAppends, 64),
		},
		comparison{
			name: "announce-1024", against: "redis-benchmark XADD and PUBLISH, pipeline 256, harmonic sum", target: atLeast(0.85),
			limit: announceLimit(announcements), product: announces(announcements, 1024),
		},
		comparison{
			name: "append-vs-watermill", against: "watermill-redisstream publish, 64 goroutines", target: atLeast(3),
			limit: peerOn("watermill-publish", peerAppends, 64), product: appends(manyAppends, 64),
		},
		comparison{
			name: "append-vs-jetstream", against: "embedded JetStream, file, 1 replica, 64 goroutines", target: atLeast(2.5),
			limit: peerOn("jetstream-publish", peerAppends, 64), product: appends(manyAppends, 64),
		},
		comparison{
			name: "append-vs-asynq", against: "asynq enqueue, 64 goroutines", informative: true,
			limit: peerOn("asynq-enqueue", asynqAppends, 64), product: appends(manyAppends, 64),
		},
		comparison{
			name: "append-1-vs-redigo", against: "redigo Do, one after the other", informative: true,
			limit: peerOn("redigo-lone", loneAppends, 1), product: appends(loneAppends, 1),
		},
		comparison{
			name: "append-vs-redigo", against: "redigo Send, Flush, Receive, batches of 256", informative: true,
			limit: peerOn("redigo-append", manyAppends, 1), product: appends(manyAppends, 1024),
		},
	)
}

// xaddLimit appends with redis-benchmark.
func xaddLimit(n, pipeline int) measurement {
	return func(ctx context.Context, e *env) (sample, error) {
		name, err := e.fresh(ctx)
		if err != nil {
			return sample{}, err
		}
		return e.benchmark(ctx, e.scale(n), 1, pipeline, xadd(key(name))...)
	}
}

// announceLimit is the rate at which both commands of an announcement can be
// done, one kind after the other.
func announceLimit(n int) measurement {
	return func(ctx context.Context, e *env) (sample, error) {
		adds, err := xaddLimit(n, 256)(ctx, e)
		if err != nil {
			return adds, err
		}
		// What is announced is about as long as the record.
		publishes, err := e.benchmark(ctx, e.scale(n), 1, 256, "PUBLISH", "emq:{"+queue+"}:feed", announcement)
		if err != nil {
			return publishes, err
		}
		per := adds.took.Seconds()/float64(adds.records) + publishes.took.Seconds()/float64(publishes.records)
		return sample{
			records: adds.records, took: seconds(per * float64(adds.records)),
			client: adds.client + publishes.client, server: adds.server + publishes.server,
		}, nil
	}
}

// announcement is the payload that Announce makes of the record.
const announcement = `{"event":"scored","job":"JOB0KHTOWnGLuC","game":"3f1d8c52-6b0e-4f6f-9c55-52a7a1c0a1de",` +
	`"payload":"0123456789012345678901234567890123456789","evt":"EVT0KHTOWnGLuC","prev":"EVT0KHTOWnGLuB"}`

// onStream runs f on a runtime with one fresh stream and checks at the end how
// many records it holds.
func (e *env) onStream(ctx context.Context, f func(log *runtime.Log) (sample, error)) (sample, error) {
	name, err := e.fresh(ctx)
	if err != nil {
		return sample{}, err
	}
	rt, log, err := e.start(ctx, runtime.Config{Streams: []runtime.Stream{{Queue: queue, Name: name}}})
	if err != nil {
		return sample{}, err
	}
	defer e.stop(ctx, rt)
	s, err := f(log)
	if err != nil {
		return s, err
	}
	info, err := log.Info(ctx)
	if err == nil && info.Length != int64(s.records) {
		err = fmt.Errorf("the stream holds %d records after %d were appended", info.Length, s.records)
	}
	return s, err
}

// appends lets callers append, each waiting for its receipt.
func appends(n, callers int) measurement {
	return func(ctx context.Context, e *env) (sample, error) {
		return e.onStream(ctx, func(log *runtime.Log) (sample, error) {
			return e.called(e.scale(n), callers, func() error {
				_, err := log.Append(ctx, fields...)
				return err
			})
		})
	}
}

// batches lets one caller append batches.
func batches(n int) measurement {
	return func(ctx context.Context, e *env) (sample, error) {
		batch := make([][]evtlog.Field, perBatch)
		for i := range batch {
			batch[i] = fields
		}
		return e.onStream(ctx, func(log *runtime.Log) (sample, error) {
			rounds := e.scale(n) / perBatch
			latencies := make([]time.Duration, rounds)
			s, err := e.timed(rounds*perBatch, func() error {
				for i := range latencies {
					start := time.Now()
					if _, err := log.AppendBatch(ctx, batch); err != nil {
						return err
					}
					latencies[i] = time.Since(start)
				}
				return nil
			})
			return s.withLatencies(latencies), err
		})
	}
}

// announces lets callers announce. It is done when all is published, which no
// caller waits for; that is soon after the last receipt.
func announces(n, callers int) measurement {
	return func(ctx context.Context, e *env) (sample, error) {
		return e.onStream(ctx, func(log *runtime.Log) (sample, error) {
			start := time.Now()
			s, err := e.called(e.scale(n), callers, func() error {
				_, err := log.Announce(ctx, "scored", announcedJob, fields[1:]...)
				return err
			})
			if err != nil {
				return s, err
			}
			called := time.Since(start)
			err = until(ctx, "everything is published", func() (bool, error) {
				return log.Stats().Announced >= uint64(s.records), nil
			})
			s.took += time.Since(start) - called
			return s, err
		})
	}
}
