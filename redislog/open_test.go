package redislog

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/keyspace"
)

func TestOpenClaimsTheFence(t *testing.T) {
	srv := redistest.Start(t)
	c := openAt(t, Config{URL: srv.URL()})
	if got := srv.Do("GET", keyspace.VersionKey); got != keyspace.VersionValue {
		t.Fatalf("the fence key is %q", got)
	}
	openAt(t, Config{URL: srv.URL()})
	if c.Addr() != srv.Addr {
		t.Fatalf("Addr is %q", c.Addr())
	}
}

func TestOpenRefusesAForeignFormat(t *testing.T) {
	srv := redistest.Start(t)
	srv.Do("SET", keyspace.VersionKey, "bullmq:5")
	_, err := Open(t.Context(), Config{URL: srv.URL()})
	var fence *FenceError
	if !errors.Is(err, evtlog.ErrForeignFormat) || !errors.As(err, &fence) || fence.Value != "bullmq:5" || !strings.Contains(err.Error(), srv.Addr) {
		t.Fatalf("got %v", err)
	}
	if got := srv.Do("GET", keyspace.VersionKey); got != "bullmq:5" {
		t.Fatalf("the fence key became %q", got)
	}
}

func TestOpenFenceOfAnotherType(t *testing.T) {
	srv := redistest.Start(t)
	srv.Do("LPUSH", keyspace.VersionKey, "x")
	if _, err := Open(t.Context(), Config{URL: srv.URL()}); !errors.Is(err, evtlog.ErrWrongType) {
		t.Fatalf("got %v", err)
	}
}

func TestOpenPasswords(t *testing.T) {
	const secret = "p@ss/word?"
	srv := redistest.Start(t, "--requirepass", secret)
	for name, c := range map[string]struct{ url string }{
		"none":       {"redis://" + srv.Addr},
		"wrong":      {"redis://:wr0ng-secret@" + srv.Addr},
		"wrong user": {"redis://who:wr0ng-secret@" + srv.Addr},
	} {
		_, err := Open(t.Context(), Config{URL: c.url})
		if !errors.Is(err, evtlog.ErrDenied) || Classify(err) != Terminal || !strings.Contains(err.Error(), srv.Addr) {
			t.Errorf("%s: got %v", name, err)
		}
		if strings.Contains(err.Error(), "wr0ng-secret") {
			t.Errorf("%s: the error tells the password: %v", name, err)
		}
	}
	c := openAt(t, Config{URL: "redis://:p%40ss%2Fword%3F@" + srv.Addr + "/3"})
	if _, err := c.Publish(t.Context(), "cm", nil); err != nil {
		t.Fatal(err)
	}
}

func TestOpenACLUser(t *testing.T) {
	srv := redistest.Start(t)
	srv.Do("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-info", "-config", "-xtrim")
	c := openAt(t, Config{URL: "redis://app:secret@" + srv.Addr})
	if info, err := c.Server(t.Context()); err != nil || info.Version != "" || len(info.Warnings) == 0 {
		t.Fatalf("a server that may not be asked: %+v, %v", info, err)
	}
	l := c.Log(feed(t))
	_, err := l.Trim(t.Context(), TrimPolicy{MaxLen: 1})
	if !errors.Is(err, evtlog.ErrDenied) || strings.Contains(err.Error(), "secret") {
		t.Fatalf("got %v", err)
	}
}

// TestOpenSelectsTheDatabase also for connections of their own.
func TestOpenSelectsTheDatabase(t *testing.T) {
	srv := redistest.Start(t)
	l := openAt(t, Config{URL: "redis://" + srv.Addr + "/5"}).Log(feed(t))
	fill(t, l, 1, 1)
	p := dialPlain(t, srv.Addr)
	if got := p.do("EXISTS", l.stream.Key()); got != "0" {
		t.Fatalf("database 0 has the stream: %s", got)
	}
	p.do("SELECT", "5")
	if got := p.do("EXISTS", l.stream.Key()); got != "1" {
		t.Fatalf("database 5 has it not: %s", got)
	}
	if _, err := Open(t.Context(), Config{URL: "redis://" + srv.Addr + "/99"}); !errors.Is(err, evtlog.ErrServer) || Classify(err) != Terminal {
		t.Fatalf("a database that is not there: %v", err)
	}
}

func TestOpenUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.sock")
	redistest.Start(t, "--unixsocket", path)
	c := openAt(t, Config{URL: "unix://" + path + "?db=2"})
	fill(t, c.Log(feed(t)), 1, 3)
	if c.Addr() != path {
		t.Fatalf("Addr is %q", c.Addr())
	}
}

func TestOpenAbsentServer(t *testing.T) {
	addr := redistest.FreeAddr(t)
	_, err := Open(t.Context(), Config{URL: "redis://:s3cret@" + addr})
	if !isConnError(err) || Classify(err) != Transient || !strings.Contains(err.Error(), addr) || strings.Contains(err.Error(), "s3cret") {
		t.Fatalf("got %v", err)
	}
}

// TestOpenEndsWithItsContext: a peer that accepts and never answers.
func TestOpenEndsWithItsContext(t *testing.T) {
	addr := fakeServer(t, func([]string) string { return "" })
	began := time.Now()
	_, err := Open(within(t, 100*time.Millisecond), Config{URL: "redis://" + addr})
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("it took %s", took)
	}
	if !isConnError(err) || !errors.Is(err, context.DeadlineExceeded) && !isTimeout(err) {
		t.Fatalf("got %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("no longer wanted")
	later(t, 50*time.Millisecond, func() { cancel(reason) })
	if _, err := Open(ctx, Config{URL: "redis://" + addr}); !isConnError(err) || !errors.Is(err, reason) && !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled: %v", err)
	}
}

func TestOpenVersionGate(t *testing.T) {
	for version, ok := range map[string]bool{"6.0.16": false, "6.2.6": false, "7.0.4": false, "7.0.5": true, "6.2.7": true, "": true} {
		addr := fakeServer(t, admitting(version, func([]string) string { return "+OK\r\n" }))
		c, err := Open(t.Context(), Config{URL: "redis://" + addr})
		if ok != (err == nil) {
			t.Fatalf("%q: %v", version, err)
		}
		var bad *VersionError
		if !ok && (!errors.As(err, &bad) || bad.Version != version || bad.Reason == "" || !strings.Contains(err.Error(), addr)) {
			t.Fatalf("%q: %v", version, err)
		}
		if ok {
			_ = c.Close()
		}
	}
}

// TestOpenScrubsTheServersWords: old servers repeat what they do not know.
func TestOpenScrubsTheServersWords(t *testing.T) {
	addr := fakeServer(t, func(words []string) string {
		return "-ERR unknown command `" + words[0] + "`, with args beginning with: `" + words[len(words)-1] + "`, \r\n"
	})
	_, err := Open(t.Context(), Config{URL: "redis://u:s3cret@" + addr})
	if err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "***") {
		t.Fatalf("got %v", err)
	}
}

func TestLoadingServer(t *testing.T) {
	addr := fakeServer(t, func([]string) string { return "-LOADING Redis is loading the dataset in memory\r\n" })
	_, err := Open(t.Context(), Config{URL: "redis://" + addr})
	if Classify(err) != Transient || !errors.Is(err, evtlog.ErrUnavailable) {
		t.Fatalf("got %v", err)
	}
}

func TestClosedClient(t *testing.T) {
	_, l := realLog(t)
	if err := l.c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.c.Close(); err != nil {
		t.Fatal("closing twice:", err)
	}
	_, errDo := l.Last(t.Context())
	_, errDial := l.NewWriter(t.Context())
	for _, err := range []error{errDo, errDial} {
		if !isConnError(err) || !errors.Is(err, net.ErrClosed) {
			t.Fatalf("got %v", err)
		}
	}
}

