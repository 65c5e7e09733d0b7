package integration

import (
	"context"
	"errors"
	"fmt"
	"net"
	goruntime "runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/streamconsumer"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/redislog"
	"github.com/evtlog/evtlog/runtime"
)

// TestPoisonCostsLittle compares the time a member takes for a stream with that
// for one with ten records whose handler always fails. Times are logged; a
// machine that does other things meanwhile must not fail the test, so only a
// member that is slowed down to half is an error.
func TestPoisonCostsLittle(t *testing.T) {
	records := 20_000
	if _, long := soak(t, 0); long {
		records = 100_000
	}
	const poisoned = 10
	srv := redistest.Start(t)
	var best [2]time.Duration
	for round := range 10 {
		poison := round % 2 * poisoned
		took := consumeAll(t, srv, fmt.Sprintf("r%d", round), records, poison)
		if b := &best[round%2]; *b == 0 || took < *b {
			*b = took
		}
	}
	ratio := best[0].Seconds() / best[1].Seconds()
	t.Logf("%d records: %s without failures, %s with %d permanent ones; throughput ratio %.2f", records, best[0], best[1], poisoned, ratio)
	if ratio < 0.5 {
		t.Errorf("ten failing records cost more than half of the throughput: ratio %.2f", ratio)
	}
}

// consumeAll fills a stream and returns how long one member takes from its first
// delivery until all records that can be handled are handled.
func consumeAll(t *testing.T, srv *redistest.Server, stream string, records, poison int) time.Duration {
	t.Helper()
	base := runtime.Config{Redis: redislog.Config{URL: srv.URL()}, Node: 1, Streams: []runtime.Stream{{Queue: queue, Name: stream}}}
	writer, err := runtime.Start(testContext(t), base)
	if err != nil {
		t.Fatal(err)
	}
	log, err := writer.Stream(queue, stream)
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < records; n += 500 {
		batch := make([][]evtlog.Field, 500)
		for i := range batch {
			batch[i] = []evtlog.Field{evtlog.F("v", fmt.Sprint(n+i))}
		}
		if _, err := log.AppendBatch(testContext(t), batch); err != nil {
			t.Fatal(err)
		}
	}
	stop(t, writer)

	var first, last atomic.Int64
	var handled atomic.Int64
	every := records + 1
	if poison > 0 {
		every = records / (poison + 1)
	}
	cfg := runtime.Config{Redis: redislog.Config{URL: srv.URL()}, Node: 2, Consumers: []runtime.Consumer{{
		Queue: queue, Stream: stream, Group: "g", Name: "m", Start: streamconsumer.FromHead,
		// Shorter than the defaults, so that the test ends; still ten attempts each.
		RetryMin: 100 * time.Millisecond, RetryMax: 300 * time.Millisecond, MaxDeliveries: 10,
		Handler: func(_ context.Context, d evtlog.Delivery) error {
			first.CompareAndSwap(0, time.Now().UnixNano())
			v, _ := d.Get("v")
			if n, err := strconv.Atoi(v); err != nil || n%every == every-1 && n/every < poison {
				return errors.New("poison")
			}
			if handled.Add(1) == int64(records-poison) {
				last.Store(time.Now().UnixNano())
			}
			return nil
		},
	}}}
	reader, err := runtime.Start(testContext(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, reader)
	dead := "emq:{q}:stream:" + stream + ".dead"
	eventually(t, 100*time.Second, "all records handled or dead", func() bool {
		return last.Load() != 0 && srv.Do("XLEN", dead) == ":"+strconv.Itoa(poison)
	})
	return time.Duration(last.Load() - first.Load())
}

// TestIdleConsumersCostLittle measures the processor time of a process whose
// fifty consumers have nothing to do. It is logged, and judged only roughly:
// the race detector alone multiplies it.
func TestIdleConsumersCostLittle(t *testing.T) {
	const consumers = 50
	limit, _ := soak(t, 10*time.Second)
	srv := redistest.Start(t)
	_, log := oneStream(t, srv, runtime.Stream{})
	if _, err := log.Append(testContext(t), evtlog.F("v", "0")); err != nil {
		t.Fatal(err)
	}
	cfg := memberConfig{URL: srv.URL(), Name: "m", Node: 2, Idle: limit}
	for i := range consumers {
		cfg.Groups = append(cfg.Groups, fmt.Sprintf("g%d", i))
	}
	used := make(chan []string, 1)
	p := startMember(t, cfg, func(_ *memberProcess, words []string) {
		if words[0] == sayUsed {
			used <- words[1:]
		}
	})
	p.awaitReady()
	select {
	case words := <-used:
		cpu, _ := strconv.ParseFloat(words[0], 64)
		wall, _ := strconv.ParseFloat(words[1], 64)
		share := 100 * cpu / wall
		t.Logf("%d idle consumers: %.2f %% of a core over %s", consumers, share, time.Duration(wall))
		if share > 50 {
			t.Errorf("%.1f %% of a core for %d idle consumers", share, consumers)
		}
	case <-p.ended:
		t.Fatalf("the process ended: %v", p.err)
	case <-time.After(limit + 60*time.Second):
		t.Fatal("no answer")
	}
	p.terminate()
}

// TestOutageCostsLittle takes the server away under a writer, a trimmer,
// consumers and a follower. They dial seldom, keep nothing, are back soon after
// the server is, and tell each change of their state once.
func TestOutageCostsLittle(t *testing.T) {
	const consumers = 10
	down, long := soak(t, 5*time.Second)
	srv := redistest.Start(t, "--appendonly", "yes")
	watch := &stateWatch{}
	dials := &dialCounter{who: map[string]int{}}
	cfg := runtime.Config{
		Redis: redislog.Config{URL: srv.URL(), Dialer: dials.dial}, Node: 1, Observer: watch.observe,
		Streams: []runtime.Stream{{Queue: queue, Name: name, Retention: evtlog.KeepLast(100)}},
	}
	for i := range consumers {
		cfg.Consumers = append(cfg.Consumers, runtime.Consumer{
			Queue: queue, Stream: name, Group: fmt.Sprintf("g%d", i), Name: "m", Start: streamconsumer.FromHead,
			Handler: func(context.Context, evtlog.Delivery) error { return nil },
		})
	}
	rt := start(t, cfg)
	following, cancel := context.WithCancel(context.Background())
	var follower sync.WaitGroup
	follower.Go(func() {
		for range rt.Follow(following, queue, name, evtid.ID{}) {
		}
	})
	defer follower.Wait()
	defer cancel()
	log, err := rt.Stream(queue, name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.Append(testContext(t), evtlog.F("v", "0")); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "a healthy start", func() bool { return rt.Health().OK() })
	components := leaves(rt.Health()) + 1 // the follower
	watch.reset()

	heap, began := heapInUse(), time.Now()
	dials.reset()
	srv.Kill()
	appended := make(chan error, 1)
	go func() { // so that the writer has something to do
		_, err := log.Append(testContext(t), evtlog.F("v", "1"))
		appended <- err
	}()
	<-time.After(down)
	rate := float64(dials.count()) / time.Since(began).Seconds() / float64(components)
	grown := heapInUse() - heap
	t.Logf("down for %s: %.2f dials per second and component (%d components), heap grew by %d KiB; dials by who made them: %s",
		down, rate, components, grown>>10, dials)
	most := 5.0
	if long {
		most = 2 // the pauses have grown by then
	}
	if rate > most {
		t.Errorf("%.2f dials per second and component", rate)
	}
	if grown > 8<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}

	srv.Restart()
	began = time.Now()
	eventually(t, 60*time.Second, "every component to be ready", func() bool { return rt.Health().OK() })
	t.Logf("all ready %s after the server", time.Since(began))
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("back only after %s", took)
	}
	if err := <-appended; err != nil {
		t.Errorf("what was appended during the outage: %v", err)
	}
	watch.check(t)
}

