package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/evtid"
)

var feed = evtlog.StreamName{Queue: "cm", Name: "feed"}

func TestJudge(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: errors.New("refused")}
	for _, c := range []struct {
		err  error
		want move
	}{
		{&api.NotLeaderError{LeaderID: "a", LeaderAddress: "h:1,h:2"}, follow},
		{&api.NotLeaderError{}, tryNext},
		{fmt.Errorf("x: %w", api.ErrNotReady), tryNext},
		{connect.NewError(connect.CodeUnavailable, dial), tryNext},
		{&archive.ConflictError{}, giveUp},
		{&api.TooLargeError{}, giveUp},
		{fmt.Errorf("x: %w", api.ErrDenied), giveUp},
		{&api.ForeignClusterError{}, giveUp},
		{connect.NewError(connect.CodeResourceExhausted, errors.New("message too large")), giveUp},
		{&api.UncertainError{Err: errors.New("x")}, unknown},
		{&net.OpError{Op: "read", Err: errors.New("reset")}, unknown},
		{context.DeadlineExceeded, unknown},
		{connect.NewError(connect.CodeInternal, errors.New("x")), unknown},
	} {
		if got, _ := judge(c.err, true); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
		// Without a connection nothing was sent.
		want := c.want
		if want == unknown {
			want = tryNext
		}
		if got, _ := judge(c.err, false); got != want {
			t.Errorf("%v, not connected: %d, want %d", c.err, got, want)
		}
	}
}

func TestSettle(t *testing.T) {
	conflict, denied, lost := error(&archive.ConflictError{}), fmt.Errorf("x: %w", api.ErrDenied), errors.New("lost")
	for _, c := range []struct {
		name         string
		err          error
		doubt, final bool
		want         error
	}{
		{"refused at once", denied, false, true, api.ErrDenied},
		{"decided after a doubt", conflict, true, true, archive.ErrConflict},
		{"refused after a doubt, which that does not settle", denied, true, true, api.ErrUncertain},
		{"time is up after a doubt", lost, true, false, api.ErrUncertain},
		{"time is up without one", lost, false, false, api.ErrNoLeader},
	} {
		if got := settle(feed, evtid.ID{}, evtid.Max, c.err, c.doubt, c.final); !errors.Is(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestPause(t *testing.T) {
	lo, hi := 20*time.Millisecond, 500*time.Millisecond
	for n, want := range map[int]time.Duration{0: lo, 1: 2 * lo, 3: 8 * lo, 60: hi} {
		if least, most := pause(n, lo, hi, 0), pause(n, lo, hi, 1); least != want/2 || most != want {
			t.Errorf("pause %d is %s to %s, want half of %s to all of it", n, least, most, want)
		}
	}
}

func TestResume(t *testing.T) {
	r := archive.Range{After: evtid.ID{}.Next(), To: evtid.Max}
	if got := resume(r, evtid.ID{}); got != r {
		t.Errorf("nothing read: %+v", got)
	}
	at := evtid.Max.Prev()
	if got := resume(r, at); got.After != at || got.To != r.To {
		t.Errorf("forward: %+v", got)
	}
	r.Reverse = true
	if got := resume(r, at); got.To != at.Prev() || got.After != r.After {
		t.Errorf("reverse: %+v", got)
	}
	if !nothingLeft(archive.Range{After: at, To: at}, at) || nothingLeft(archive.Range{After: at, To: evtid.Max}, at) {
		t.Error("nothingLeft is wrong")
	}
}

func TestConfig(t *testing.T) {
	for _, cfg := range []Config{{}, {Addresses: []string{"x"}}, {Addresses: []string{"h:1"}, RetryMin: time.Second, RetryMax: time.Millisecond}} {
		if _, err := New(cfg); !errors.Is(err, api.ErrBadRequest) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

func TestNobodyThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{Addresses: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, err := c.Fold(ctx, feed, evtid.ID{}, []evtlog.Record{{ID: evtid.Max}}); !errors.Is(err, api.ErrNoLeader) || errors.Is(err, api.ErrUncertain) {
		t.Errorf("fold: %v", err)
	}
	if _, err := c.Watermark(ctx, feed); !errors.Is(err, api.ErrNoLeader) {
		t.Errorf("watermark: %v", err)
	}
}
