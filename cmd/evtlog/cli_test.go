package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/redistest"
)

// cli runs one command line in this process.
func cli(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var out, errOut bytes.Buffer
	code = run(ctx, args, strings.NewReader(stdin), &out, &errOut)
	return code, out.String(), errOut.String()
}

func TestAppendAndReplay(t *testing.T) {
	srv := redistest.Start(t)
	where := []string{"--redis", srv.URL(), "--queue", "q", "--stream", "s"}

	code, receipts, stderr := cli(t, `{"event":"opened","n":1}`+"\n\n"+`{"event":"scored","n":2,"event":"again"}`+"\n", append([]string{"append"}, where...)...)
	if code != exitOK {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	ids := strings.Fields(receipts)
	if len(ids) != 2 || ids[0] >= ids[1] {
		t.Fatalf("receipts %q", receipts)
	}
	code, out, stderr := cli(t, "", append([]string{"replay"}, where...)...)
	if code != exitOK {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], `{"id":"`+ids[0]) || !strings.HasSuffix(lines[1], `"fields":{"event":"scored","n":"2","event":"again"}}`) {
		t.Errorf("replay printed %q", lines)
	}

	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-o", "id", "--reverse", "--limit", "1"}, ids[1] + "\n"},
		{[]string{"-o", "id", "--from", ids[1]}, ids[1] + "\n"},
		{[]string{"-o", "id", "--to", ids[0]}, ids[0] + "\n"},
		{[]string{"-o", "id", "--to", "2000-01-01T00:00:00Z"}, ""},
		{[]string{"-o", "json", "--from", "2099-01-01T00:00:00Z"}, "[]\n"},
	} {
		code, out, stderr := cli(t, "", append(append([]string{"replay"}, where...), c.args...)...)
		if code != exitOK || out != c.want {
			t.Errorf("replay %v: exit %d, printed %q, want %q; %s", c.args, code, out, c.want, stderr)
		}
	}
}

