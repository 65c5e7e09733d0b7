package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseBenchmark(t *testing.T) {
	const header = `"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"` + "\n"
	for _, c := range []struct {
		name, out      string
		rate, p50, p99 float64
		fails          string
	}{
		{name: "7.0", out: header + `"XADD s * a b","200000.50","0.065","0.048","0.055","0.175","0.255","0.295"` + "\n", rate: 200000.5, p50: 55, p99: 255},
		{
			name: "quotes and commas in the command", rate: 1520484.88, p50: 55, p99: 255,
			out: header + `"PUBLISH c {"a":"b","c":"d"}","1520484.88","0.065","0.048","0.055","0.175","0.255","0.295"` + "\n",
		},
		{name: "before 6.2", out: `"XADD s * a b","37000.00"` + "\n", rate: 37000},
		{name: "nothing", out: "", fails: "cannot read"},
		{name: "words", out: "Could not connect to Redis", fails: "cannot read"},
		{name: "short", out: header + `"XADD","1"`, fails: "cannot read"},
		{name: "no number", out: `"XADD","fast"`, fails: "requests per second"},
		{name: "too quick", out: `"XADD","0.00"`, fails: "too quick"},
		{name: "bad latency", out: header + `"XADD","10","x","x","x","x","x","x"`, fails: "latencies"},
	} {
		s, err := parseBenchmark(c.out, 1000)
		switch {
		case c.fails != "":
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: error %v, want one with %q", c.name, err, c.fails)
			}
		case err != nil:
			t.Errorf("%s: %v", c.name, err)
		case math.Abs(s.perSecond()/c.rate-1) > 1e-5 || math.Abs(s.p50-c.p50) > 1e-9 || math.Abs(s.p99-c.p99) > 1e-9:
			t.Errorf("%s: %v/s, p50 %v, p99 %v", c.name, s.perSecond(), s.p50, s.p99)
		}
	}
}

func TestParseStat(t *testing.T) {
	const rest = " S 1 2 3 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 5 0 1000 1 1"
	for _, name := range []string{"(redis-server)", "(a b) c)", "(() 9 9 9)"} {
		if got, err := parseStat("42 " + name + rest); err != nil || got != 2*time.Second {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for _, bad := range []string{"", "42 redis S 1", "42 (x) S 1 2", "42 (x) S 1 2 3 4 5 6 7 8 9 10 u s"} {
		if got, err := parseStat(bad); err == nil {
			t.Errorf("%q was read as %v", bad, got)
		}
	}
}

func TestChoose(t *testing.T) {
	tests := catalogue(options{})
	for only, want := range map[string][]string{
		"append-1":            {"append-1"},
		"consume,append-1024": {"append-1024", "consume"},
		"failover-max":        {"failover"},
		"failover":            {"failover"},
	} {
		got, err := choose(tests, only)
		if err != nil {
			t.Fatal(err)
		}
		var first []string
		for _, c := range got {
			first = append(first, c.names[0])
		}
		if !slices.Equal(first, want) {
			t.Errorf("-only %s runs %v, want %v", only, first, want)
		}
	}
	if _, err := choose(tests, "append-1,nonsense"); err == nil || !strings.Contains(err.Error(), "nonsense") || !strings.Contains(err.Error(), "fold-local") {
		t.Errorf("an unknown row gave %v", err)
	}
}

// TestCatalogue holds the promised rows, each once.
func TestCatalogue(t *testing.T) {
	var names []string
	for _, c := range slices.Concat(catalogue(options{}), catalogue(options{growth: true})) {
		names = append(names, c.names...)
	}
	seen := map[string]bool{}
	for _, n := range names {
		if seen[n] {
			t.Errorf("row %s is there twice", n)
		}
		seen[n] = true
	}
	for _, n := range strings.Fields(`append-1 append-64 append-1024 append-batch append-allocs announce-1024
		append-vs-watermill append-vs-jetstream consume consume-vs-watermill consume-vs-jetstream consume-allocs
		end-to-end fold-local fold-replicated fold-single window scan replay-live failover snapshot catch-up ids
		idle memory grow-length grow-streams grow-consumers grow-record grow-archive grow-window-position`) {
		if !seen[n] {
			t.Errorf("there is no row %s", n)
		}
	}
}

func TestFailedTestFailsEachOfItsRows(t *testing.T) {
	rows := test{names: []string{"a", "b"}}.failed(io.ErrUnexpectedEOF)
	err := Report{Rows: append(rows, Row{Name: "c"})}.failure()
	if len(rows) != 2 || err == nil || err.Error() != "could not measure a, b" {
		t.Errorf("%+v, %v", rows, err)
	}
	if err := (Report{Rows: []Row{{Name: "missed"}}}).failure(); err != nil {
		t.Errorf("a missed target is a failure: %v", err)
	}
}

func TestUnknownFlagsAndFormats(t *testing.T) {
	for _, args := range [][]string{{"-o", "pdf"}, {"-nonsense"}, {"-only", "nonsense"}} {
		if err := run(context.Background(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("%v was accepted", args)
		}
	}
}

// TestShowsWhatWasRecorded goes the way of a recorded run.
func TestShowsWhatWasRecorded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.json")
	want := Report{Host: Host{CPU: "a CPU", Redis: "7.0.15"}, Rows: []Row{
		Row{Name: "append-1", Product: 9, Limit: 10}.judge(0.9, atLeast(0.95)),
		{Name: "idle", Skipped: "takes long"}, {Name: "scan", Error: "no disk"},
	}}
	if err := writeReport(path, want); err != nil {
		t.Fatal(err)
	}
	shown := func(format string) string {
		var out bytes.Buffer
		if err := run(t.Context(), []string{"-from", path, "-o", format}, &out, io.Discard); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	var rows []Row
	if err := json.Unmarshal([]byte(shown("json")), &rows); err != nil || len(rows) != 3 || rows[0].Ratio != 0.9 || rows[0].OK {
		t.Errorf("%+v, %v", rows, err)
	}
	table := shown("table")
	for _, part := range []string{"append-1", "0.90", "≥ 0.95", "NO", "skipped: takes long", "failed: no disk", "a CPU"} {
		if !strings.Contains(table, part) {
			t.Errorf("the table lacks %q:\n%s", part, table)
		}
	}
	if md := shown("md"); !strings.Contains(md, "| append-1 | 0.90 | ≥ 0.95 | NO | 9.0 | 10.0 |") || !strings.Contains(md, "| idle | | | skipped: takes long |") {
		t.Errorf("the document's table is\n%s", md)
	}
	if _, err := readReport(filepath.Join(t.TempDir(), "none.json")); err == nil {
		t.Error("a report that is not there was read")
	}
}
