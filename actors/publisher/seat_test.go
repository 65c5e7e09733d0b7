package publisher

import (
	"context"
	"errors"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// asleep waits until the pump lets callers have the seat.
func asleep(t *testing.T, p *Publisher) {
	t.Helper()
	waitFor(t, "the pump sleeps", func() bool {
		p.inbox.mu.Lock()
		defer p.inbox.mu.Unlock()
		return p.inbox.parked && p.inbox.vacant
	})
}

// sentInPerson reports whether the flush at hand is one of a caller.
func sentInPerson() bool { return strings.Contains(string(debug.Stack()), "(*pump).alone") }

// An append that comes alone is sent by its caller. Whatever happens then, the
// caller is told what it would have been told otherwise, and the next one too.
func TestSeat(t *testing.T) {
	oom := &redislog.ServerError{Prefix: "OOM", Message: "OOM no room"}
	for name, c := range map[string]struct {
		rig    func(*fakeStream)
		commit func()
		want   error
	}{
		"accepted":               {rig: func(*fakeStream) {}},
		"the answer takes time":  {rig: func(f *fakeStream) { f.slow = func() bool { return true } }},
		"refused":                {rig: func(f *fakeStream) { f.refuse = onceErr(oom) }, want: oom},
		"lost before the server": {rig: func(f *fakeStream) { f.onFlush = onceBroken(false) }},
		"lost after the server":  {rig: func(f *fakeStream) { f.onFlush = onceBroken(true) }},
		"a panic":                {rig: func(*fakeStream) {}, commit: panicsOnce()},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeStream{}
			var inPerson atomic.Int64
			p := onFake(t, f, Config{OnCommit: c.commit})
			runPump(t, p)
			asleep(t, p)
			c.rig(f)
			onFlush := f.onFlush
			f.onFlush = func() (error, bool) {
				if sentInPerson() {
					inPerson.Add(1)
				}
				if onFlush == nil {
					return nil, false
				}
				return onFlush()
			}
			if _, err := p.Append(t.Context(), evtlog.F("n", "1")); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if n := inPerson.Load(); n != 1 {
				t.Errorf("%d flushes were sent by the caller, want 1", n)
			}
			if _, err := p.Append(t.Context(), evtlog.F("n", "2")); err != nil {
				t.Error(err)
			}
			want := 2
			if c.want != nil {
				want = 1
			}
			if got := f.all(); len(got) != want || got[want-1].Fields[0].Value != "2" {
				t.Errorf("the stream holds %v", got)
			}
		})
	}
}

func panicsOnce() func() {
	var done atomic.Bool
	return func() {
		if !done.Swap(true) {
			panic("in the hook")
		}
	}
}

func onceErr(err error) func(evtid.ID) error {
	var done bool
	return func(evtid.ID) error {
		if done {
			return nil
		}
		done = true
		return err
	}
}

func onceBroken(after bool) func() (error, bool) {
	var done atomic.Bool
	return func() (error, bool) {
		if done.Swap(true) {
			return nil, false
		}
		return errBroken, after
	}
}

// Who comes while the seat is taken waits for its turn behind the one who sits.
func TestSeatIsForOne(t *testing.T) {
	sitting, release := make(chan struct{}), make(chan struct{})
	var flushes atomic.Int64
	f := &fakeStream{onFlush: func() (error, bool) {
		if flushes.Add(1) == 1 {
			close(sitting)
			<-release
		}
		return nil, false
	}}
	p := onFake(t, f, Config{})
	runPump(t, p)
	asleep(t, p)
	var wg sync.WaitGroup
	for _, n := range []string{"first", "second", "third"} {
		wg.Go(func() {
			if _, err := p.Append(t.Context(), evtlog.F("n", n)); err != nil {
				t.Errorf("%s: %v", n, err)
			}
		})
		if n == "first" {
			<-sitting
			continue
		}
		waitFor(t, "it is queued", func() bool { queued, _ := p.inbox.depth(); return queued == map[string]int{"second": 1, "third": 2}[n] })
	}
	close(release)
	wg.Wait()
	for i, r := range f.all() {
		if want := []string{"first", "second", "third"}[i]; r.Fields[0].Value != want {
			t.Errorf("record %d is %s, want %s", i, r.Fields[0].Value, want)
		}
	}
	if n := flushes.Load(); n != 2 {
		t.Errorf("%d flushes, want 2: those who waited go together", n)
	}
}

// A stop waits for the one who sits.
func TestSeatAndStop(t *testing.T) {
	sitting, release := make(chan struct{}), make(chan struct{})
	f := &fakeStream{onFlush: func() (error, bool) { close(sitting); <-release; return nil, false }}
	p := onFake(t, f, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.pump.run(ctx, func() {}) }()
	asleep(t, p)
	told := make(chan error, 1)
	go func() { _, err := p.Append(t.Context(), evtlog.F("n", "1")); told <- err }()
	<-sitting
	cancel()
	waitFor(t, "the queue is closed", func() bool {
		p.inbox.mu.Lock()
		defer p.inbox.mu.Unlock()
		return p.inbox.closed != nil
	})
	if _, err := p.Append(t.Context(), evtlog.F("n", "2")); !errors.Is(err, evtlog.ErrStopped) {
		t.Errorf("the next one is told %v", err)
	}
	close(release)
	if err := <-told; err != nil {
		t.Errorf("the one who sat was told %v", err)
	}
	if err := <-ended; !errors.Is(err, evtlog.ErrStopped) {
		t.Errorf("the stop says %v", err)
	}
	if n := len(f.all()); n != 1 {
		t.Errorf("%d records", n)
	}
}

func TestSeatable(t *testing.T) {
	small, large := []evtlog.Field{evtlog.F("k", "v")}, []evtlog.Field{evtlog.F("k", strings.Repeat("v", seatBytes))}
	many := make([]evtlog.Field, seatBytes/FieldOverhead+1)
	if !seatable(news{}, small) || seatable(news{announce: true}, small) || seatable(news{}, large) || seatable(news{}, many) {
		t.Error("only small plain records are sent from the seat")
	}
}
