package redislog

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
)

// TestWriterDuplex keeps two flushes on their way, as the publisher does.
func TestWriterDuplex(t *testing.T) {
	srv, l := realLog(t)
	w := writerOf(t, l)
	const batches, size = 20, 50
	send := func(b int) {
		for i := range size {
			w.Append(at(b*size+i), []evtlog.Field{evtlog.F("b", fmt.Sprint(b))})
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	receive := func(b int) {
		for i := range size {
			if err := w.ReceiveAppend(at(b*size + i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	send(0)
	for b := 1; b < batches; b++ {
		send(b)
		receive(b - 1)
	}
	receive(batches - 1)
	if got := srv.Do("XLEN", l.stream.Key()); got != fmt.Sprintf(":%d", batches*size) || w.Unanswered() != 0 || w.Buffered() != 0 {
		t.Fatalf("XLEN %s, unanswered %d, buffered %d", got, w.Unanswered(), w.Buffered())
	}
}

// TestWriterRefusals: each refusal is typed, and the answers behind it are read
// by those who asked for them.
func TestWriterRefusals(t *testing.T) {
	srv, l := realLog(t)
	w := writerOf(t, l)
	w.Append(at(5), nil)
	w.Append(at(5), nil)
	w.Append(at(4), nil)
	w.Append(at(6), nil)
	w.Publish([]byte("x"))
	w.Wait(0, time.Second)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := w.ReceiveAppend(at(5)); err != nil {
		t.Fatal(err)
	}
	for _, id := range ats(5, 4) {
		err := w.ReceiveAppend(id)
		var refused *evtlog.NonMonotonicError
		if !errors.As(err, &refused) || refused.ID != id || refused.Stream.String() != "cm/feed" || !refused.Top.IsZero() || Classify(err) != Caller {
			t.Fatalf("%v: %v", id, err)
		}
	}
	if err := w.ReceiveAppend(at(6)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if n, err := w.ReceiveInt(); err != nil || n != 0 {
			t.Fatalf("%d, %v", n, err)
		}
	}

	other := l.c.Log(stream(t, "cm", "other"))
	srv.Do("SET", other.stream.Key(), "x")
	ow := writerOf(t, other)
	if err := appendOne(ow, 1); !errors.Is(err, evtlog.ErrWrongType) || Classify(err) != Terminal {
		t.Fatalf("another type: %v", err)
	}
	srv.Do("CONFIG", "SET", "maxmemory", "1")
	if err := appendOne(w, 7); !errors.Is(err, evtlog.ErrOutOfMemory) || Classify(err) != BackPressure {
		t.Fatalf("out of memory: %v", err)
	}
	srv.Do("CONFIG", "SET", "maxmemory", "0")
	if err := appendOne(w, 7); err != nil {
		t.Fatalf("memory is back: %v", err)
	}
}

func appendOne(w *Writer, n int) error {
	w.Append(at(n), nil)
	if err := w.Flush(); err != nil {
		return err
	}
	return w.ReceiveAppend(at(n))
}

// TestWriterLeavesAReplica: all answers of the batch are read, each a refusal,
// and then the connection is closed.
func TestWriterLeavesAReplica(t *testing.T) {
	primary, l := realLog(t, "--repl-diskless-sync-delay", "0")
	replica, rl := realLog(t)
	w := writerOf(t, rl)
	host, port, _ := net.SplitHostPort(primary.Addr)
	replica.Do("REPLICAOF", host, port)
	for n := 1; n <= 3; n++ {
		w.Append(at(n), nil)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 3; n++ {
		if err := w.ReceiveAppend(at(n)); !errors.Is(err, evtlog.ErrReadOnly) || Classify(err) != Topology || isConnError(err) {
			t.Fatalf("%d: %v", n, err)
		}
	}
	if err := appendOne(w, 4); !isConnError(err) || Classify(err) != Topology {
		t.Fatalf("after it: %v", err)
	}
	// Short commands: the pooled connection goes as well.
	if _, err := rl.Trim(t.Context(), TrimPolicy{MaxLen: 1}); !errors.Is(err, evtlog.ErrReadOnly) {
		t.Fatalf("short command: %v", err)
	}
	if n := rl.c.pool.Stats().ActiveCount; n != 0 {
		t.Fatalf("%d connections to a replica are kept", n)
	}
	fill(t, l, 1, 1)
	soon(t, "the replica has the record", func() bool { return replica.Do("XLEN", l.stream.Key()) == ":1" })
	pw := writerOf(t, l)
	pw.Append(at(2), nil)
	pw.Wait(1, 2*time.Second)
	if err := pw.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := pw.ReceiveAppend(at(2)); err != nil {
		t.Fatal(err)
	}
	if n, err := pw.ReceiveInt(); err != nil || n != 1 {
		t.Fatalf("WAIT: %d, %v", n, err)
	}
}

// TestWaitLongerThanCommandTimeout: the time that WAIT may take is added.
func TestWaitLongerThanCommandTimeout(t *testing.T) {
	srv, _ := realLog(t)
	l := openAt(t, Config{URL: srv.URL(), CommandTimeout: 400 * time.Millisecond}).Log(feed(t))
	w := writerOf(t, l)
	w.Append(at(1), nil)
	w.Wait(1, 800*time.Millisecond)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := w.ReceiveAppend(at(1)); err != nil {
		t.Fatal(err)
	}
	if n, err := w.ReceiveInt(); err != nil || n != 0 {
		t.Fatalf("%d, %v", n, err)
	}
	if err := appendOne(w, 2); err != nil {
		t.Fatal(err)
	}
}

// TestWriterChecksTheReceipt: an answer that is not the id's is never taken.
func TestWriterChecksTheReceipt(t *testing.T) {
	for name, answer := range map[string]string{
		"other id":  fmt.Sprintf("$18\r\n%s\r\n", at(2).Entry()),
		"longer":    fmt.Sprintf("$19\r\n%s0\r\n", at(1).Entry()),
		"nil":       "$-1\r\n",
		"status":    "+OK\r\n",
		"number":    ":1\r\n",
		"huge":      "$1000\r\n",
		"nonsense":  "hello\r\n",
		"line only": "\r\n",
	} {
		addr := fakeServer(t, admitting("7.0.15", func([]string) string { return answer }))
		w := writerOf(t, openAt(t, Config{URL: "redis://" + addr}).Log(feed(t)))
		if err := appendOne(w, 1); !isConnError(err) || !strings.Contains(err.Error(), "protocol error") {
			t.Errorf("%s: %v", name, err)
		}
		if err := appendOne(w, 1); !isConnError(err) {
			t.Errorf("%s, after it: %v", name, err)
		}
	}
}

func TestWriterWithoutQuestion(t *testing.T) {
	_, l := realLog(t)
	w := writerOf(t, l)
	if err := w.Flush(); err != nil {
		t.Fatal("nothing to send:", err)
	}
	if err := w.ReceiveAppend(at(1)); !isConnError(err) {
		t.Fatalf("an answer to nothing: %v", err)
	}
	w = writerOf(t, l)
	if _, err := w.ReceiveInt(); !isConnError(err) {
		t.Fatalf("an answer to nothing: %v", err)
	}
}

func TestWriterClose(t *testing.T) {
	srv, l := realLog(t)
	w := writerOf(t, l)
	srv.Pause()
	defer srv.Resume()
	w.Append(at(1), nil)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	later(t, 20*time.Millisecond, func() { _ = w.Close() })
	began := time.Now()
	err := w.ReceiveAppend(at(1))
	if !isConnError(err) || !errors.Is(err, net.ErrClosed) {
		t.Fatalf("got %v", err)
	}
	if took := time.Since(began); took > time.Second {
		t.Fatalf("it took %s", took)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAppendAllocatesNothing once the buffer has grown.
func TestAppendAllocatesNothing(t *testing.T) {
	_, l := realLog(t)
	w := writerOf(t, l)
	fields := []evtlog.Field{evtlog.F("event", "scored"), evtlog.F("game", "g-17"), evtlog.F("pct", "83")}
	n := 0
	cycle := func() {
		for range 16 {
			n++
			w.Append(at(n), fields)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		for i := range 16 {
			if err := w.ReceiveAppend(at(n - 15 + i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	cycle()
	if allocs := testing.AllocsPerRun(50, cycle); allocs != 0 {
		t.Fatalf("%v allocations for 16 appends", allocs)
	}
}

// TestWriterAwait: to wait briefly for an answer spends nothing of it, whether it
// came, did not come yet, is a refusal, or never comes.
func TestWriterAwait(t *testing.T) {
	srv, l := realLog(t)
	w := writerOf(t, l)
	send := func(n int) {
		t.Helper()
		w.Append(at(n), nil)
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	send(1)
	if !w.Await(10*time.Second) || !w.Await(0) {
		t.Fatal("an accepted append was not noticed")
	}
	if err := w.ReceiveAppend(at(1)); err != nil {
		t.Fatal(err)
	}
	send(1)
	if w.Await(10 * time.Second) {
		t.Fatal("a refusal was taken for an acceptance")
	}
	if err := w.ReceiveAppend(at(1)); !errors.Is(err, evtlog.ErrNonMonotonic) {
		t.Fatal(err)
	}
	srv.Pause()
	send(2)
	if w.Await(time.Millisecond) {
		t.Fatal("an answer of a server that does not run")
	}
	srv.Resume()
	if err := w.ReceiveAppend(at(2)); err != nil {
		t.Fatal("the limit of the wait was that of the answer: ", err)
	}
	if w.Await(time.Hour) {
		t.Fatal("an answer without a question")
	}
	send(3)
	srv.Kill()
	for w.Await(10 * time.Second) {
		if err := w.ReceiveAppend(at(3)); err != nil {
			t.Fatal(err)
		}
		w.Append(at(4), nil)
		_ = w.Flush()
	}
	var lost *ConnError
	if err := w.ReceiveAppend(at(4)); !errors.As(err, &lost) {
		t.Fatalf("after the server's end: %v", err)
	}
}
