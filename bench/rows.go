package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/streamconsumer"
	"github.com/evtlog/evtlog/archive/volume"
	"github.com/evtlog/evtlog/runtime"
)

// test is one row: what is measured, and against what.
type test struct {
	name, against string
	target        float64
	// limit returns records per second.
	limit func(ctx context.Context, e *env) (float64, error)
	// product does the work and checks that it was done.
	product func(ctx context.Context, e *env) (sample, error)
}

func rows() []test {
	return []test{
		{"append-1", "redis-benchmark XADD, pipeline 1", 0.95, appendLimit(60_000, 1), appendProduct(60_000, 1)},
		{"append-64", "redis-benchmark XADD, pipeline 64", 0.65, appendLimit(600_000, 64), appendProduct(400_000, 64)},
		{"append-1024", "redis-benchmark XADD, pipeline 256", 0.90, appendLimit(800_000, 256), appendProduct(600_000, 1024)},
		{"append-batch", "redis-benchmark XADD, pipeline 256", 0.95, appendLimit(800_000, 256), batchProduct(800_000)},
		{"consume", "redis-benchmark XREADGROUP COUNT 100", 1.2, consumeLimit(600_000), consumeProduct(600_000)},
		{"fold-local", "bare bbolt, 1,000 records a commit", 0.5, foldLimit(400_000), foldProduct(400_000)},
	}
}

const queue = "bench"

func appendLimit(n, pipeline int) func(context.Context, *env) (float64, error) {
	return func(ctx context.Context, e *env) (float64, error) {
		name, err := e.fresh()
		if err != nil {
			return 0, err
		}
		return e.benchmark(ctx, e.scale(n), 1, pipeline, xadd(name)...)
	}
}

// with runs f on a runtime with one stream and checks at the end how many
// records the stream holds.
func with(ctx context.Context, e *env, cfg runtime.Config, records int, f func(rt *runtime.Runtime, log *runtime.Log) error) error {
	cfg.Redis = e.redis()
	rt, err := runtime.Start(ctx, cfg)
	if err != nil {
		return err
	}
	defer rt.Stop(context.WithoutCancel(ctx))
	log, err := rt.Stream(queue, cfg.Streams[0].Name)
	if err != nil {
		return err
	}
	if err := f(rt, log); err != nil {
		return err
	}
	info, err := log.Info(ctx)
	if err != nil {
		return err
	}
	if records > 0 && info.Length != int64(records) {
		return fmt.Errorf("the stream holds %d records after %d appends", info.Length, records)
	}
	return nil
}

func appendProduct(n, callers int) func(context.Context, *env) (sample, error) {
	return func(ctx context.Context, e *env) (s sample, err error) {
		name, err := e.fresh()
		if err != nil {
			return s, err
		}
		each := e.scale(n) / callers
		records := each * callers
		cfg := runtime.Config{Streams: []runtime.Stream{{Queue: queue, Name: name}}}
		err = with(ctx, e, cfg, records, func(_ *runtime.Runtime, log *runtime.Log) error {
			latencies := make([]time.Duration, records)
			s, err = timed(records, func() error {
				return inParallel(callers, func(caller int) error {
					mine := latencies[caller*each : (caller+1)*each]
					for i := range mine {
						start := time.Now()
						if _, err := log.Append(ctx, fields...); err != nil {
							return err
						}
						mine[i] = time.Since(start)
					}
					return nil
				})
			})
			s.latencies = latencies
			return err
		})
		return s, err
	}
}

