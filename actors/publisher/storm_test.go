package publisher

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// verdicts are what the callers of a storm were told, by key.
type verdicts struct {
	mu   sync.Mutex
	told map[string]told
}

type told struct {
	id  evtid.ID
	err error
}

func (v *verdicts) note(key string, id evtid.ID, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.told == nil {
		v.told = map[string]told{}
	}
	v.told[key] = told{id, err}
}

// Callers that leave at any moment, connections that break before and after the
// server has executed, refusals, and panics of the pump: each caller is told the
// truth about its own record, and no record is there twice. Requests are
// recycled all the while, so an answer to a former life of one would show as the
// id of another record.
func TestStorm(t *testing.T) {
	t.Run("many callers", func(t *testing.T) { storm(t, 32, 400) })
	// Few callers mostly find the pump asleep and send in person.
	t.Run("two callers", func(t *testing.T) { storm(t, 2, 6_000) })
}

func storm(t *testing.T, callers, each int) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var rnd atomic.Uint64
	chance := func(oneIn int) bool {
		r := rand.New(rand.NewPCG(seed, rnd.Add(1)))
		return r.IntN(oneIn) == 0
	}
	f := &fakeStream{}
	f.onFlush = func() (error, bool) {
		if chance(8) {
			runtime.Gosched()
		}
		if chance(20) {
			return errBroken, chance(2)
		}
		return nil, false
	}
	f.refuse = func(evtid.ID) error {
		if chance(50) {
			return &redislog.ServerError{Prefix: "OOM"}
		}
		return nil
	}
	f.slow = func() bool { return chance(10) }
	p := onFake(t, f, Config{MaxBatch: 8, MaxQueuedBytes: 8 << 10, MaxRecordBytes: 1 << 10, OnCommit: func() {
		if chance(100) {
			panic("in the pump")
		}
	}})
	stop := runPump(t, p)
	var v verdicts
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for n := range each {
				key := fmt.Sprintf("%d.%d", c, n)
				ctx, cancel := context.WithCancel(t.Context())
				if chance(3) {
					cancel()
				} else if chance(2) {
					time.AfterFunc(time.Duration(rand.IntN(300))*time.Microsecond, cancel)
				}
				if n%10 == 9 {
					receipts, err := p.AppendBatch(ctx, [][]evtlog.Field{{evtlog.F("k", key+"a")}, {evtlog.F("k", key+"b")}})
					for i, r := range receipts {
						v.note(key+string(rune('a'+i)), r.ID, r.Err)
					}
					if receipts == nil && !errors.Is(err, evtlog.ErrOverloaded) {
						t.Errorf("batch: %v", err)
					}
				} else {
					id, err := p.Append(ctx, evtlog.F("k", key))
					v.note(key, id, err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	v.resolve(t, p)
	stop()
	v.check(t, f.all())
	if s := p.Stats(); s.QueuedBytes != 0 || s.Queued != 0 || s.Unsettled != 0 {
		t.Errorf("room is missing at the end: %+v", s)
	}
}

// resolve replaces what is uncertain by its settlement.
func (v *verdicts) resolve(t *testing.T, p *Publisher) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	counts := map[string]int{}
	for key, told := range v.told {
		var doubt *evtlog.UncertainError
		switch {
		case told.err == nil:
			counts["committed"]++
		case errors.As(told.err, &doubt):
			counts["uncertain"]++
			told.id, told.err = doubt.ID, p.Resolve(ctx, doubt.ID)
			v.told[key] = told
			if errors.As(told.err, &doubt) {
				t.Errorf("%s is still uncertain: %v", key, told.err)
			}
		case errors.Is(told.err, evtlog.ErrOverloaded):
			counts["withdrawn"]++
		default:
			counts["rejected"]++
		}
	}
	t.Logf("%v", counts)
	for _, kind := range []string{"committed", "uncertain", "withdrawn", "rejected"} {
		if counts[kind] == 0 {
			t.Errorf("the storm had no case of %s: it proves nothing about that", kind)
		}
	}
}

func (v *verdicts) check(t *testing.T, records []evtlog.Record) {
	found := map[string]bool{}
	for i, r := range records {
		key := r.Fields[0].Value
		told := v.told[key]
		switch {
		case found[key]:
			t.Errorf("%s is there twice", key)
		case i > 0 && !records[i-1].ID.Less(r.ID):
			t.Errorf("%s follows %s", r.ID, records[i-1].ID)
		case told.err != nil:
			t.Errorf("%s is there; its caller was told %v", key, told.err)
		case told.id != r.ID:
			t.Errorf("%s is there under %s; its caller was told %s", key, r.ID, told.id)
		}
		found[key] = true
	}
	for key, told := range v.told {
		if told.err == nil && !found[key] {
			t.Errorf("%s is not there; its caller was told committed", key)
		}
	}
}

// The heap stays within the stated bound however many callers push against a
// stalled server.
func TestMemoryOverAStalledServer(t *testing.T) {
	const callers, limit, body = 30_000, 4 << 20, 16
	// What the callers take by themselves: a goroutine that waits, and its record.
	// Twice: the first round also makes goroutines, which are kept for the next.
	own := 0
	for range 2 {
		never := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		own = grows(t, callers, func(started *atomic.Int64) {
			record := string(make([]byte, body))
			started.Add(1)
			select {
			case <-never:
			case <-ctx.Done():
			}
			runtime.KeepAlive(record)
		}, cancel, func(started int) bool { return started == callers })
	}

	release := make(chan struct{})
	p := onFake(t, &fakeStream{onFlush: func() (error, bool) { <-release; return nil, false }}, Config{MaxQueuedBytes: limit})
	stop := runPump(t, p)
	room := p.cfg.limits()
	admitted := room.bytes / (body + 1 + RecordOverhead + FieldOverhead)
	var refused atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	grown := grows(t, callers, func(*atomic.Int64) {
		record := string(make([]byte, body))
		_, err := p.Append(ctx, evtlog.F("k", record))
		if errors.As(err, new(*OverloadedError)) {
			refused.Add(1)
			<-ctx.Done()
		}
		runtime.KeepAlive(record)
		if err != nil && !errors.Is(err, evtlog.ErrOverloaded) && !errors.As(err, new(*evtlog.UncertainError)) {
			t.Errorf("append: %v", err)
		}
	}, func() {
		if used := p.Stats().QueuedBytes; used > limit {
			t.Errorf("%d bytes are charged, the limit is %d", used, limit)
		}
		cancel()
		close(release)
	}, func(int) bool { return int(refused.Load()) == callers-admitted-room.callers })
	stop()
	bound := limit + maxFlushBytes
	t.Logf("%d bytes, %d of them the callers' own; bound %d", grown, own, bound)
	if grown-own > bound {
		t.Errorf("the heap grew by %d bytes beside the callers' own, stated are %d", grown-own, bound)
	}
}

// grows returns by how much the heap is larger while n goroutines do work, at the
// moment that ready says so; then it ends them.
func grows(t *testing.T, n int, work func(started *atomic.Int64), end func(), ready func(started int) bool) int {
	var started atomic.Int64
	var wg sync.WaitGroup
	before := heap()
	for range n {
		wg.Go(func() { work(&started) })
	}
	waitFor(t, "all callers wait", func() bool { return ready(int(started.Load())) })
	grown := heap() - before
	end()
	wg.Wait()
	return grown
}

// heap is what is in use after two collections: the first leaves what lies in
// pools.
func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
