package redistest

import (
	"strings"
	"testing"
)

func TestServer(t *testing.T) {
	a, b := Start(t), Start(t, "--appendonly", "yes", "--appendfsync", "always")
	if a.Addr == b.Addr || a.Dir == b.Dir {
		t.Fatalf("%+v and %+v share something", a, b)
	}
	if got := b.Do("SET", "k", "a\r\nb"); got != "+OK" {
		t.Fatalf("SET: %q", got)
	}
	if got := a.Do("GET", "k"); got != "$-1" {
		t.Fatalf("the other server has the key: %q", got)
	}
	b.Kill()
	b.Kill()
	b.Restart()
	if got := b.Do("GET", "k"); got != "a\r\nb" {
		t.Fatalf("after a kill: %q", got)
	}
	b.Pause()
	b.Resume()
	if got := b.Do("PING"); got != "+PONG" {
		t.Fatalf("after a pause: %q", got)
	}
	b.Stop()
	b.Restart()
	if got := b.Do("EXISTS", "k"); got != ":1" {
		t.Fatalf("after a stop: %q", got)
	}
	if !strings.HasPrefix(a.URL(), "redis://127.0.0.1:") {
		t.Fatalf("URL %q", a.URL())
	}
}

// TestTakenPort: the server that already has the port is not taken for the new
// one.
func TestTakenPort(t *testing.T) {
	a := Start(t)
	b := &Server{Dir: t.TempDir(), t: t, Addr: a.Addr}
	b.args = append([]string{}, a.args...)
	for i, arg := range b.args {
		b.args[i] = strings.ReplaceAll(arg, a.Dir, b.Dir)
	}
	if err := b.run(); err == nil || !strings.Contains(err.Error(), "ended") {
		t.Fatalf("got %v", err)
	}
}
