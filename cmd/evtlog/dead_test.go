package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/streamconsumer"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/redislog"
	"github.com/evtlog/evtlog/runtime"
)

const (
	workKey = "emq:{q}:stream:s"
	deadKey = workKey + ".dead"
)

// deadRig is a server with a stream q/s that node writes, which is the command
// line's own number unless a test is about another writer.
type deadRig struct {
	t    *testing.T
	srv  *redistest.Server
	rt   *runtime.Runtime
	work *runtime.Log
	dead *runtime.Log
}

func newDeadRig(t *testing.T, node int, consumers ...runtime.Consumer) *deadRig {
	t.Helper()
	r := &deadRig{t: t, srv: redistest.Start(t)}
	var err error
	r.rt, err = runtime.Start(t.Context(), runtime.Config{
		Redis: redislog.Config{URL: r.srv.URL()}, Node: node,
		Streams:   []runtime.Stream{{Queue: "q", Name: "s"}, {Queue: "q", Name: "s.dead"}},
		Consumers: consumers,
	})
	r.must(err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		r.must(r.rt.Stop(ctx))
	})
	r.work, err = r.rt.Stream("q", "s")
	r.must(err)
	r.dead, err = r.rt.Stream("q", "s.dead")
	r.must(err)
	return r
}

func (r *deadRig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// lay stores n letters of a group without a consumer, and returns their ids.
func (r *deadRig) lay(n int, group string) (ids []evtid.ID) {
	r.t.Helper()
	records := make([][]evtlog.Field, n)
	for i := range records {
		records[i] = letterFields(idAt(i), group, evtlog.F("v", fmt.Sprint(i)))
	}
	receipts, err := r.dead.AppendBatch(r.t.Context(), records)
	r.must(err)
	for _, receipt := range receipts {
		ids = append(ids, receipt.ID)
	}
	return ids
}

// run runs a dead verb on q/s.
func (r *deadRig) run(verb string, args ...string) (code int, stdout, stderr string) {
	r.t.Helper()
	return cli(r.t, "", append([]string{"dead", verb, "--redis", r.srv.URL(), "--queue", "q", "--stream", "s"}, args...)...)
}

// report runs a replay that is to succeed.
func (r *deadRig) report(args ...string) (report replayReport) {
	r.t.Helper()
	code, out, stderr := r.run("replay", append([]string{"-o", "json"}, args...)...)
	if code != exitOK {
		r.t.Fatalf("replay %v: exit %d: %s", args, code, stderr)
	}
	r.must(json.Unmarshal([]byte(out), &report))
	return report
}

// records reads a whole stream.
func (r *deadRig) records(log *runtime.Log) (out []evtlog.Record) {
	r.t.Helper()
	for rec, err := range log.Read(r.t.Context(), evtlog.Window{}) {
		r.must(err)
		out = append(out, rec)
	}
	return out
}

// What a letter was refused for is said in flags.
func TestDeadReplayRefusesInFlags(t *testing.T) {
	r := newDeadRig(t, cliNode)
	r.lay(1, "g")
	_, out, _ := r.run("replay", "--dry-run", "-o", "jsonl", "--max-record-bytes", "3")
	if !strings.Contains(out, "raise --max-record-bytes") {
		t.Errorf("printed %s", out)
	}
}

// TestDeadLettersOfAConsumer goes the whole way: a consumer gives entries up,
// they are listed, replayed, and given to the group again.
func TestDeadLettersOfAConsumer(t *testing.T) {
	handled := make(chan evtlog.Delivery, 10)
	r := newDeadRig(t, cliNode, runtime.Consumer{
		Queue: "q", Stream: "s", Group: "g", Name: "m", Start: streamconsumer.FromHead,
		MaxDeliveries: 2, RetryMin: 5 * time.Millisecond, RetryMax: 10 * time.Millisecond, Block: 50 * time.Millisecond,
		Handler: func(_ context.Context, d evtlog.Delivery) error {
			if _, again := d.Get(fieldReplayOf); !again {
				return errors.New("not\tyet")
			}
			handled <- d
			return nil
		},
	})
	origin, err := r.work.Append(t.Context(), evtlog.F("b", "1"), evtlog.F("a", "\x00\xff"), evtlog.F("b", "2"))
	r.must(err)
	for deadline := time.Now().Add(20 * time.Second); r.srv.Do("XLEN", deadKey) != ":1"; {
		if time.Now().After(deadline) {
			t.Fatal("the entry was not given up")
		}
		<-time.After(5 * time.Millisecond)
	}
	letterID := r.records(r.dead)[0].ID

	code, out, stderr := r.run("ls", "-o", "jsonl")
	var listed struct {
		ID, Origin, Group, Reason, First, Last string
		Attempts                               int
		Fields                                 [][2][]byte `json:"fields_base64"`
	}
	if err := json.Unmarshal([]byte(out), &listed); code != exitOK || err != nil {
		t.Fatalf("exit %d, %v: %s%s", code, err, out, stderr)
	}
	if listed.ID != letterID.String() || listed.Origin != origin.String() || listed.Group != "g" || listed.Reason != "not\tyet" || listed.Attempts != 2 ||
		listed.First == "" || listed.Last < listed.First || len(listed.Fields) != 3 || string(listed.Fields[1][1]) != "\x00\xff" {
		t.Errorf("ls printed %s", out)
	}
	code, out, _ = r.run("ls")
	if want := letterID.String(); code != exitOK || !strings.Contains(out, want) || !strings.Contains(out, `"not\tyet"`) || !strings.Contains(out, `a="\x00\xff"`) {
		t.Errorf("ls printed %s", out)
	}

	if got := r.report("--yes"); got != (replayReport{Selected: 1, Replayed: 1}) {
		t.Errorf("the replay reports %+v", got)
	}
	select {
	case d := <-handled:
		want := []evtlog.Field{evtlog.F("b", "1"), evtlog.F("a", "\x00\xff"), evtlog.F("b", "2"),
			evtlog.F("replay_of", origin.String()), evtlog.F("replay_dead", letterID.String()), evtlog.F("replay_group", "g")}
		if !slices.Equal(d.Fields, want) || d.Attempts != 1 || !origin.Less(d.ID) {
			t.Errorf("the group was given %#v", d.Record)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the group was not given the entry again")
	}
	if code, out, stderr := r.run("ls", "-o", "json"); code != exitOK || out != "[]\n" || !strings.Contains(stderr, "--all") {
		t.Errorf("after the replay: exit %d, %s%s", code, out, stderr)
	}
	if _, out, _ := r.run("ls", "-o", "jsonl", "--all"); !strings.Contains(out, `"replayed_as":"`+r.records(r.work)[1].ID.String()) {
		t.Errorf("ls --all printed %s", out)
	}
}

func TestDeadListSelects(t *testing.T) {
	r := newDeadRig(t, cliNode)
	g, h := r.lay(3, "g"), r.lay(2, "h")
	_, err := r.dead.Append(t.Context(), evtlog.F("not", "a letter"))
	r.must(err)
	for _, c := range []struct {
		args []string
		want []evtid.ID
	}{
		{nil, slices.Concat(g, h)},
		{[]string{"--group", "h"}, h},
		{[]string{"--group", "nobody"}, nil},
		{[]string{"--limit", "4"}, slices.Concat(g, h[:1])},
		{[]string{"--id", g[1].String() + "," + h[1].String()}, []evtid.ID{g[1], h[1]}},
		{[]string{"--id", idAt(0).String()}, []evtid.ID{g[0], h[0]}},
		{[]string{"--from", g[2].String(), "--to", h[0].String()}, []evtid.ID{g[2], h[0]}},
		{[]string{"--to", "2024-01-02T00:00:00Z"}, nil},
	} {
		code, out, stderr := r.run("ls", append(c.args, "-o", "json")...)
		var got []struct{ ID evtid.ID }
		if err := json.Unmarshal([]byte(out), &got); code != exitOK || err != nil {
			t.Errorf("ls %v: exit %d, %v: %s%s", c.args, code, err, out, stderr)
			continue
		}
		var ids []evtid.ID
		for _, l := range got {
			ids = append(ids, l.ID)
		}
		if !slices.Equal(ids, c.want) || !strings.Contains(stderr, "1 records of q/s.dead") {
			t.Errorf("ls %v listed %v, want %v; stderr %s", c.args, ids, c.want, stderr)
		}
	}
}

// TestDeadReplayOnce: what was replayed is not replayed again, and a dry run
// says beforehand exactly what the run does.
func TestDeadReplayOnce(t *testing.T) {
	r := newDeadRig(t, cliNode)
	g := r.lay(5, "g")
	r.lay(2, "h")
	if got := r.report("--yes", "--id", g[3].String()); got != (replayReport{Selected: 1, Replayed: 1}) {
		t.Errorf("one: %+v", got)
	}
	if got := r.report("--dry-run", "--group", "g", "--limit", "3"); got != (replayReport{DryRun: true, Already: 1, Selected: 3, Replayed: 3}) {
		t.Errorf("dry run: %+v", got)
	}
	if n := r.srv.Do("XLEN", workKey); n != ":1" {
		t.Errorf("the dry run left %s records", n)
	}
	if got := r.report("--yes", "--group", "g", "--limit", "3"); got != (replayReport{Already: 1, Selected: 3, Replayed: 3}) {
		t.Errorf("three: %+v", got)
	}
	if got := r.report("--yes", "--group", "g"); got != (replayReport{Already: 4, Selected: 1, Replayed: 1}) {
		t.Errorf("the rest: %+v", got)
	}
	if got := r.report("--yes", "--group", "g"); got != (replayReport{Already: 5}) {
		t.Errorf("nothing is left: %+v", got)
	}
	code, out, stderr := r.run("replay", "--yes", "-o", "jsonl")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	records := r.records(r.work)
	last := records[len(records)-1]
	if code != exitOK || len(lines) != 2 || !strings.Contains(lines[1], `"outcome":"replayed","replayed_as":"`+last.ID.String()+`"`) || !strings.Contains(stderr, "replayed: 2") {
		t.Errorf("exit %d: %s%s", code, out, stderr)
	}
	if code, out, _ := r.run("replay", "--yes"); code != exitOK || !strings.Contains(out, "already replayed  7") {
		t.Errorf("as a table: exit %d: %s", code, out)
	}
	seen := map[evtid.ID]int{}
	for _, rec := range records {
		of, _ := linkOf(rec)
		seen[of]++
	}
	if len(records) != 7 || len(seen) != 7 {
		t.Errorf("%d records of %d letters, want 7 of 7", len(records), len(seen))
	}
}

// TestDeadReplaySettles: the record of an interrupted run has no mark. The next
// run does not append it again.
func TestDeadReplaySettles(t *testing.T) {
	r := newDeadRig(t, cliNode)
	g := r.lay(3, "g")
	orphan, err := r.work.Append(t.Context(), replayFields(letter{id: g[1], group: "g", origin: idAt(1).String()}, nil)...)
	r.must(err)
	if got := r.report("--dry-run"); got != (replayReport{DryRun: true, Selected: 3, Replayed: 2, Settled: 1}) {
		t.Errorf("dry run: %+v", got)
	}
	if got := r.report("--yes"); got != (replayReport{Selected: 3, Replayed: 2, Settled: 1}) {
		t.Errorf("%+v", got)
	}
	if n := r.srv.Do("XLEN", workKey); n != ":3" {
		t.Errorf("%s records, want 3", n)
	}
	if _, out, _ := r.run("ls", "--all", "-o", "jsonl", "--id", g[1].String()); !strings.Contains(out, `"replayed_as":"`+orphan.String()) {
		t.Errorf("the mark is missing: %s", out)
	}
}

// TestDeadReplayInterrupted stops a run in the middle and runs it again: each
// letter is replayed once.
func TestDeadReplayInterrupted(t *testing.T) {
	const n = 500
	r := newDeadRig(t, cliNode)
	r.lay(n, "g")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &cancelAt{cancel: cancel, lines: 50}
	var errOut bytes.Buffer
	code := run(ctx, []string{"dead", "replay", "--redis", r.srv.URL(), "--queue", "q", "--stream", "s", "--yes", "-o", "jsonl"}, strings.NewReader(""), out, &errOut)
	if code != exitInterrupted || !strings.Contains(errOut.String(), fmt.Sprintf("50 of %d letters are done, run the command again", n)) {
		t.Errorf("exit %d: %s", code, &errOut)
	}
	if got := r.report("--yes"); got != (replayReport{Already: 50, Selected: n - 50, Replayed: n - 50}) {
		t.Errorf("the second run: %+v", got)
	}
	if got := r.srv.Do("XLEN", workKey); got != fmt.Sprintf(":%d", n) {
		t.Errorf("%s records of %d letters", got, n)
	}
}

// cancelAt is a writer that cancels after so many writes.
type cancelAt struct {
	cancel context.CancelFunc
	lines  int
}

func (c *cancelAt) Write(p []byte) (int, error) {
	if c.lines--; c.lines == 0 {
		c.cancel()
	}
	return len(p), nil
}

// TestDeadReplayOfATruncatedLetter takes the fields from where the entry still
// is: the stream, then the archive, and else refuses.
func TestDeadReplayOfATruncatedLetter(t *testing.T) {
	r := newDeadRig(t, cliNode)
	origin, err := r.work.Append(t.Context(), evtlog.F("v", strings.Repeat("x", 1000)))
	r.must(err)
	for _, of := range []string{origin.String(), idAt(1).String(), "5-5"} {
		fields := append(letterFields(origin, "g"), evtlog.F(streamconsumer.FieldTruncated, "true"))
		fields[3].Value = of
		_, err = r.dead.Append(t.Context(), fields...)
		r.must(err)
	}
	if got := r.report("--dry-run"); got != (replayReport{DryRun: true, Selected: 3, Replayed: 1, Refused: 2}) {
		t.Errorf("dry run: %+v", got)
	}
	if got := r.report("--dry-run", "--max-record-bytes", "1010"); got.Refused != 3 {
		t.Errorf("with the link it would be too large: %+v", got)
	}
	code, out, stderr := r.run("replay", "--yes", "-o", "jsonl")
	if code != exitFailed || strings.Count(out, `"outcome":"refused"`) != 2 || !strings.Contains(out, "give the --archive") || !strings.Contains(stderr, "2 letters cannot be replayed") {
		t.Errorf("exit %d: %s%s", code, out, stderr)
	}
	if again := r.records(r.work)[1]; again.Fields[0].Value != strings.Repeat("x", 1000) || len(again.Fields) != 4 {
		t.Errorf("it was appended as %#v", again)
	}
}

// TestDeadReplayBesideAWriter: the command does not disturb a program that is
// writing, unless it is told to.
func TestDeadReplayBesideAWriter(t *testing.T) {
	r := newDeadRig(t, 7)
	r.lay(3, "g")
	_, err := r.work.Append(t.Context(), evtlog.F("v", "1"))
	r.must(err)
	code, out, stderr := r.run("replay", "--yes")
	if code != exitNotWriter || !strings.Contains(stderr, "node 7 appended to q/s") || out != "" || r.srv.Do("XLEN", workKey) != ":1" {
		t.Errorf("exit %d: %s%s", code, out, stderr)
	}
	if code, _, stderr := r.run("replay", "--dry-run"); code != exitOK || !strings.Contains(stderr, "node 7") {
		t.Errorf("dry run: exit %d: %s", code, stderr)
	}
	stop := make(chan struct{})
	ended := make(chan int)
	go func() {
		refused := 0
		for {
			select {
			case <-stop:
				ended <- refused
				return
			default:
			}
			if _, err := r.work.Append(context.Background(), evtlog.F("v", "2")); err != nil {
				refused++
			}
		}
	}()
	got := r.report("--yes", "--beside-writer")
	close(stop)
	t.Logf("beside a writer at full speed %d of its appends were refused", <-ended)
	if got != (replayReport{Selected: 3, Replayed: 3}) {
		t.Errorf("beside the writer: %+v", got)
	}
}

func TestDeadReplayTakesTurns(t *testing.T) {
	r := newDeadRig(t, cliNode)
	r.lay(1, "g")
	r.srv.Do("SET", deadKey+":lease:dead-replay", "another", "PX", "60000")
	if code, _, stderr := r.run("replay", "--yes"); code != exitFailed || !strings.Contains(stderr, "another replay of q/s is at work") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	if got := r.report("--dry-run"); got.Replayed != 1 {
		t.Errorf("a dry run needs no turn: %+v", got)
	}
	r.srv.Do("DEL", deadKey+":lease:dead-replay")
	r.report("--yes")
	if n := r.srv.Do("EXISTS", deadKey+":lease:dead-replay"); n != ":0" {
		t.Error("the turn was not given back")
	}
}

func TestDeadExitCodes(t *testing.T) {
	r := newDeadRig(t, cliNode)
	r.lay(1, "g")
	r.srv.Do("SET", "emq:{q}:stream:string.dead", "x")
	redis := []string{"--redis", r.srv.URL()}
	for _, c := range []struct {
		want int
		args []string
		text string
	}{
		{exitOK, []string{"dead"}, ""},
		{exitUsage, []string{"dead", "nonsense"}, "nonsense"},
		{exitUsage, []string{"dead", "ls", "--queue", "q"}, "stream"},
		{exitUsage, []string{"dead", "ls", "--queue", "q", "--stream", "s", "--group", "a:b"}, "a:b"},
		{exitUsage, []string{"dead", "ls", "--queue", "q", "--stream", "s", "--limit", "-1"}, "-1"},
		{exitUsage, []string{"dead", "ls", "--queue", "q", "--stream", "s", "--from", "x"}, "x"},
		{exitUsage, []string{"dead", "ls", "--queue", "q", "--stream", "s", "-o", "xml"}, "xml"},
		{exitUsage, []string{"dead", "replay", "--queue", "q", "--stream", "s"}, "--yes"},
		{exitUsage, []string{"dead", "replay", "--queue", "q", "--stream", "s", "--yes", "--dry-run"}, "--dry-run"},
		{exitUsage, []string{"dead", "replay", "--queue", "q", "--stream", "s", "--yes", "--node", "1024"}, "1024"},
		{exitNotFound, []string{"dead", "ls", "--queue", "q", "--stream", "absent"}, "q/absent"},
		{exitNotFound, []string{"dead", "ls", "--queue", "q", "--stream", "s", "--id", "nobody"}, "nobody"},
		{exitNotFound, []string{"dead", "replay", "--yes", "--queue", "q", "--stream", "s", "--id", idAt(0).String() + ",nobody"}, "nobody"},
		{exitFailed, []string{"dead", "ls", "--queue", "q", "--stream", "string"}, "string.dead"},
		{exitUsage, []string{"dead", "ls", "--queue", "q", "--stream", "s", "--archive", filepath.Join(t.TempDir(), "none")}, "none"},
		{exitUnavailable, []string{"dead", "ls", "--queue", "q", "--stream", "s", "--redis", "redis://127.0.0.1:1"}, "127.0.0.1:1"},
	} {
		args := c.args
		if !slices.Contains(args, "--redis") {
			args = append(slices.Clone(args), redis...)
		}
		if code, out, stderr := cli(t, "", args...); code != c.want || !strings.Contains(stderr, c.text) {
			t.Errorf("%v: exit %d, want %d with %q: %s%s", c.args, code, c.want, c.text, out, stderr)
		}
	}
	// A stream that is there and has no dead letters.
	_, err := r.work.Append(t.Context(), evtlog.F("v", "1"))
	r.must(err)
	r.srv.Do("DEL", deadKey)
	if code, out, stderr := r.run("ls", "-o", "json"); code != exitOK || out != "[]\n" {
		t.Errorf("without letters: exit %d: %s%s", code, out, stderr)
	}
	if got := r.report("--yes"); got != (replayReport{}) {
		t.Errorf("without letters: %+v", got)
	}
}