// TestManyLines sends 100,000 lines of arbitrary UTF-8 through append and back
// through replay.
func TestManyLines(t *testing.T) {
	srv := redistest.Start(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	const n = 100_000
	values := make([]string, n)
	var in strings.Builder
	for i := range values {
		values[i] = randomText(rnd)
		name, err := json.Marshal(fmt.Sprintf("k%d", i%7))
		if err != nil {
			t.Fatal(err)
		}
		in.Write(append([]byte("{"), name...))
		in.WriteByte(':')
		in.Write(appendJSONString(nil, values[i]))
		in.WriteString("}\n")
	}
	where := []string{"--redis", srv.URL(), "--queue", "q", "--stream", "s"}
	code, receipts, stderr := cli(t, in.String(), append([]string{"append"}, where...)...)
	if code != exitOK {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	ids := strings.Fields(receipts)
	if len(ids) != n {
		t.Fatalf("%d receipts for %d lines", len(ids), n)
	}
	code, out, stderr := cli(t, "", append([]string{"replay"}, where...)...)
	if code != exitOK {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if len(lines) != n {
		t.Fatalf("%d lines came back of %d", len(lines), n)
	}
	for i, line := range lines {
		var got struct {
			ID     string            `json:"id"`
			Fields map[string]string `json:"fields"`
		}
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatalf("line %d: %v: %s", i+1, err, line)
		}
		if got.ID != ids[i] || got.Fields[fmt.Sprintf("k%d", i%7)] != values[i] {
			t.Fatalf("line %d: got %s, want id %s and value %q", i+1, line, ids[i], values[i])
		}
	}
}

// randomText makes a string of arbitrary runes, control characters and the
// separators of JSON and RESP included.
func randomText(rnd *rand.Rand) string {
	special := []rune{0, '\n', '\r', '\t', '"', '\\', '/', 0x7f, 0x85, 0x2028, 0x2029, 0xfffd, 0x1f600, 0x10ffff}
	runes := make([]rune, rnd.IntN(24))
	for i := range runes {
		switch r := rune(rnd.IntN(0x110000)); {
		case rnd.IntN(3) == 0:
			runes[i] = special[rnd.IntN(len(special))]
		case r >= 0xd800 && r < 0xe000:
			runes[i] = 'x'
		default:
			runes[i] = r
		}
	}
	return string(runes)
}

func TestAppendRefusals(t *testing.T) {
	srv := redistest.Start(t)
	where := []string{"append", "--redis", srv.URL(), "--queue", "q", "--stream", "s"}
	for _, c := range []struct {
		name, in, want string
		args           []string
	}{
		{name: "not an object", in: "{\"a\":\"1\"}\n[1]\n{\"a\":\"2\"}\n", want: "line 2"},
		{name: "nested", in: "{\"a\":\"1\"}\n\n{\"a\":{}}\n", want: "line 3"},
		{name: "reserved", in: "{\"a\":\"1\"}\n{\"id\":\"x\"}\n", want: "line 2"},
		{name: "broken off", in: "{\"a\":\"1\"}\n{\"a\":\"2\"", want: "line 2"},
		{name: "too long", in: "{\"a\":\"1\"}\n{\"a\":\"" + strings.Repeat("x", 100_000) + "\"}\n", want: "line 2: it is longer than a record of 11 bytes", args: []string{"--max-record-bytes", "11"}},
		{name: "too large", in: "{\"a\":\"1\"}\n{\"a\":\"12345678901\"}\n", want: "line 2", args: []string{"--max-record-bytes", "11"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv.Do("FLUSHALL")
			code, receipts, stderr := cli(t, c.in, append(where, c.args...)...)
			if code != exitFailed || !strings.Contains(stderr, c.want) {
				t.Errorf("exit %d, stderr %q; want exit 1 and %q", code, stderr, c.want)
			}
			if got := srv.Do("XLEN", "emq:{q}:stream:s"); got != ":1" || len(strings.Fields(receipts)) != 1 {
				t.Errorf("the stream holds %s records and %q was printed; the line before the bad one is kept, nothing else", got, receipts)
			}
		})
	}
}

func TestExitCodes(t *testing.T) {
	srv := redistest.Start(t)
	srv.Do("SET", "emq:{q}:stream:string", "x")
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := closed.Addr().String()
	_ = closed.Close()
	at := func(verb string, args ...string) []string {
		return append(append(strings.Fields(verb), "--redis", srv.URL()), args...)
	}
	for _, c := range []struct {
		want int
		args []string
		text string
	}{
		{exitOK, []string{"version"}, ""},
		{exitOK, []string{"help", "exit-codes"}, ""},
		{exitUsage, []string{"replay"}, "queue"},
		{exitUsage, []string{"nonsense"}, "nonsense"},
		{exitUsage, at("replay", "--queue", "a b", "--stream", "s"), "a b"},
		{exitUsage, at("replay", "--queue", "q", "--stream", "s:x"), "s:x"},
		{exitUsage, at("replay", "--queue", "q", "--stream", "s", "-o", "xml"), "xml"},
		{exitUsage, at("replay", "--queue", "q", "--stream", "s", "--limit", "-1"), "-1"},
		{exitUsage, at("replay", "--queue", "q", "--stream", "s", "--from", "yesterday"), "yesterday"},
		{exitUsage, at("replay", "--queue", "q", "--stream", "s", "--from", "1969-12-31T23:59:59Z"), "1969"},
		{exitUsage, at("replay", "--queue", "q", "--stream", "s", "--from", "2026-01-02T00:00:00Z", "--to", "2026-01-01T00:00:00Z"), "before"},
		{exitUsage, at("append", "--queue", "q", "--stream", "s", "--node", "1024"), "1024"},
		{exitUsage, at("append", "--queue", "q", "--stream", "s", "--timeout", "-3s"), "-3s"},
		{exitUsage, at("stream info", "--queue", "q"), "--stream"},
		{exitNotFound, at("replay", "--queue", "q", "--stream", "absent"), "absent"},
		{exitNotFound, at("group info", "--queue", "q", "--stream", "absent"), "absent"},
		{exitNotFound, at("stream info", "--queue", "q", "--stream", "absent"), "absent"},
		{exitNotFound, at("group info", "--queue", "q", "--stream", "absent", "--group", "g"), "absent"},
		{exitFailed, at("stream info", "--queue", "q", "--stream", "string"), "string"},
		{exitUnavailable, []string{"replay", "--redis", "redis://" + nobody, "--queue", "q", "--stream", "s"}, nobody},
		{exitUnavailable, []string{"append", "--redis", "redis://" + nobody, "--queue", "q", "--stream", "s"}, nobody},
		{exitUnavailable, []string{"archive", "status", "--nodes", nobody}, nobody},
		{exitUnavailable, []string{"archive", "status", "--nodes", srv.Addr}, srv.Addr}, // something else answers
		{exitUnavailable, []string{"archive", "ls", "--nodes", srv.Addr}, srv.Addr},
		{exitUnavailable, []string{"raft", "peers", "--nodes", srv.Addr}, srv.Addr},
		{exitUsage, []string{"replay", "--redis", "redis://nobody:secret@" + srv.Addr, "--queue", "q", "--stream", "s"}, "password"},
		{exitUsage, []string{"replay", "--redis", "http://:secret@x", "--queue", "q", "--stream", "s"}, "URL"},
	} {
		code, _, stderr := cli(t, "", c.args...)
		if code != c.want || !strings.Contains(stderr, c.text) {
			t.Errorf("%v: exit %d, want %d with %q; stderr: %s", c.args, code, c.want, c.text, stderr)
		}
		if strings.Contains(stderr, "secret") {
			t.Errorf("%v: the password is printed: %s", c.args, stderr)
		}
	}
}

// TestAppendInterrupted ends an append that waits for input which nobody types.
func TestAppendInterrupted(t *testing.T) {
	srv := redistest.Start(t)
	in, typed := io.Pipe()
	defer typed.Close()
	receipts, out := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"append", "--redis", srv.URL(), "--queue", "q", "--stream", "s"}, in, out, io.Discard)
	}()
	if _, err := io.WriteString(typed, "{\"a\":\"1\"}\n"); err != nil {
		t.Fatal(err)
	}
	if receipt, err := bufio.NewReader(receipts).ReadString('\n'); err != nil || len(receipt) != 15 {
		t.Fatalf("receipt %q, %v", receipt, err)
	}
	cancel()
	select {
	case got := <-code:
		if got != exitInterrupted {
			t.Errorf("exit %d", got)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("append still waits for its input")
	}
}

