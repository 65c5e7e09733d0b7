package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/redistest"
)

// asProgram in the environment makes the test binary be the program: the
// example starts its own executable for its members.
const asProgram = "EVTLOG_PELDRAIN_IS_THE_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// program is the example as a process, with a temporary directory of its own.
type program struct {
	*exec.Cmd
	out, progress bytes.Buffer
	tmp           string
}

func command(t *testing.T, env []string, args ...string) *program {
	t.Helper()
	p := &program{Cmd: exec.Command(os.Args[0], args...), tmp: t.TempDir()}
	p.Env = append(append(os.Environ(), asProgram+"=1", "TMPDIR="+p.tmp), env...)
	p.Stdout, p.Stderr = &p.out, &p.progress
	return p
}

// play runs the example to its end and returns its report.
func play(t *testing.T, env ...string) (r report, progress string) {
	t.Helper()
	p := command(t, env, "-o", "json")
	begun := time.Now()
	if err := p.Run(); err != nil {
		t.Fatalf("%v: %s\n%s", err, &p.out, &p.progress)
	}
	if took := time.Since(begun); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
	lines := strings.Split(strings.TrimSpace(p.out.String()), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil {
		t.Fatalf("%v: %s", err, &p.out)
	}
	if left, _ := filepath.Glob(filepath.Join(p.tmp, "*")); len(left) > 0 {
		t.Errorf("files are left: %v", left)
	}
	return r, p.progress.String()
}

func check(t *testing.T, r report, redis string) {
	t.Helper()
	if err := r.err(); err != nil {
		t.Errorf("%v: %+v", err, r)
	}
	// Half of the first batch was handled before the kill, and none of it
	// acknowledged. One of these was the poison.
	if r.Redis != redis || r.Appended < 6*batch || r.Drained != batch || r.Duplicates < batch/2-1 {
		t.Errorf("the report is %+v", r)
	}
}

func TestWithRedisServer(t *testing.T) {
	r, progress := play(t, urlVariable+"=")
	check(t, r, "server")
	if r.Note != "" {
		t.Errorf("a redis-server needs no note, and it is %q", r.Note)
	}
	// People see what was pending before what is new.
	back := progress[strings.Index(progress, "she comes back"):]
	pending, drained, fresh := strings.Index(back, "was pending"), strings.Index(back, "has drained"), strings.Index(back, " new")
	if pending < 0 || drained < pending || fresh < drained {
		t.Errorf("pending entries at %d, the drain at %d, new entries at %d of\n%s", pending, drained, fresh, back)
	}
}

func TestWithoutRedis(t *testing.T) {
	r, _ := play(t, urlVariable+"=", "PATH="+t.TempDir())
	check(t, r, "embedded")
	if r.Note != standIn {
		t.Errorf("the note is %q", r.Note)
	}
}

// TestOnAGivenServer leaves nothing behind on it but the key of the format.
func TestOnAGivenServer(t *testing.T) {
	srv := redistest.Start(t)
	r, _ := play(t, urlVariable+"="+srv.URL())
	check(t, r, "url")
	if n := srv.Do("DBSIZE"); n != ":1" {
		t.Errorf("%s keys are left on the server", n)
	}
}

// TestInterrupted ends the example while a member works: it says so, and leaves
// neither keys nor members.
func TestInterrupted(t *testing.T) {
	srv := redistest.Start(t)
	p := command(t, []string{urlVariable + "=" + srv.URL()})
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for srv.Do("KEYS", "emq:*") == "*0" && time.Now().Before(deadline) {
		<-time.After(time.Millisecond)
	}
	_ = p.Process.Signal(syscall.SIGINT)
	if err := p.Wait(); err == nil || !strings.Contains(p.progress.String(), "peldrain: ") {
		t.Errorf("an interrupted run ended with %v: %s", err, &p.progress)
	}
	if n := srv.Do("DBSIZE"); n != ":1" {
		t.Errorf("%s keys are left on the server", n)
	}
	for clients(srv) != "1" {
		if time.Now().After(deadline) {
			t.Fatalf("%s clients are still connected", clients(srv))
		}
		<-time.After(5 * time.Millisecond)
	}
}

// clients returns how many connections the server has, this question included.
func clients(srv *redistest.Server) string {
	_, rest, _ := strings.Cut(srv.Do("INFO", "clients"), "connected_clients:")
	n, _, _ := strings.Cut(rest, "\r")
	return n
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"-o", "xml"}, {"nonsense"}, {"-x"}} {
		p := command(t, nil, args...)
		if err := p.Run(); err == nil || p.out.Len() > 0 || !strings.Contains(p.progress.String(), strings.TrimPrefix(args[len(args)-1], "-")) {
			t.Errorf("%v: %v: %s%s", args, err, &p.out, &p.progress)
		}
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	if err := show(&out, "table", report{Appended: 60, Handled: 59, Dead: 1, Redis: "embedded", Note: standIn}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"appended       60\n", "handled        59, and 1 in the dead stream\n", "note           the embedded"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, &out)
		}
	}
}

// TestReportFindsFaults: the exit code says whether it held.
func TestReportFindsFaults(t *testing.T) {
	good := report{Appended: 60, Handled: 59, Dead: 1, DrainedFirst: true, Reclaimed: 3}
	if err := good.err(); err != nil {
		t.Errorf("a good report: %v", err)
	}
	for want, change := range map[string]func(*report){
		"1 records were neither": func(r *report) { r.Missing, r.Handled = 1, 58 },
		"do not add up":          func(r *report) { r.Handled-- },
		"did not begin":          func(r *report) { r.DrainedFirst = false },
		"nothing was taken over": func(r *report) { r.Reclaimed = 0 },
		"2 entries are":          func(r *report) { r.Dead, r.Handled = 2, 58 },
	} {
		bad := good
		change(&bad)
		if err := bad.err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", bad, err, want)
		}
	}
}

func TestDrainedFirst(t *testing.T) {
	at := func(n uint64) evtid.ID {
		id, err := evtid.FromSnowflake(n)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	taken := func(ns ...uint64) (out []saying) {
		for _, n := range ns {
			out = append(out, saying{what: sayTaken, id: at(n)})
		}
		return out
	}
	pending := []evtid.ID{at(1), at(2), at(3)}
	for _, tc := range []struct {
		name    string
		pending []evtid.ID
		taken   []saying
		want    bool
	}{
		{"all of it, in order", pending, taken(1, 2, 3, 4), true},
		{"nothing else", pending, taken(1, 2, 3), true},
		{"something new in between", pending, taken(1, 2, 4, 3), false},
		{"out of order", pending, taken(2, 1, 3), false},
		{"not all", pending, taken(1, 2), false},
		{"nothing was pending: nothing is shown", nil, taken(1), false},
	} {
		if got := drainedFirst(tc.pending, tc.taken); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}
