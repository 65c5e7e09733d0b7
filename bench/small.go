package main

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/publisher"
	"github.com/evtlog/evtlog/actors/streamconsumer"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/runtime"
)

// What a full run does.
const (
	mintedIDs      = 2_000_000
	idleConsumers  = 50
	idleFor        = 10 * time.Second
	stalledCallers = 1_000_000
)

func smallTests() []test {
	nanoseconds := func(s sample) float64 { return float64(s.took) / float64(s.records) }
	return append(asTests(
		comparison{
			name: "ids", against: "oklog/ulid, monotonic, as string", unit: "ns/id", target: atMost(0.7),
			of: nanoseconds, limit: ulids, product: mints,
		},
		comparison{
			name: "ids-allocs", unit: "allocations/id", target: atMost(0), product: mints,
			of: func(s sample) float64 { return float64(s.allocs / uint64(s.records)) },
		},
	),
		test{names: []string{"idle"}, run: idleTest},
		test{names: []string{"memory"}, run: memoryTest},
	)
}

func ulids(ctx context.Context, e *env) (sample, error) {
	return e.peer(ctx, "ulid", "", mintedIDs, 1)
}

// mints mints ids and writes each in both forms. The clock is read for each, as
// the peer does.
func mints(_ context.Context, e *env) (sample, error) {
	m, err := evtid.NewMinter(evtid.MinterConfig{
		Node: 1, Now: func() int64 { return time.Now().UnixMilli() },
		// Ids are made here faster than the millisecond allows for long.
		MaxSkew: time.Hour,
	})
	if err != nil {
		return sample{}, err
	}
	buf := make([]byte, 0, 64)
	return e.timed(mintedIDs, func() error {
		for range mintedIDs {
			id, err := m.Mint()
			if err != nil {
				return err
			}
			buf = id.AppendEntry(id.AppendTo(buf[:0]))
		}
		return nil
	})
}

// idleTest measures what consumers cost for whom there is nothing to do.
func idleTest(ctx context.Context, e *env) ([]Row, error) {
	name, err := e.fresh(ctx)
	if err != nil {
		return nil, err
	}
	cfg := runtime.Config{Streams: []runtime.Stream{{Queue: queue, Name: name}}}
	for i := range idleConsumers {
		cfg.Consumers = append(cfg.Consumers, runtime.Consumer{
			Queue: queue, Stream: name, Group: "g" + strconv.Itoa(i), Name: "c", Start: streamconsumer.FromHead,
			Handler: func(context.Context, evtlog.Delivery) error { return nil },
		})
	}
	rt, _, err := e.start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer e.stop(ctx, rt)
	d := idleFor
	if e.quick {
		d = 2 * time.Second
	}
	if err := pause(ctx, time.Second); err != nil {
		return nil, err
	}
	s, err := e.timed(1, func() error { return pause(ctx, d) })
	if err != nil {
		return nil, err
	}
	row := Row{
		Name: "idle", Unit: "% of a core", Product: 100 * s.client.Seconds() / s.took.Seconds(),
		Note: fmt.Sprintf("%d consumers, %s, defaults; the redis-server used %.2f %%", idleConsumers, d, 100*s.server.Seconds()/s.took.Seconds()),
	}
	return []Row{row.judge(row.Product, atMost(2))}, nil
}

// memoryTest lets a multitude append while Redis does not answer. What is
// measured is all that the runtime holds for them: records, and callers that wait
// for room. Callers for whom there is not even room to wait are refused, and stay
// until the end so that their goroutines are the same before and after.
func memoryTest(ctx context.Context, e *env) ([]Row, error) {
	name, err := e.fresh(ctx)
	if err != nil {
		return nil, err
	}
	rt, log, err := e.start(ctx, runtime.Config{Streams: []runtime.Stream{{Queue: queue, Name: name}}})
	if err != nil {
		return nil, err
	}
	callers := e.pick(stalledCallers, 100_000)
	if err := e.redis.Process.Signal(syscall.SIGSTOP); err != nil {
		return nil, errors.Join(err, rt.Stop(ctx))
	}
	growth, refused, stats, err := e.stall(ctx, log, callers)
	err = errors.Join(err, e.redis.Process.Signal(syscall.SIGCONT), rt.Stop(context.WithoutCancel(ctx)))
	if err != nil {
		return nil, err
	}
	row := Row{
		Name: "memory", Against: "the stated bound, MaxQueuedBytes", Unit: "bytes of heap", Product: growth, Limit: publisher.DefaultMaxQueuedBytes,
		Note: fmt.Sprintf("%d callers, each a goroutine whose stack is not counted; %d records queued, charged %d bytes; %d callers wait for room, %d were refused", callers, stats.Queued, stats.QueuedBytes, stats.Waiting, refused),
	}
	return []Row{row.judge(ratio(row.Product, row.Limit), atMost(1))}, nil
}

// stall lets callers append and returns by how much the heap has grown when all
// of them wait or were refused, and how many were. The callers end with it.
func (e *env) stall(ctx context.Context, log *runtime.Log, callers int) (float64, int64, publisher.Stats, error) {
	ctx, cancel := context.WithCancel(ctx)
	gate := make(chan struct{})
	var begun, refused atomic.Int64
	var done sync.WaitGroup
	for range callers {
		done.Go(func() {
			<-gate
			begun.Add(1)
			if _, err := log.Append(ctx, fields...); errors.As(err, new(*publisher.OverloadedError)) {
				refused.Add(1)
				<-ctx.Done()
			}
		})
	}
	before := heap()
	close(gate)
	var settled int64
	err := until(ctx, "all callers wait", func() (bool, error) {
		if begun.Load() < int64(callers) {
			return false, pause(ctx, 10*time.Millisecond)
		}
		last, s := settled, log.Stats()
		settled = int64(s.QueuedBytes) + int64(s.Waiting) + refused.Load()
		return settled == last && s.QueuedBytes > 0, pause(ctx, 200*time.Millisecond)
	})
	growth, stats := heap()-before, log.Stats()
	cancel()
	done.Wait()
	return growth, refused.Load(), stats, err
}

// heap is what is in use after two collections: the first leaves what lies in
// pools.
func heap() float64 {
	var m goruntime.MemStats
	goruntime.GC()
	goruntime.GC()
	goruntime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
