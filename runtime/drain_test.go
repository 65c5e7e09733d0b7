package runtime_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/streamconsumer"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/redislog"
	"github.com/evtlog/evtlog/runtime"
)

// watched is a connection that calls a function before it sends a command which
// contains some bytes.
type watched struct {
	net.Conn
	words []byte
	first func()
}

func (w watched) Write(b []byte) (int, error) {
	if bytes.Contains(b, w.words) {
		w.first()
	}
	return w.Conn.Write(b)
}

// A handler that is at work while its own group is not looked at yet appends to a
// stream that was looked at already: the drain waits for that record, too.
func TestDrainLooksAgainAtWhatItHasSeen(t *testing.T) {
	srv := redistest.Start(t)
	writer := start(t, runtime.Config{
		Redis: redislog.Config{URL: srv.URL()}, Streams: []runtime.Stream{{Queue: "q", Name: "s"}, {Queue: "q", Name: "made"}},
	})
	work, err := writer.Stream("q", "s")
	if err != nil {
		t.Fatal(err)
	}
	made, err := writer.Stream("q", "made")
	if err != nil {
		t.Fatal(err)
	}
	running, release, accept := make(chan struct{}), make(chan struct{}), make(chan struct{})
	live := liveLog(t, srv)
	// The group of q/s is asked for: its handler ends now, and its work is done.
	finish := sync.OnceFunc(func() {
		close(release)
		await(t, "q/s is done", func() bool { done, err := runtime.CaughtUp(bounded(t), live, "work"); return done && err == nil })
	})
	armed := false
	var mu sync.Mutex
	rt := start(t, runtime.Config{
		Redis: redislog.Config{URL: srv.URL(), Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			return watched{conn, []byte("GROUPS\r\n$16\r\nemq:{q}:stream:s\r\n"), func() {
				mu.Lock()
				defer mu.Unlock()
				if armed {
					finish()
				}
			}}, err
		}},
		Node: 1,
		Consumers: []runtime.Consumer{{
			Queue: "q", Stream: "made", Group: "made", Name: "m", Start: streamconsumer.FromHead,
			Handler: func(ctx context.Context, _ evtlog.Delivery) error {
				select {
				case <-accept:
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			},
		}, {
			Queue: "q", Stream: "s", Group: "work", Name: "m", Start: streamconsumer.FromHead,
			Handler: func(ctx context.Context, d evtlog.Delivery) error {
				close(running)
				<-release
				_, err := made.Append(ctx, evtlog.F("work", d.ID.String()))
				return err
			},
		}},
	})
	if _, err := work.Append(bounded(t)); err != nil {
		t.Fatal(err)
	}
	<-running
	mu.Lock()
	armed = true
	mu.Unlock()
	impatient, cancel := context.WithTimeout(bounded(t), time.Second)
	defer cancel()
	if err := rt.Drain(impatient); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("drained (%v) while a record of q/made is being handled", err)
	}
	close(accept)
	if err := rt.Drain(bounded(t)); err != nil {
		t.Error(err)
	}
}
