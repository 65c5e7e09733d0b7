package runtime

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/actors/supervise/supervisetest"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/redislog"
)

func TestSettingsChanged(t *testing.T) {
	came := func(s string) evtlog.ServerWarning { return evtlog.ServerWarning{Warning: s} }
	went := func(s string) evtlog.ServerWarning { return evtlog.ServerWarning{Warning: s, Cleared: true} }
	for _, c := range []struct {
		what        string
		before, now []string
		want        []evtlog.ServerWarning
	}{
		{what: "all is well"},
		{what: "found at the start", now: []string{"a", "b"}, want: []evtlog.ServerWarning{came("a"), came("b")}},
		{what: "nothing has changed", before: []string{"a", "b"}, now: []string{"b", "a"}},
		{what: "another policy", before: []string{"a", "b"}, now: []string{"b", "c"}, want: []evtlog.ServerWarning{went("a"), came("c")}},
		{what: "corrected", before: []string{"a"}, want: []evtlog.ServerWarning{went("a")}},
	} {
		if got := settingsChanged(c.before, c.now); !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
	}
}

// lookingAt is the component at a fast pace.
func lookingAt(t *testing.T, srv *redistest.Server, observer evtlog.Observer) *settings {
	t.Helper()
	client, err := redislog.Open(t.Context(), redislog.Config{URL: srv.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return &settings{server: client.Server, every: 5 * time.Millisecond, observer: observer, log: slog.New(slog.DiscardHandler)}
}

// The eviction policy is changed while everything runs: it is reported once, and
// once more when it is set right.
func TestEvictionPolicyIsLookedAtAgain(t *testing.T) {
	srv := redistest.Start(t, "--maxmemory", "100mb")
	events := make(chan evtlog.ServerWarning, 100)
	s := lookingAt(t, srv, func(e evtlog.Event) {
		if w, ok := e.(evtlog.ServerWarning); ok && strings.Contains(w.Warning, "maxmemory-policy") {
			events <- w
		}
	})
	looks := make(chan struct{})
	server := s.server
	s.server = func(ctx context.Context) (redislog.ServerInfo, error) {
		select {
		case looks <- struct{}{}:
		case <-ctx.Done():
		}
		return server(ctx)
	}
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx, func() {}) }()
	<-looks
	srv.Do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	for range 5 {
		<-looks
	}
	srv.Do("CONFIG", "SET", "maxmemory-policy", "noeviction")
	for range 5 {
		<-looks
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	close(events)
	var got []evtlog.ServerWarning
	for e := range events {
		got = append(got, e)
	}
	if len(got) != 2 || got[0].Cleared || !got[1].Cleared || got[0].Warning != got[1].Warning || !strings.Contains(got[0].Warning, "allkeys-lru") {
		t.Errorf("reported %+v; want the policy once, and once that it went", got)
	}
}

// A hosted server that lets nobody see its CONFIG still tells its policy.
func TestPolicyWithoutConfig(t *testing.T) {
	srv := redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru", "--rename-command", "CONFIG", "")
	info, err := lookingAt(t, srv, nil).server(t.Context())
	if err != nil || info.MaxMemoryPolicy != "allkeys-lru" || info.MaxMemory != 100<<20 {
		t.Errorf("%+v, %v", info, err)
	}
}

// A look that a stop breaks off is not a server that does not tell.
func TestSettingsAreSilentOnAStop(t *testing.T) {
	var text strings.Builder
	looking := make(chan struct{})
	s := &settings{every: time.Hour, log: slog.New(slog.NewTextHandler(&text, nil)), server: func(ctx context.Context) (redislog.ServerInfo, error) {
		close(looking)
		<-ctx.Done()
		return redislog.ServerInfo{}, &redislog.ConnError{Op: "info", Err: context.Cause(ctx)}
	}}
	ctx, stop := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx, func() {}) }()
	<-looking
	stop(evtlog.ErrStopped)
	if err := <-ended; err != nil || text.Len() > 0 {
		t.Errorf("%v, logged %s", err, &text)
	}
}

func TestSettingsLife(t *testing.T) {
	srv := redistest.Start(t)
	supervisetest.StressRunner(t, func() supervise.Spec { return lookingAt(t, srv, nil).spec() })
}
