package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/redislog"
)

// ErrUnknownStream: the stream is not one of Config.Streams. Declare it there.
var ErrUnknownStream = errors.New("stream was not declared")

// ErrReadOnlyStream: the stream is declared ReadOnly, so this runtime does not
// write it. Nothing was sent. Append in the process that writes it.
var ErrReadOnlyStream = errors.New("stream is declared read-only")

// abortTimeout bounds the clean-up after a start that failed.
const abortTimeout = 10 * time.Second

// Runtime is a running tree of components. All methods are safe for concurrent
// use. After Stop each one that would ask Redis or an archive answers
// evtlog.ErrStopped.
type Runtime struct {
	client    *redislog.Client
	system    *supervise.System
	logs      map[evtlog.StreamName]*Log
	consumers []*member
	life      life
	end       context.CancelFunc
	closeOnce sync.Once
	closeErr  error
}

// Start checks cfg, connects to Redis and starts every component. It returns
// once Redis has answered and each component is ready, or with an error and
// nothing running: a *ConfigError names the field that was refused; otherwise
// the error says which component could not start and why. ctx bounds only the
// start.
func Start(ctx context.Context, cfg Config) (*Runtime, error) {
	p, err := check(cfg)
	if err != nil {
		return nil, err
	}
	if p.Logger == nil {
		p.Logger = slog.New(slog.DiscardHandler)
	}
	if p.Redis.Logger == nil {
		p.Redis.Logger = p.Logger
	}
	p.Observer = logged(p.Logger, cfg.Observer)
	client, err := redislog.Open(ctx, p.Redis)
	if err != nil {
		return nil, fmt.Errorf("runtime: start: %w", checkedRedis(p.Redis, err))
	}
	rt := &Runtime{
		client: client,
		system: supervise.NewSystem(supervise.Config{Policy: p.Supervision, Observer: p.Observer, Logger: p.Logger}),
		logs:   map[evtlog.StreamName]*Log{},
	}
	rt.life.ended, rt.end = context.WithCancel(context.Background())
	if err := rt.build(ctx, p); err != nil {
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
		defer cancel()
		return nil, errors.Join(fmt.Errorf("runtime: start: %w", err), rt.Stop(stopCtx))
	}
	return rt, nil
}

// Stream returns the handle on a declared stream, or ErrUnknownStream.
func (rt *Runtime) Stream(queue, name string) (*Log, error) {
	s := evtlog.StreamName{Queue: queue, Name: name}
	if l, ok := rt.logs[s]; ok {
		return l, nil
	}
	return nil, fmt.Errorf("runtime: %w: %s; add it to Config.Streams", ErrUnknownStream, s)
}

// Cancel cancels the context of a running delivery of the record id to a
// consumer of this runtime, with the given cause: a cooperative cancel, which
// the handler has to obey. It reports whether one was running.
func (rt *Runtime) Cancel(stream evtlog.StreamName, group string, record ID, cause error) bool {
	cancelled := false
	for _, m := range rt.consumers {
		if nameOf(m.plan.key) == stream && m.plan.Group == group && m.actor.Cancel(record, cause) {
			cancelled = true
		}
	}
	return cancelled
}

// Stop stops reading, lets each handler finish the entry in hand, flushes
// acknowledgements and appends that were accepted, ends subscriptions, and closes
// the connections, all within ctx. A ctx that has ended waits for nobody. It may be
// called twice, also concurrently. Components that did not end in time are named in
// the error.
func (rt *Runtime) Stop(ctx context.Context) error {
	err := rt.system.Stop(ctx)
	rt.end()
	rt.closeOnce.Do(func() { rt.closeErr = rt.client.Close() })
	return errors.Join(err, rt.closeErr)
}

// bound returns a context that ends with ctx or when the runtime has stopped.
func (rt *Runtime) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	free := context.AfterFunc(rt.life.ended, cancel)
	return ctx, func() { free(); cancel() }
}
