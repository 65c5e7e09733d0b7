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
	rt, err := runtime.Start(ctx, runtime.Config{Redis: e.redisConfig(), Streams: []runtime.Stream{{Queue: queue, Name: name}}})
	if err != nil {
		return err
	}
	defer rt.Stop(context.WithoutCancel(ctx))
	log, err := rt.Stream(queue, name)
	if err != nil {
		return err
	}
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
