package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evtlog/evtlog/internal/redistest"
)

// TestMain lets the test binary stand in for the program: the demonstration
// starts its own executable a second time, and signals are sent to a process.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{"demo", "append", "archive", "dead"}, os.Args[1]) {
		main()
	}
	os.Exit(m.Run())
}

// demoReport runs the demonstration as a process of its own and returns its
// last line of output, decoded.
func demoReport(t *testing.T, env []string, interrupt time.Duration, args ...string) map[string]any {
	t.Helper()
	tmp := t.TempDir()
	cmd := exec.Command(os.Args[0], append([]string{"demo", "--headless", "-o", "json"}, args...)...)
	cmd.Env = append(append(os.Environ(), "TMPDIR="+tmp), env...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	if interrupt > 0 {
		time.AfterFunc(interrupt, func() { _ = cmd.Process.Signal(syscall.SIGINT) })
	}
	err := cmd.Wait()
	out := stdout.String()
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, out, stderr.String())
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var report map[string]any
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &report); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if left, _ := filepath.Glob(filepath.Join(tmp, "*")); len(left) > 0 {
		t.Errorf("files are left: %v", left)
	}
	return report
}

func checkReport(t *testing.T, r map[string]any, redis string) {
	t.Helper()
	n := func(key string) float64 { v, _ := r[key].(float64); return v }
	if n("published") == 0 || n("published") != n("readable") || n("readable") != n("archive")+n("live") {
		t.Errorf("it does not add up: %v", r)
	}
	if n("archive") == 0 || n("consumer_restarts") == 0 || n("drained_after_restart") == 0 {
		t.Errorf("it did not show the archive and a drained restart: %v", r)
	}
	if n("lost") != 0 || n("duplicates") != 0 || r["chain_ok"] != true || r["watermark"] == "" || r["redis"] != redis {
		t.Errorf("the reconciliation is %v", r)
	}
}

func TestDemoWithRedisServer(t *testing.T) {
	checkReport(t, demoReport(t, []string{"EVTLOG_REDIS_URL="}, 0, "--duration", "5s"), "server")
}

func TestDemoWithoutRedis(t *testing.T) {
	checkReport(t, demoReport(t, []string{"EVTLOG_REDIS_URL=", "PATH=" + t.TempDir()}, 0, "--duration", "5s"), "embedded")
}

// TestDemoInterrupted plays on a given server until Ctrl-C: it reconciles all
// the same, and leaves nothing of its own on the server.
func TestDemoInterrupted(t *testing.T) {
	srv := redistest.Start(t)
	checkReport(t, demoReport(t, []string{"EVTLOG_REDIS_URL=" + srv.URL()}, 6*time.Second), "url")
	if n := srv.Do("DBSIZE"); n != ":1" {
		t.Errorf("%s keys are left on the server, the format's own is all there should be", n)
	}
}