// leaves counts the components that are no branches of the tree.
func leaves(h runtime.Health) (n int) {
	for i, c := range h.Components {
		if i+1 == len(h.Components) || !strings.HasPrefix(h.Components[i+1].Path, c.Path+"/") {
			n++
		}
	}
	return n
}

// dialCounter counts what is dialled.
type dialCounter struct {
	mu  sync.Mutex
	n   int
	who map[string]int
}

func (d *dialCounter) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	who := dialledBy()
	d.mu.Lock()
	d.n++
	d.who[who]++
	d.mu.Unlock()
	return (&net.Dialer{}).DialContext(ctx, network, addr)
}

func (d *dialCounter) reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.n, d.who = 0, map[string]int{}
}

func (d *dialCounter) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return fmt.Sprint(d.who)
}

// dialledBy names the package above redislog that asked for a connection.
func dialledBy() string {
	pc := make([]uintptr, 40)
	frames := goruntime.CallersFrames(pc[:goruntime.Callers(2, pc)])
	for f, more := frames.Next(); more; f, more = frames.Next() {
		if at, ok := strings.CutPrefix(f.Function, "github.com/evtlog/evtlog/"); ok && !strings.HasPrefix(at, "redislog") && !strings.HasPrefix(at, "integration") {
			return at
		}
	}
	return "?"
}

func (d *dialCounter) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.n
}

// stateWatch collects the changes of components' states.
type stateWatch struct {
	mu      sync.Mutex
	changes map[string][]evtlog.State
}

func (w *stateWatch) observe(e evtlog.Event) {
	c, ok := e.(evtlog.StateChanged)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changes == nil {
		w.changes = map[string][]evtlog.State{}
	}
	w.changes[c.Component] = append(w.changes[c.Component], c.State)
}

func (w *stateWatch) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changes = nil
}

// check expects one outage: degraded and ready again, each once.
func (w *stateWatch) check(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for component, states := range w.changes {
		if len(states) != 2 || states[0] != evtlog.Degraded || states[1] != evtlog.Ready {
			t.Errorf("%s went through %v in one outage", component, states)
		}
	}
	if len(w.changes) == 0 {
		t.Error("no component noticed the outage")
	}
}