// TestRoles: every connection says what it is for.
func TestRoles(t *testing.T) {
	srv := redistest.Start(t)
	c := openAt(t, Config{URL: srv.URL(), ClientName: "my app"})
	l := c.Log(feed(t))
	w := writerOf(t, l)
	g := readerOf(t, l, "notify", "n1")
	s, err := c.Subscribe(t.Context(), "cm")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	list := srv.Do("CLIENT", "LIST")
	for _, name := range []string{"my_app:commands", "my_app:writer:cm/feed", "my_app:reader:cm/feed:notify/n1", "my_app:feed:cm"} {
		if !strings.Contains(list, " name="+name+" ") {
			t.Errorf("no connection is called %s:\n%s", name, list)
		}
	}
	if w.ClientID() == 0 || g.ClientID() == 0 || w.ClientID() == g.ClientID() {
		t.Errorf("client ids %d and %d", w.ClientID(), g.ClientID())
	}
}

// TestZeroStream has no keys of its own.
func TestZeroStream(t *testing.T) {
	_, l := realLog(t)
	zero := l.c.Log(keyspace.Stream{})
	_, errLast := zero.Last(t.Context())
	_, errWriter := zero.NewWriter(t.Context())
	_, errReader := zero.NewGroupReader(t.Context(), "g", "c")
	_, errLookup := zero.Lookup(t.Context(), at(1))
	for i, err := range []error{errLast, errWriter, errReader, errLookup, zero.Seal(t.Context(), at(1))} {
		if Classify(err) != Caller {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// TestIdleConnectionsAreAsked before they are used again, and fresh ones not.
func TestIdleConnectionsAreAsked(t *testing.T) {
	srv, l := realLog(t)
	pool := l.c.newPool()
	defer pool.Close()
	conn, err := pool.DialContext(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := pool.TestOnBorrowContext(t.Context(), conn, time.Now().Add(-2*idleCheck)); err != nil {
		t.Fatal(err)
	}
	srv.Do("CLIENT", "KILL", "TYPE", "normal")
	if err := pool.TestOnBorrowContext(t.Context(), conn, time.Now()); err != nil {
		t.Fatalf("a fresh connection was asked: %v", err)
	}
	if err := pool.TestOnBorrowContext(t.Context(), conn, time.Now().Add(-2*idleCheck)); err == nil {
		t.Fatal("a dead connection passed")
	}
	if conn.Err() == nil {
		t.Fatal("it would be used again")
	}
}

// typed reports whether an error is one that callers can branch on.
func typed(err error) bool {
	var (
		server *ServerError
		effect *TrimEffectError
		odd    *SkippedError
		busy   *MemberBusyError
	)
	return isConnError(err) || errors.As(err, &server) || errors.As(err, &effect) || errors.As(err, &odd) || errors.As(err, &busy) || errors.Is(err, evtlog.ErrUnavailable)
}

// TestNonsenseAnswers: whatever a server says to a short command, the outcome is
// an ordinary answer or a typed error, and never a panic.
func TestNonsenseAnswers(t *testing.T) {
	calls := map[string]func(context.Context, *Log) error{
		"Last":   func(ctx context.Context, l *Log) error { _, err := l.Last(ctx); return err },
		"Page":   func(ctx context.Context, l *Log) error { _, _, err := l.Page(ctx, at(1), at(2), 1); return err },
		"Before": func(ctx context.Context, l *Log) error { _, err := l.PageBefore(ctx, at(1), at(2), 1); return err },
		"Info":   func(ctx context.Context, l *Log) error { _, err := l.Info(ctx); return err },
		"Lookup": func(ctx context.Context, l *Log) error { _, err := l.Lookup(ctx, at(1)); return err },
		"Trim": func(ctx context.Context, l *Log) error {
			_, err := l.Trim(ctx, TrimPolicy{MaxLen: 1, Exact: true})
			return err
		},
		"Through": func(ctx context.Context, l *Log) error { _, err := l.TrimThrough(ctx, at(1)); return err },
		"Seal":    func(ctx context.Context, l *Log) error { return l.Seal(ctx, at(1)) },
		"Foreign": func(ctx context.Context, l *Log) error { _, _, err := l.FirstForeign(ctx); return err },
		"Create":  func(ctx context.Context, l *Log) error { _, err := l.CreateGroup(ctx, "g", Head()); return err },
		"Destroy": func(ctx context.Context, l *Log) error { return l.DestroyGroup(ctx, "g") },
		"Groups":  func(ctx context.Context, l *Log) error { _, err := l.Groups(ctx); return err },
		"Members": func(ctx context.Context, l *Log) error { _, err := l.Members(ctx, "g"); return err },
		"Pending": func(ctx context.Context, l *Log) error { _, err := l.Pending(ctx, "g", at(1), 1, "", 0); return err },
		"Summary": func(ctx context.Context, l *Log) error { _, _, _, err := l.PendingSummary(ctx, "g"); return err },
		"Renew": func(ctx context.Context, l *Log) error {
			_, err := l.Renew(ctx, "g", "c", ats(1), time.Second)
			return err
		},
		"Ranges": func(ctx context.Context, l *Log) error { _, err := l.SkippedRanges(ctx, "g"); return err },
		"Lease": func(ctx context.Context, l *Log) error {
			_, err := l.AcquireLease(ctx, "x", "me", time.Second)
			return err
		},
		"Member":  func(ctx context.Context, l *Log) error { return l.DeleteMember(ctx, "g", "c") },
		"Streams": func(ctx context.Context, l *Log) error { _, err := l.c.Streams(ctx, "cm"); return err },
		"Server":  func(ctx context.Context, l *Log) error { _, err := l.c.Server(ctx); return err },
		"Publish": func(ctx context.Context, l *Log) error { _, err := l.c.Publish(ctx, "cm", nil); return err },
	}
	for _, answer := range []string{
		":1\r\n", "+OK\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n", "$1\r\nx\r\n", "*1\r\n*0\r\n", "*1\r\n:1\r\n", "*2\r\n:1\r\n:2\r\n",
		"*1\r\n*1\r\n$1\r\nx\r\n", "*1\r\n*2\r\n$1\r\nx\r\n*0\r\n", "*2\r\n$17\r\nlast-generated-id\r\n$1\r\nx\r\n",
		"*1\r\n*2\r\n$4\r\nname\r\n$1\r\ng\r\n", "*1\r\n*4\r\n$4\r\nname\r\n$1\r\ng\r\n$17\r\nlast-delivered-id\r\n$1\r\nx\r\n",
		"*1\r\n*4\r\n$1\r\nx\r\n$1\r\nc\r\n:1\r\n:1\r\n", "*4\r\n:1\r\n$1\r\nx\r\n$1\r\nx\r\n*0\r\n", "-ERR no\r\n", "?\r\n",
	} {
		addr := fakeServer(t, admitting("7.0.15", func([]string) string { return answer }))
		l := openAt(t, Config{URL: "redis://" + addr, CommandTimeout: 200 * time.Millisecond}).Log(feed(t))
		for name, call := range calls {
			if err := call(within(t, 5*time.Second), l); err != nil && !typed(err) {
				t.Errorf("%s after %q: %T %v", name, answer, err, err)
			}
		}
	}
}

// TestAnswerOfAnotherKindDropsTheConnection: the next answer on it could be that
// of another question.
func TestAnswerOfAnotherKindDropsTheConnection(t *testing.T) {
	addr := fakeServer(t, admitting("7.0.15", func([]string) string { return "+OK\r\n" }))
	l := openAt(t, Config{URL: "redis://" + addr}).Log(feed(t))
	if _, err := l.Trim(t.Context(), TrimPolicy{MaxLen: 1, Exact: true}); !isConnError(err) || !strings.Contains(err.Error(), "protocol error") {
		t.Fatalf("got %v", err)
	}
	if n := l.c.pool.Stats().ActiveCount; n != 0 {
		t.Fatalf("%d connections are kept", n)
	}
}