func TestHelpKeepsThePassword(t *testing.T) {
	t.Setenv("EVTLOG_REDIS_URL", "redis://:secret@127.0.0.1:1")
	for _, args := range [][]string{{"--help"}, {"append", "--help"}, {"replay", "--queue", "q", "--stream", "s"}} {
		if _, out, stderr := cli(t, "", args...); strings.Contains(out+stderr, "secret") {
			t.Errorf("%v prints the password of the environment: %s%s", args, out, stderr)
		}
	}
}

func TestInfo(t *testing.T) {
	srv := redistest.Start(t)
	where := []string{"--redis", srv.URL(), "--queue", "q", "--stream", "s"}
	if code, _, stderr := cli(t, "{\"a\":\"1\"}\n{\"a\":\"2\"}\n", append([]string{"append"}, where...)...); code != exitOK {
		t.Fatal(stderr)
	}
	srv.Do("XGROUP", "CREATE", "emq:{q}:stream:s", "g", "0")
	srv.Do("XREADGROUP", "GROUP", "g", "m", "COUNT", "1", "STREAMS", "emq:{q}:stream:s", ">")

	code, out, stderr := cli(t, "", append([]string{"stream", "info", "-o", "json"}, where...)...)
	var stream streamView
	if err := json.Unmarshal([]byte(out), &stream); code != exitOK || err != nil {
		t.Fatalf("exit %d, %v: %s", code, err, stderr)
	}
	if stream.Length != 2 || stream.Groups != 1 || stream.Last != stream.Newest || !stream.First.Less(stream.Newest) || stream.Floor != (evtid.ID{}) {
		t.Errorf("stream info: %s", out)
	}
	code, out, stderr = cli(t, "", append([]string{"group", "info", "-o", "json"}, where...)...)
	var groups []groupView
	if err := json.Unmarshal([]byte(out), &groups); code != exitOK || err != nil {
		t.Fatalf("exit %d, %v: %s", code, err, stderr)
	}
	if len(groups) != 1 || groups[0].Pending != 1 || groups[0].LastDelivered != stream.First || len(groups[0].Members) != 1 {
		t.Errorf("group info: %s", out)
	}
	for _, verb := range [][]string{{"stream", "info"}, {"group", "info"}} {
		if code, out, _ := cli(t, "", append(verb, where...)...); code != exitOK || !strings.Contains(out, stream.First.String()) {
			t.Errorf("%v as a table: exit %d: %s", verb, code, out)
		}
	}
}

func TestReplayRefusesAMissingArchive(t *testing.T) {
	srv := redistest.Start(t)
	path := filepath.Join(t.TempDir(), "absent.db")
	code, _, stderr := cli(t, "", "replay", "--redis", srv.URL(), "--queue", "q", "--stream", "s", "--archive", path)
	if code == exitOK || !strings.Contains(stderr, path) {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
