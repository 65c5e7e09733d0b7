package streamconsumer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// faults decides which commands fail, before or after the server has done them.
type faults struct {
	mu   sync.Mutex
	rnd  *rand.Rand
	rate float64
}

func (f *faults) set(rate float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rate = rate
}

// around runs a command, or pretends to.
func (f *faults) around(do func() error) error {
	f.mu.Lock()
	x := f.rnd.Float64()
	rate := f.rate
	f.mu.Unlock()
	broken := &redislog.ConnError{Op: "test", Addr: "test", Err: errors.New("cut by the test")}
	switch {
	case x < rate/2:
		return broken
	case x < rate:
		_ = do()
		return broken
	}
	return do()
}

// option makes the ports of a member fail.
func (f *faults) option(_ *Config, p *ports) {
	p.log = &flakyLog{p.log, f}
	dial := p.dial
	p.dial = func(ctx context.Context, name string) (reader groupReader, err error) {
		dialed := false
		err = f.around(func() error { reader, err = dial(ctx, name); dialed = err == nil; return err })
		if err != nil {
			if dialed {
				_ = reader.Close()
			}
			return nil, err
		}
		return &flakyReader{reader, f}, nil
	}
}

type flakyReader struct {
	groupReader
	f *faults
}

// do fails like a connection does: for good.
func (r *flakyReader) do(op func() error) error {
	err := r.f.around(op)
	if err != nil {
		_ = r.groupReader.Close()
	}
	return err
}

func (r *flakyReader) ReadNew(count int, block time.Duration) (e []redislog.Entry, err error) {
	err = r.do(func() error { e, err = r.groupReader.ReadNew(count, block); return err })
	return e, err
}

func (r *flakyReader) ReadAhead(count int) error {
	return r.do(func() error { return r.groupReader.ReadAhead(count) })
}

func (r *flakyReader) AwaitAhead() error { return r.do(r.groupReader.AwaitAhead) }

func (r *flakyReader) TakeAhead() (e []redislog.Entry, err error) {
	err = r.do(func() error { e, err = r.groupReader.TakeAhead(); return err })
	return e, err
}

func (r *flakyReader) ReadPending(after evtid.ID, count int) (e []redislog.Entry, err error) {
	err = r.do(func() error { e, err = r.groupReader.ReadPending(after, count); return err })
	return e, err
}

func (r *flakyReader) FlushAcks() error { return r.do(r.groupReader.FlushAcks) }

type flakyLog struct {
	groupLog
	f *faults
}

func (l *flakyLog) CreateGroup(ctx context.Context, group string, at redislog.StartAt) (created bool, err error) {
	err = l.f.around(func() error { created, err = l.groupLog.CreateGroup(ctx, group, at); return err })
	return created, err
}

func (l *flakyLog) Pending(ctx context.Context, group string, after evtid.ID, n int, consumer string, minIdle time.Duration) (p []redislog.PendingEntry, err error) {
	err = l.f.around(func() error { p, err = l.groupLog.Pending(ctx, group, after, n, consumer, minIdle); return err })
	return p, err
}

func (l *flakyLog) ClaimIdle(ctx context.Context, group, member string, minIdle time.Duration, cursor string, count int) (step redislog.Idle, err error) {
	err = l.f.around(func() error { step, err = l.groupLog.ClaimIdle(ctx, group, member, minIdle, cursor, count); return err })
	return step, err
}

func (l *flakyLog) TakeTrimmed(ctx context.Context, group, self string, r redislog.SkippedRange, minIdle time.Duration, keep func(evtid.ID) bool) (taken, held []redislog.PendingEntry, err error) {
	err = l.f.around(func() error {
		taken, held, err = l.groupLog.TakeTrimmed(ctx, group, self, r, minIdle, keep)
		return err
	})
	return taken, held, err
}

func (l *flakyLog) SplitSkipped(ctx context.Context, group string, r redislog.SkippedRange, ids []evtid.ID) error {
	return l.f.around(func() error { return l.groupLog.SplitSkipped(ctx, group, r, ids) })
}

func (l *flakyLog) SettleSkipped(ctx context.Context, group string, ids []evtid.ID) error {
	return l.f.around(func() error { return l.groupLog.SettleSkipped(ctx, group, ids) })
}

func (l *flakyLog) Renew(ctx context.Context, group, consumer string, ids []evtid.ID, hold time.Duration) (still []evtid.ID, err error) {
	err = l.f.around(func() error { still, err = l.groupLog.Renew(ctx, group, consumer, ids, hold); return err })
	return still, err
}

