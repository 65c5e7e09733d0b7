package integration

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/evtlog/evtlog/internal/redistest"
)

// plain is a connection that speaks RESP word by word, as another program in
// another language does. It uses nothing of the library.
type plain struct {
	conn net.Conn
	r    *bufio.Reader
	sent [][]string
}

func dialPlain(t *testing.T, addr string) *plain {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &plain{conn: conn, r: bufio.NewReader(conn)}
}

// refusal is an error answer.
type refusal string

func (e refusal) Error() string { return string(e) }

// do sends a command and returns the answer: string, int64, []any, or nil.
func (p *plain) do(words ...string) (any, error) {
	p.sent = append(p.sent, words)
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	if _, err := io.WriteString(p.conn, b.String()); err != nil {
		return nil, err
	}
	return p.read()
}

// must is do for the goroutine of a test.
func (p *plain) must(t *testing.T, words ...string) any {
	t.Helper()
	reply, err := p.do(words...)
	if err != nil {
		t.Fatalf("%q: %v", words, err)
	}
	return reply
}

func (p *plain) read() (any, error) {
	line, err := p.r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	kind, rest := line[0], line[1:]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return nil, refusal(rest)
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	switch {
	case err != nil || kind == ':':
		return n, err
	case n < 0:
		return nil, nil
	case kind == '$':
		body := make([]byte, n+2)
		_, err := io.ReadFull(p.r, body)
		return string(body[:n]), err
	}
	list := make([]any, n)
	for i := range list {
		if list[i], err = p.read(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// foreignEntry is an entry as a foreign program reads it. fields is nil when the
// body was trimmed.
type foreignEntry struct {
	id     string
	fields []string
}

func entriesOf(reply any) (out []foreignEntry) {
	list, _ := reply.([]any)
	for _, item := range list {
		pair, _ := item.([]any)
		if len(pair) != 2 {
			continue
		}
		e := foreignEntry{id: pair[0].(string)}
		words, _ := pair[1].([]any)
		for _, w := range words {
			e.fields = append(e.fields, w.(string))
		}
		out = append(out, e)
	}
	return out
}

// ofOneStream unwraps the answer of XREADGROUP.
func ofOneStream(reply any) []foreignEntry {
	streams, _ := reply.([]any)
	if len(streams) == 0 {
		return nil
	}
	return entriesOf(streams[0].([]any)[1])
}

// foreignMember is a group member that sends what the reference implementation
// sends: it drains its pending list, claims from the very beginning on each beat,
// and asks for each entry's state before it acknowledges it, one by one. It
// renews nothing.
type foreignMember struct {
	*plain
	key, group, name, start string
	beatMS, minIdleMS       int
	count                   int
	handle                  func(e foreignEntry)
}

// begin creates the group and drains the own pending list.
func (m *foreignMember) begin() error {
	_, err := m.do("XGROUP", "CREATE", m.key, m.group, m.start, "MKSTREAM")
	var no refusal
	if err != nil && !(errors.As(err, &no) && strings.HasPrefix(string(no), "BUSYGROUP")) {
		return err
	}
	for {
		reply, err := m.do("XREADGROUP", "GROUP", m.group, m.name, "COUNT", strconv.Itoa(m.count), "STREAMS", m.key, "0")
		own := ofOneStream(reply)
		if err != nil || len(own) == 0 {
			return err
		}
		if err := m.work(own); err != nil {
			return err
		}
	}
}

// beat claims, reads and works once.
func (m *foreignMember) beat() error {
	reply, err := m.do("XAUTOCLAIM", m.key, m.group, m.name, strconv.Itoa(m.minIdleMS), "0", "COUNT", strconv.Itoa(m.count))
	if err != nil {
		return err
	}
	if err := m.work(entriesOf(reply.([]any)[1])); err != nil {
		return err
	}
	reply, err = m.do("XREADGROUP", "GROUP", m.group, m.name, "BLOCK", strconv.Itoa(m.beatMS), "COUNT", strconv.Itoa(m.count), "STREAMS", m.key, ">")
	if err != nil {
		return err
	}
	return m.work(ofOneStream(reply))
}

func (m *foreignMember) work(entries []foreignEntry) error {
	for _, e := range entries {
		m.handle(e)
		if _, err := m.do("XPENDING", m.key, m.group, e.id, e.id, "1"); err != nil {
			return err
		}
		if _, err := m.do("XACK", m.key, m.group, e.id); err != nil {
			return err
		}
	}
	return nil
}

// goldenOp is one operation of the reference implementation.
type goldenOp struct {
	Op    string
	Input struct {
		Queue, Stream, Group, Consumer string
		W, Event, Job                  string
		BeatMS                         int         `json:"beat_ms"`
		MinIdleMS                      int         `json:"min_idle_ms"`
		GroupStart                     string      `json:"group_start"`
		Extra                          [][2]string `json:"extra"`
		Count                          int
	}
	Commands [][]string
}

// golden returns the operations by name, and the version fence.
func golden(t *testing.T) (ops map[string]goldenOp, fence [2]string) {
	t.Helper()
	raw, err := os.ReadFile("testdata/wire.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Ops   []goldenOp
		Fence struct{ Key, Value string } `json:"version_fence"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	ops = map[string]goldenOp{}
	for _, op := range file.Ops {
		for _, words := range op.Commands {
			for i, w := range words {
				if text, ok := strings.CutPrefix(w, "b64:"); ok {
					words[i] = decoded(t, text)
				}
			}
		}
		ops[op.Op] = op
	}
	return ops, [2]string{file.Fence.Key, file.Fence.Value}
}

func decoded(t *testing.T, s string) string {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestForeignMemberIsTheReference holds the foreign member of these tests to the
// commands that the reference implementation sent.
func TestForeignMemberIsTheReference(t *testing.T) {
	ops, _ := golden(t)
	srv := redistest.Start(t)
	const stream = "emq:{labwire}:stream:g"
	entry := func(n int) string { return fmt.Sprintf("1746090000%03d-0", n) }
	set := dialPlain(t, srv.Addr)
	pendingAt := func(member string, n int) {
		set.must(t, "XGROUP", "CREATE", stream, "grp", "0", "MKSTREAM")
		set.must(t, "XADD", stream, entry(n), "n", strconv.Itoa(n))
		set.must(t, "XREADGROUP", "GROUP", "grp", member, "STREAMS", stream, ">")
		eventually(t, 5*time.Second, "the entry is idle", func() bool {
			return len(set.must(t, "XPENDING", stream, "grp", "IDLE", "60", "-", "+", "1").([]any)) == 1
		})
	}
	for name, prepare := range map[string]func(){
		"consumer: fresh start :head, 3 entries, handler :ok": func() {
			for n := range 3 {
				set.must(t, "XADD", stream, entry(n), "n", strconv.Itoa(n))
			}
		},
		"consumer: restart, group exists (BUSYGROUP swallowed), nothing to do": func() {
			set.must(t, "XGROUP", "CREATE", stream, "grp", "0", "MKSTREAM")
		},
		"consumer: restart with the same name, PEL drain read, handler :ok":      func() { pendingAt("c1", 10) },
		"consumer: reclaim from a dead peer (XAUTOCLAIM), count 10, min_idle 50": func() { pendingAt("c1", 11) },
		"consumer: XAUTOCLAIM over a trimmed pending entry (third element lists it)": func() {
			pendingAt("c1", 12)
			set.must(t, "XTRIM", stream, "MAXLEN", "0")
		},
	} {
		t.Run(name, func(t *testing.T) {
			op, known := ops[name]
			if !known {
				t.Fatal("no such operation in testdata")
			}
			set.must(t, "FLUSHALL")
			prepare()
			in := op.Input
			m := &foreignMember{
				plain: dialPlain(t, srv.Addr), key: stream, group: in.Group, name: in.Consumer, start: "0",
				beatMS: in.BeatMS, minIdleMS: in.MinIdleMS, count: in.Count, handle: func(foreignEntry) {},
			}
			if in.GroupStart == "new" {
				m.start = "$"
			}
			if err := m.begin(); err != nil {
				t.Fatal(err)
			}
			for len(m.sent) < len(op.Commands) {
				if err := m.beat(); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.EqualFunc(m.sent[:len(op.Commands)], op.Commands, slices.Equal) {
				t.Errorf("sent\n%q\nthe reference sent\n%q", m.sent, op.Commands)
			}
		})
	}
}
