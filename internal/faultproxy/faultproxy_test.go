package faultproxy

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// session is a client that speaks inline commands.
type session struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func dial(t *testing.T, p *Proxy) *session {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	return &session{t: t, conn: conn, in: bufio.NewReader(conn)}
}

func (s *session) send(words ...string) {
	s.t.Helper()
	var b strings.Builder
	b.WriteString("*" + string(rune('0'+len(words))) + "\r\n")
	for _, w := range words {
		b.WriteString("$" + string(rune('0'+len(w))) + "\r\n" + w + "\r\n")
	}
	if _, err := s.conn.Write([]byte(b.String())); err != nil {
		s.t.Fatal(err)
	}
}

func (s *session) expect(want string) {
	s.t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(s.in, got); err != nil || string(got) != want {
		s.t.Fatalf("read %q, %v; want %q", got, err, want)
	}
}

func (s *session) expectEnd() {
	s.t.Helper()
	if b, err := s.in.ReadByte(); err == nil {
		s.t.Fatalf("read %q; want the end", b)
	}
}

func start(t *testing.T) (*Proxy, *miniredis.Miniredis) {
	m := miniredis.RunT(t)
	return Start(t, m.Addr()), m
}

func TestPassesAndCounts(t *testing.T) {
	p, m := start(t)
	a, b := dial(t, p), dial(t, p)
	a.send("SET", "k", "v")
	a.expect("+OK\r\n")
	b.send("GET", "k")
	b.expect("$1\r\nv\r\n")
	if v, _ := m.Get("k"); v != "v" || p.Accepted() != 2 || p.Open() != 2 {
		t.Fatalf("k = %q, accepted %d, open %d", v, p.Accepted(), p.Open())
	}
	p.CutAll()
	a.expectEnd()
	b.expectEnd()
}

func TestCutRepliesAtEachByte(t *testing.T) {
	p, _ := start(t)
	whole := "$1\r\nv\r\n"
	for n := range len(whole) {
		s := dial(t, p)
		s.send("SET", "k", "v")
		s.expect("+OK\r\n")
		p.CutReplies(n)
		s.send("GET", "k")
		s.expect(whole[:n])
		s.expectEnd()
	}
}

func TestCutRequests(t *testing.T) {
	p, m := start(t)
	s := dial(t, p)
	p.CutRequests(len("*3\r\n$3\r\nSET\r\n"))
	s.send("SET", "k", "v")
	s.expectEnd()
	if m.Exists("k") {
		t.Fatal("the server got the whole command")
	}
}

func TestSwallow(t *testing.T) {
	p, m := start(t)
	s := dial(t, p)
	p.Swallow(1, 1)
	s.send("SET", "k", "1")
	s.send("SET", "k", "2")
	s.send("GET", "k")
	s.expect("+OK\r\n$1\r\n2\r\n")
	if v, _ := m.Get("k"); v != "2" || p.Swallowing() != 0 {
		t.Fatalf("k = %q, swallowing %d", v, p.Swallowing())
	}
}

func TestDelay(t *testing.T) {
	p, _ := start(t)
	s := dial(t, p)
	p.Delay(30 * time.Millisecond)
	began := time.Now()
	s.send("PING")
	s.expect("+PONG\r\n")
	if took := time.Since(began); took < 30*time.Millisecond {
		t.Fatalf("answered after %s", took)
	}
}

func TestSilenceHoldsAndLetsGo(t *testing.T) {
	p, _ := start(t)
	s := dial(t, p)
	s.send("PING")
	s.expect("+PONG\r\n")
	p.Silence(true)
	s.send("PING")
	_ = s.conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	s.expectEnd()
	_ = s.conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	p.Heal()
	s.expect("+PONG\r\n")
}

func TestRefuseAndRetarget(t *testing.T) {
	p, _ := start(t)
	p.Refuse(true)
	dial(t, p).expectEnd()
	p.Refuse(false)
	other := miniredis.RunT(t)
	if err := other.Set("who", "b"); err != nil {
		t.Fatal(err)
	}
	p.Retarget(other.Addr())
	s := dial(t, p)
	s.send("GET", "who")
	s.expect("$1\r\nb\r\n")
}

func TestDrop(t *testing.T) {
	p, _ := start(t)
	subscriber, publisher := dial(t, p), dial(t, p)
	subscriber.send("SUBSCRIBE", "c")
	subscriber.expect("*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n")
	odd := false
	p.Drop(func(answer []byte) bool {
		if !IsMessage(answer) {
			return false
		}
		odd = !odd
		return odd
	})
	for _, m := range []string{"1", "2", "3", "4"} {
		publisher.send("PUBLISH", "c", m)
		publisher.expect(":1\r\n")
	}
	for _, m := range []string{"2", "4"} {
		subscriber.expect("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n" + m + "\r\n")
	}
	if p.Dropped() != 2 {
		t.Errorf("dropped %d", p.Dropped())
	}
	p.Heal()
	publisher.send("PUBLISH", "c", "5")
	publisher.expect(":1\r\n")
	subscriber.expect("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n5\r\n")
}

// In front of another protocol an answer is what arrives at once.
func TestRawAnswers(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	go func() {
		conn, err := server.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.Copy(conn, conn)
	}()
	p := StartRaw(t, server.Addr().String())
	s := dial(t, p)
	for _, text := range []string{"$5 no line ends here", "*9"} {
		if _, err := io.WriteString(s.conn, text); err != nil {
			t.Fatal(err)
		}
		s.expect(text)
	}
	p.Swallow(0, 1)
	if _, err := io.WriteString(s.conn, "lost"); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); p.Swallowing() > 0; <-tick.C {
		if time.Now().After(end) {
			t.Fatal("the answer was not swallowed")
		}
	}
	if _, err := io.WriteString(s.conn, "kept"); err != nil {
		t.Fatal(err)
	}
	s.expect("kept")
}