func (l *flakyLog) SkippedRanges(ctx context.Context, group string) (rs []redislog.SkippedRange, err error) {
	err = l.f.around(func() error { rs, err = l.groupLog.SkippedRanges(ctx, group); return err })
	return rs, err
}

func (l *flakyLog) AddSkipped(ctx context.Context, group string, ranges ...redislog.SkippedRange) error {
	return l.f.around(func() error { return l.groupLog.AddSkipped(ctx, group, ranges...) })
}

func (l *flakyLog) ShrinkSkipped(ctx context.Context, group string, r redislog.SkippedRange, done evtid.ID) error {
	return l.f.around(func() error { return l.groupLog.ShrinkSkipped(ctx, group, r, done) })
}

func (l *flakyLog) RemoveSkipped(ctx context.Context, group string, r redislog.SkippedRange) error {
	return l.f.around(func() error { return l.groupLog.RemoveSkipped(ctx, group, r) })
}

func (l *flakyLog) AcquireLease(ctx context.Context, what, owner string, ttl time.Duration) (ok bool, err error) {
	err = l.f.around(func() error { ok, err = l.groupLog.AcquireLease(ctx, what, owner, ttl); return err })
	return ok, err
}

func (l *flakyLog) ReleaseLease(ctx context.Context, what, owner string) error {
	return l.f.around(func() error { return l.groupLog.ReleaseLease(ctx, what, owner) })
}

// poison appends a record that no handler takes.
func (w *world) poison() evtid.ID {
	id, err := w.minter.Mint()
	if err != nil {
		w.t.Fatal(err)
	}
	w.put(w.log, id, evtlog.F("n", "poison"))
	return id
}

// Three members, a fold with a trim every few records, handlers that fail, two
// records that never work, members that stop and start, and one command in
// twelve that fails, half of these after the server has done it: in the end
// every record was handled or is dead, and nothing is left.
func TestNothingIsLostUnderFaults(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	f := &faults{rnd: rand.New(rand.NewPCG(seed, 2)), rate: 0.08}
	w := newWorld(t)
	if _, err := w.log.CreateGroup(t.Context(), testGroup, redislog.Head()); err != nil {
		t.Fatal(err)
	}
	var (
		handlers sync.Mutex
		moody    = rand.New(rand.NewPCG(seed, 3))
		done     = map[evtid.ID]bool{}
	)
	handler := func(_ context.Context, d evtlog.Delivery) error {
		handlers.Lock()
		defer handlers.Unlock()
		if n, _ := d.Get("n"); n == "poison" || moody.IntN(20) == 0 {
			return errors.New("not this time")
		}
		done[d.ID] = true
		return nil
	}
	a := newMemory()
	start := func(name string) *member {
		return w.start(name, handler, withArchive(a), with(func(c *Config) {
			c.Count, c.MaxDeliveries, c.MinIdle = 8, 30, 300*time.Millisecond
		}), f.option)
	}
	members := make([]*member, 3)
	for i := range members {
		members[i] = start(fmt.Sprint("m", i))
	}
	var ids, poison []evtid.ID
	var folded evtid.ID
	for range 40 {
		ids = append(ids, w.append(1+rnd.IntN(12))...)
		if len(poison) < 2 && len(ids) > 100 {
			poison = append(poison, w.poison())
			ids = append(ids, poison[len(poison)-1])
		}
		if through := ids[len(ids)/2+rnd.IntN(len(ids)/3+1)]; folded.Less(through) && rnd.IntN(3) == 0 {
			w.fold(a, through)
			folded = through
		}
		if rnd.IntN(6) == 0 {
			i := rnd.IntN(len(members))
			members[i].halt()
			members[i] = start(members[i].cfg.Name)
		}
		<-time.After(time.Duration(rnd.IntN(40)) * time.Millisecond)
	}
	f.set(0)
	until(t, "all is settled", func() bool { return w.settledAt(ids[len(ids)-1]) })
	dead := map[string]bool{}
	for _, letter := range w.records(w.deadLog()) {
		origin, _ := letter.Get(FieldOrigin)
		dead[origin] = true
	}
	handlers.Lock()
	defer handlers.Unlock()
	for i, id := range ids {
		if !done[id] && !dead[id.String()] {
			t.Errorf("record %d (%s) was neither handled nor dead lettered", i, id)
		}
	}
	for _, id := range poison {
		if !dead[id.String()] {
			t.Errorf("record %s cannot be handled and is not dead", id)
		}
	}
	for _, m := range members {
		if lost := eventsOf[evtlog.Lost](m.events); len(lost) > 0 {
			t.Errorf("%s reported losses: %v", m.cfg.Name, lost)
		}
	}
}
