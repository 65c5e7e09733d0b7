package main

import (
	"context"
	"sync/atomic"

	"github.com/hibiken/asynq"
)

// quiet discards what asynq logs.
type quiet struct{}

func (quiet) Debug(...any) {}
func (quiet) Info(...any)  {}
func (quiet) Warn(...any)  {}
func (quiet) Error(...any) {}
func (quiet) Fatal(...any) {}

// asynqEnqueue enqueues tasks from many goroutines, each waiting for its answer.
func asynqEnqueue(_ context.Context, j job) (Result, error) {
	client := asynq.NewClient(asynq.RedisClientOpt{Addr: j.redis, PoolSize: max(10, j.callers)})
	defer client.Close()
	return called(j.records, j.callers, func() error {
		_, err := client.Enqueue(asynq.NewTask("scored", payload))
		return err
	})
}

// asynqProcess lets workers process what was enqueued.
func asynqProcess(ctx context.Context, j job) (Result, error) {
	fill := j
	fill.callers = 64
	filled, err := asynqEnqueue(ctx, fill)
	if err != nil {
		return Result{}, err
	}
	return timed(filled.Records, nil, func() error {
		var handled atomic.Int64
		all := make(chan struct{})
		server := asynq.NewServer(asynq.RedisClientOpt{Addr: j.redis, PoolSize: 2 * j.callers}, asynq.Config{
			Concurrency: j.callers, Logger: quiet{}, LogLevel: asynq.FatalLevel,
		})
		handler := asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
			if handled.Add(1) == int64(filled.Records) {
				close(all)
			}
			return nil
		})
		if err := server.Start(handler); err != nil {
			return err
		}
		<-all
		server.Shutdown()
		return nil
	})
}
