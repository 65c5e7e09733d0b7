package redislog

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/keyspace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// openAt opens a client and closes it at the end of the test.
func openAt(t testing.TB, cfg Config) *Client {
	t.Helper()
	c, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// realLog starts a server and returns a log on it.
func realLog(t testing.TB, args ...string) (*redistest.Server, *Log) {
	t.Helper()
	srv := redistest.Start(t, args...)
	return srv, openAt(t, Config{URL: srv.URL()}).Log(feed(t))
}

func feed(t testing.TB) keyspace.Stream { return stream(t, "cm", "feed") }

func stream(t testing.TB, queue, name string) keyspace.Stream {
	t.Helper()
	s, err := keyspace.NewStream(queue, name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// baseMillis is 2025-05-01T09:00:00Z, where the ids of the tests begin.
const baseMillis = 1746090000000

// at is the id of node 1 in the n-th millisecond.
func at(n int) evtid.ID {
	id, err := evtid.Make(baseMillis+int64(n), 1, 0)
	if err != nil {
		panic(err)
	}
	return id
}

func ats(ns ...int) []evtid.ID {
	ids := make([]evtid.ID, len(ns))
	for i, n := range ns {
		ids[i] = at(n)
	}
	return ids
}

// fill appends the records first..last through a Writer.
func fill(t testing.TB, l *Log, first, last int) {
	t.Helper()
	w := writerOf(t, l)
	defer w.Close()
	for n := first; n <= last; n++ {
		w.Append(at(n), []evtlog.Field{evtlog.F("n", fmt.Sprint(n))})
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	for n := first; n <= last; n++ {
		if err := w.ReceiveAppend(at(n)); err != nil {
			t.Fatal(err)
		}
	}
}

func writerOf(t testing.TB, l *Log) *Writer {
	t.Helper()
	w, err := l.NewWriter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func readerOf(t testing.TB, l *Log, group, member string) *GroupReader {
	t.Helper()
	g, err := l.NewGroupReader(t.Context(), group, member)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
}

func createGroup(t testing.TB, l *Log, group string, start StartAt) {
	t.Helper()
	if created, err := l.CreateGroup(t.Context(), group, start); err != nil || !created {
		t.Fatalf("CreateGroup: created %v, %v", created, err)
	}
}

func idsOf(entries []Entry) []evtid.ID {
	ids := make([]evtid.ID, len(entries))
	for i, e := range entries {
		ids[i] = e.ID
	}
	return ids
}

func recordIDs(records []evtlog.Record) []evtid.ID {
	ids := make([]evtid.ID, len(records))
	for i, r := range records {
		ids[i] = r.ID
	}
	return ids
}

func wantIDs(t testing.TB, got []evtid.ID, ns ...int) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(ats(ns...)) {
		t.Fatalf("got %v, want %v", got, ats(ns...))
	}
}

// plain is a connection that speaks RESP on its own, to look at the server
// without the code under test.
type plain struct {
	t    testing.TB
	conn net.Conn
	in   *bufio.Reader
}

func dialPlain(t testing.TB, addr string) *plain {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &plain{t: t, conn: conn, in: bufio.NewReader(conn)}
}

// do runs a command and returns the answer as redis-cli would print it in one
// line.
func (p *plain) do(words ...string) string {
	p.t.Helper()
	_ = p.conn.SetDeadline(time.Now().Add(30 * time.Second))
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	if _, err := io.WriteString(p.conn, b.String()); err != nil {
		p.t.Fatal(err)
	}
	out, err := render(p.in)
	if err != nil {
		p.t.Fatalf("%v: %v", words, err)
	}
	return out
}

func render(in *bufio.Reader) (string, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimRight(line, "\r\n")
	n := 0
	_, _ = fmt.Sscanf(line[1:], "%d", &n)
	switch {
	case line[0] == '$' && n >= 0:
		body := make([]byte, n+2)
		_, err := io.ReadFull(in, body)
		return fmt.Sprintf("%q", body[:n]), err
	case line[0] == '*' && n >= 0:
		parts := make([]string, n)
		for i := range parts {
			if parts[i], err = render(in); err != nil {
				return "", err
			}
		}
		return "[" + strings.Join(parts, " ") + "]", nil
	case line[0] == '$' || line[0] == '*':
		return "nil", nil
	}
	return line[1:], nil
}

// fakeServer answers commands by hand. answer gets the words and returns the
// bytes to send.
func fakeServer(t testing.TB, answer func(words []string) string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	done.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
			done.Go(func() { serve(conn, answer) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		done.Wait()
	})
	return l.Addr().String()
}

func serve(conn net.Conn, answer func([]string) string) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		words, err := readCommand(in)
		if err != nil {
			return
		}
		if _, err := io.WriteString(conn, answer(words)); err != nil {
			return
		}
	}
}

// readCommand reads one command in the form clients send.
func readCommand(in *bufio.Reader) ([]string, error) {
	var n int
	if _, err := fmt.Fscanf(in, "*%d\r\n", &n); err != nil {
		return nil, err
	}
	words := make([]string, n)
	for i := range words {
		var size int
		if _, err := fmt.Fscanf(in, "$%d\r\n", &size); err != nil {
			return nil, err
		}
		body := make([]byte, size+2)
		if _, err := io.ReadFull(in, body); err != nil {
			return nil, err
		}
		words[i] = string(body[:size])
	}
	return words, nil
}

// admitting answers what Open asks, and passes the rest on.
func admitting(version string, rest func(words []string) string) func([]string) string {
	return func(words []string) string {
		switch strings.ToUpper(words[0]) {
		case "PING":
			return "+PONG\r\n"
		case "INFO":
			text := "redis_version:" + version + "\r\n"
			return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
		case "CLIENT":
			if words[1] == "ID" {
				return ":7\r\n"
			}
			return "+OK\r\n"
		case "SET":
			return "+OK\r\n"
		case "GET":
			return fmt.Sprintf("$%d\r\n%s\r\n", len(keyspace.VersionValue), keyspace.VersionValue)
		}
		return rest(words)
	}
}

// soon waits for a condition.
func soon(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 10 s", what)
		}
		<-time.After(time.Millisecond)
	}
}

func isConnError(err error) bool {
	var conn *ConnError
	return errors.As(err, &conn) && errors.Is(err, evtlog.ErrUnavailable)
}

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// later runs f beside the test, which does not end before it.
func later(t testing.TB, d time.Duration, f func()) {
	t.Helper()
	done := make(chan struct{})
	time.AfterFunc(d, func() {
		defer close(done)
		f()
	})
	t.Cleanup(func() { <-done })
}
