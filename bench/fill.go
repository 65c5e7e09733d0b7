package main

import (
	"context"
	"fmt"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/runtime"
)

// fill appends n records to a fresh stream. Limits and peers that read find the
// same entries as the product, made by its own writer.
func (e *env) fill(ctx context.Context, n int) (string, error) {
	name, err := e.fresh(ctx)
	if err != nil {
		return "", err
	}
	return name, e.fillStream(ctx, name, n)
}

func (e *env) fillStream(ctx context.Context, name string, n int) error {
	rt, log, err := e.start(ctx, runtime.Config{Streams: []runtime.Stream{{Queue: queue, Name: name}}})
	if err != nil {
		return err
	}
	defer e.stop(ctx, rt)
	batch := make([][]evtlog.Field, 10*perBatch)
	for i := range batch {
		batch[i] = fields
	}
	for left := n; left > 0; {
		size := min(left, len(batch))
		if _, err := log.AppendBatch(ctx, batch[:size]); err != nil {
			return fmt.Errorf("fill a stream: %w", err)
		}
		left -= size
	}
	return nil
}

// start starts a runtime on the server and returns it with its first stream.
func (e *env) start(ctx context.Context, cfg runtime.Config) (*runtime.Runtime, *runtime.Log, error) {
	cfg.Redis = e.redisConfig()
	rt, err := runtime.Start(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	log, err := rt.Stream(queue, cfg.Streams[0].Name)
	if err != nil {
		e.stop(ctx, rt)
		return nil, nil, err
	}
	return rt, log, nil
}

// stop ends a runtime behind a measurement. What goes wrong then is told, but
// does not undo what was measured.
func (e *env) stop(ctx context.Context, rt *runtime.Runtime) {
	if err := rt.Stop(context.WithoutCancel(ctx)); err != nil {
		fmt.Fprintln(e.progress, "stop:", err)
	}
}
