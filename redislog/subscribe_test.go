package redislog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/internal/faultproxy"
	"github.com/evtlog/evtlog/internal/redistest"
)

func subscribe(t *testing.T, c *Client) *Subscription {
	t.Helper()
	s, err := c.Subscribe(t.Context(), "cm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestPublishAndReceive(t *testing.T) {
	_, l := realLog(t)
	c := l.c
	if n, err := c.Publish(t.Context(), "cm", []byte("nobody")); err != nil || n != 0 {
		t.Fatalf("%d, %v", n, err)
	}
	s := subscribe(t, c)
	w := writerOf(t, l)
	const n = 500
	for i := range n {
		w.Publish(fmt.Appendf(nil, "{\"n\":%d}\r\n\x00", i))
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	for range n {
		if got, err := w.ReceiveInt(); err != nil || got != 1 {
			t.Fatalf("%d receivers, %v", got, err)
		}
	}
	if got, err := c.Publish(t.Context(), "cm", nil); err != nil || got != 1 {
		t.Fatalf("%d, %v", got, err)
	}
	if _, err := c.Publish(t.Context(), "other", []byte("elsewhere")); err != nil {
		t.Fatal(err)
	}
	var first []byte
	for i := range n {
		got, err := s.Receive(t.Context())
		if err != nil || string(got) != fmt.Sprintf("{\"n\":%d}\r\n\x00", i) {
			t.Fatalf("%d: %q, %v", i, got, err)
		}
		if i == 0 {
			first = got
		}
	}
	if got, err := s.Receive(t.Context()); err != nil || len(got) != 0 {
		t.Fatalf("%q, %v", got, err)
	}
	if string(first) != "{\"n\":0}\r\n\x00" {
		t.Fatalf("a payload changed to %q", first)
	}
	_, errPublish := c.Publish(t.Context(), "a b", nil)
	_, errSubscribe := c.Subscribe(t.Context(), "")
	if Classify(errPublish) != Caller || Classify(errSubscribe) != Caller {
		t.Fatalf("bad names: %v, %v", errPublish, errSubscribe)
	}
}

// TestReceiveSurvivesItsContext: a receive that is given up loses nothing.
func TestReceiveSurvivesItsContext(t *testing.T) {
	_, l := realLog(t)
	s := subscribe(t, l.c)
	for i := range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Millisecond)
		if _, err := s.Receive(ctx); !errors.Is(err, context.DeadlineExceeded) || isConnError(err) {
			t.Fatalf("got %v", err)
		}
		cancel()
		if _, err := l.c.Publish(t.Context(), "cm", []byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Receive(t.Context()); err != nil || len(got) != 1 || got[0] != byte(i) {
			t.Fatalf("%v, %v", got, err)
		}
	}
}

// TestReceivePings: silence is no failure, a peer that is gone is one, within
// two pings.
func TestReceivePings(t *testing.T) {
	srv := redistest.Start(t)
	proxy := faultproxy.Start(t, srv.Addr)
	c := openAt(t, Config{URL: proxy.URL()})
	s := subscribe(t, c)
	s.every = 150 * time.Millisecond
	if _, err := s.Receive(within(t, 700*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a silent channel: %v", err)
	}
	proxy.Silence(true)
	began := time.Now()
	_, err := s.Receive(t.Context())
	if took := time.Since(began); !isConnError(err) || took > 20*s.every || took < s.every {
		t.Fatalf("a silent peer: %v after %s", err, took)
	}
	again := time.Now()
	if _, err2 := s.Receive(t.Context()); !errors.Is(err2, err) || time.Since(again) > time.Second {
		t.Fatalf("after it: %v", err2)
	}
}

// TestReceiveAfterALongPause: a receiver that was busy elsewhere has not lost its
// connection.
func TestReceiveAfterALongPause(t *testing.T) {
	_, l := realLog(t)
	s := subscribe(t, l.c)
	s.every = 100 * time.Millisecond
	if _, err := s.Receive(within(t, 120*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	<-time.After(250 * time.Millisecond)
	if _, err := l.c.Publish(t.Context(), "cm", []byte("x")); err != nil {
		t.Fatal(err)
	}
	s.every = time.Second
	if got, err := s.Receive(t.Context()); err != nil || string(got) != "x" {
		t.Fatalf("%q, %v", got, err)
	}
}

func TestSubscriptionEnds(t *testing.T) {
	srv, l := realLog(t)
	s := subscribe(t, l.c)
	later(t, 20*time.Millisecond, func() { srv.Do("CLIENT", "KILL", "TYPE", "pubsub") })
	if _, err := s.Receive(t.Context()); !isConnError(err) {
		t.Fatalf("killed: %v", err)
	}
	s = subscribe(t, l.c)
	later(t, 20*time.Millisecond, func() { _ = s.Close() })
	if _, err := s.Receive(t.Context()); !isConnError(err) || !errors.Is(err, net.ErrClosed) {
		t.Fatalf("closed: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestSubscribeRefused(t *testing.T) {
	srv, _ := realLog(t)
	srv.Do("ACL", "SETUSER", "app", "on", ">pw", "~*", "resetchannels", "+@all")
	c := openAt(t, Config{URL: "redis://app:pw@" + srv.Addr})
	if _, err := c.Subscribe(t.Context(), "cm"); !errors.Is(err, evtlog.ErrDenied) {
		t.Fatalf("got %v", err)
	}
	for name, answer := range map[string]string{"status": "+OK\r\n", "other": "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n", "junk": "?\r\n", "silent": ""} {
		addr := fakeServer(t, admitting("7.0.15", func([]string) string { return answer }))
		c := openAt(t, Config{URL: "redis://" + addr})
		if _, err := c.Subscribe(within(t, 200*time.Millisecond), "cm"); !isConnError(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReceiveNonsense(t *testing.T) {
	confirm := "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"
	for name, more := range map[string]string{"number": ":1\r\n", "short": "*1\r\n$1\r\nx\r\n", "junk": "?\r\n"} {
		addr := fakeServer(t, admitting("7.0.15", func([]string) string { return confirm + more }))
		s := subscribe(t, openAt(t, Config{URL: "redis://" + addr}))
		if _, err := s.Receive(t.Context()); !isConnError(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