func inParallel(n int, f func(i int) error) error {
	errs := make(chan error, n)
	for i := range n {
		go func() { errs <- f(i) }()
	}
	var first error
	for range n {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}

func batchProduct(n int) func(context.Context, *env) (sample, error) {
	const size = 256
	return func(ctx context.Context, e *env) (s sample, err error) {
		name, err := e.fresh()
		if err != nil {
			return s, err
		}
		batches := e.scale(n) / size
		batch := make([][]evtlog.Field, size)
		for i := range batch {
			batch[i] = fields
		}
		cfg := runtime.Config{Streams: []runtime.Stream{{Queue: queue, Name: name}}}
		err = with(ctx, e, cfg, batches*size, func(_ *runtime.Runtime, log *runtime.Log) error {
			s, err = timed(batches*size, func() error {
				for range batches {
					if _, err := log.AppendBatch(ctx, batch); err != nil {
						return err
					}
				}
				return nil
			})
			return err
		})
		return s, err
	}
}

// fillPipeline divides every number of records, since redis-benchmark rounds up
// to whole pipelines.
const fillPipeline = 100

// fill appends n records to a fresh stream through redis-benchmark.
func fill(ctx context.Context, e *env, n int) (string, error) {
	name, err := e.fresh()
	if err != nil {
		return "", err
	}
	_, err = e.benchmark(ctx, n, 1, fillPipeline, xadd("emq:{"+queue+"}:stream:"+name)...)
	return name, err
}

func consumeLimit(n int) func(context.Context, *env) (float64, error) {
	return func(ctx context.Context, e *env) (float64, error) {
		records := e.scale(n)
		name, err := fill(ctx, e, records)
		if err != nil {
			return 0, err
		}
		key := "emq:{" + queue + "}:stream:" + name
		if _, err := e.benchmark(ctx, 1, 1, 1, "XGROUP", "CREATE", key, "g", "0"); err != nil {
			return 0, err
		}
		reads, err := e.benchmark(ctx, records/100, 1, 1, "XREADGROUP", "GROUP", "g", "c", "COUNT", "100", "STREAMS", key, ">")
		return reads * 100, err
	}
}

func consumeProduct(n int) func(context.Context, *env) (sample, error) {
	return func(ctx context.Context, e *env) (s sample, err error) {
		records := e.scale(n)
		name, err := fill(ctx, e, records)
		if err != nil {
			return s, err
		}
		var handled atomic.Int64
		all := make(chan struct{})
		done := sync.OnceFunc(func() { close(all) })
		cfg := runtime.Config{
			Redis: e.redis(),
			Consumers: []runtime.Consumer{{
				Queue: queue, Stream: name, Group: "g", Name: "c", Start: streamconsumer.FromHead, Count: 100,
				Handler: func(context.Context, evtlog.Delivery) error {
					if handled.Add(1) == int64(records) {
						done()
					}
					return nil
				},
			}},
		}
		s, err = timed(records, func() error {
			rt, err := runtime.Start(ctx, cfg)
			if err != nil {
				return err
			}
			defer rt.Stop(context.WithoutCancel(ctx))
			select {
			case <-all:
				return rt.Drain(ctx)
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		return s, err
	}
}

func foldLimit(n int) func(context.Context, *env) (float64, error) {
	return func(_ context.Context, e *env) (float64, error) { return bareBolt(e.path("bare.db"), e.scale(n)) }
}

func foldProduct(n int) func(context.Context, *env) (sample, error) {
	return func(ctx context.Context, e *env) (s sample, err error) {
		records := e.scale(n)
		name, err := fill(ctx, e, records)
		if err != nil {
			return s, err
		}
		store, err := volume.Open(e.path(name+".db"), volume.Options{})
		if err != nil {
			return s, err
		}
		defer store.Close()
		s, err = timed(records, func() error { return foldAll(ctx, e, name, store) })
		if err != nil {
			return s, err
		}
		infos, err := store.Volumes(ctx)
		if err != nil {
			return s, err
		}
		if len(infos) != 1 || infos[0].Count != uint64(records) {
			return s, fmt.Errorf("the archive holds %+v after folding %d records", infos, records)
		}
		return s, nil
	}
}

// foldAll runs a stream with the dial at Commit until everything is archived.
func foldAll(ctx context.Context, e *env, name string, store *volume.Store) error {
	cfg := runtime.Config{Streams: []runtime.Stream{{Queue: queue, Name: name, Durability: runtime.Commit, Archive: store}}}
	return with(ctx, e, cfg, 0, func(_ *runtime.Runtime, log *runtime.Log) error {
		return log.Sweep(ctx)
	})
}
