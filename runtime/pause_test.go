package runtime_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/streamconsumer"
	"github.com/evtlog/evtlog/archive/archivetest"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/redislog"
	"github.com/evtlog/evtlog/runtime"
)

// seeking moves a group to its end and calls a function once, while its members
// rest for that.
func seeking(t *testing.T, meanwhile func(rt *runtime.Runtime)) *runtime.Runtime {
	t.Helper()
	srv, arch, _ := wroteAndStopped(t, 3)
	var l ledger
	rt := consumes(t, srv, arch, &l, 3)
	var called atomic.Bool
	arch.SetHook(func(_ context.Context, step archivetest.Step) error {
		if step == archivetest.BeforeWatermark && called.CompareAndSwap(false, true) {
			meanwhile(rt)
		}
		return nil
	})
	if _, err := rt.Seek(bounded(t), sq, "g", runtime.FromInstant(time.Now()), false); err != nil {
		t.Fatal(err)
	}
	return rt
}

// The end of a seek does not end the pause that somebody asked for meanwhile.
func TestPauseDuringASeekOutlivesIt(t *testing.T) {
	rt := seeking(t, func(rt *runtime.Runtime) {
		if err := rt.Pause(bounded(t), sq, "g"); err != nil {
			t.Error(err)
		}
	})
	if s := rt.Consumers()[0]; !s.Paused {
		t.Error("the seek has ended the pause")
	}
	if err := rt.Resume(sq, "g"); err != nil {
		t.Fatal(err)
	}
	await(t, "it goes on", func() bool { return rt.Health().OK() })
}

// A resume does not wake the members of a group that is being moved, and neither
// does the end of another seek.
func TestNobodyResumesTheMembersDuringASeek(t *testing.T) {
	rt := seeking(t, func(rt *runtime.Runtime) {
		if err := rt.Resume(sq, "g"); err != nil {
			t.Error(err)
		}
		if s := rt.Consumers()[0]; !s.Paused {
			t.Error("a resume has ended the rest")
		}
		if _, err := rt.Seek(bounded(t), sq, "g", runtime.FromInstant(time.Now()), false); err != nil {
			t.Error(err)
		}
		if s := rt.Consumers()[0]; !s.Paused {
			t.Error("another seek has ended the rest")
		}
	})
	await(t, "it goes on", func() bool { return rt.Health().OK() && !rt.Consumers()[0].Paused })
}

// atWork starts a runtime with a member whose handler runs until the test ends.
func atWork(t *testing.T) *runtime.Runtime {
	t.Helper()
	running, release := make(chan struct{}), make(chan struct{})
	rt := start(t, runtime.Config{
		Redis: redislog.Config{URL: redistest.Start(t).URL()}, Streams: []runtime.Stream{{Queue: "q", Name: "s"}},
		Consumers: []runtime.Consumer{{
			Queue: "q", Stream: "s", Group: "g", Name: "m", Start: streamconsumer.FromHead,
			Handler: func(context.Context, evtlog.Delivery) error {
				close(running)
				<-release
				return nil
			},
		}},
	})
	t.Cleanup(func() { close(release) })
	log, err := rt.Stream("q", "s")
	if err != nil {
		t.Fatal(err)
	}
	appendN(t, log, 1)
	<-running
	return rt
}

// A pause that is called off before the members were at rest does not wait for
// ever.
func TestPauseThatIsCalledOff(t *testing.T) {
	rt := atWork(t)
	paused := make(chan error, 1)
	go func() { paused <- rt.Pause(bounded(t), sq, "g") }()
	for {
		if err := rt.Resume(sq, "g"); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-paused:
			if !errors.Is(err, runtime.ErrResumed) {
				t.Errorf("it was called off: %v", err)
			}
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// An instant that is no position is refused before any member is paused for it.
func TestSeekToNoPosition(t *testing.T) {
	rt := atWork(t)
	ctx, cancel := context.WithTimeout(bounded(t), time.Second)
	defer cancel()
	if _, err := rt.Seek(ctx, sq, "g", runtime.FromInstant(time.Unix(-1, 0)), false); !errors.Is(err, evtid.ErrBeforeUnixEpoch) {
		t.Errorf("before 1970: %v", err)
	}
}
