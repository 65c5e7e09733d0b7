package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evtlog/evtlog/internal/redistest"
)

// program starts the program as a process of its own. It is killed when it has not
// ended after a minute.
func program(t *testing.T, stderr io.Writer, args ...string) (cmd *exec.Cmd, in io.WriteCloser, out *bufio.Reader) {
	t.Helper()
	cmd = exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "EVTLOG_REDIS_URL=", "TMPDIR="+t.TempDir())
	cmd.Stderr = stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() { kill.Stop(); _ = cmd.Process.Kill() })
	return cmd, in, bufio.NewReader(stdout)
}

// brokenPipe is a pipe that nobody reads, as behind "| head" or a pager that was left.
func brokenPipe(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// A second Ctrl-C ends a program that cannot stop in good order, as when the server
// does not answer.
func TestSecondInterruptKills(t *testing.T) {
	srv := redistest.Start(t)
	cmd, in, out := program(t, io.Discard, "append", "--redis", srv.URL(), "--queue", "q", "--stream", "s")
	if _, err := io.WriteString(in, "{\"a\":\"1\"}\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := out.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	srv.Pause()
	defer srv.Resume()
	if _, err := io.WriteString(in, "{\"a\":\"2\"}\n"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		case <-again.C:
			_ = cmd.Process.Signal(os.Interrupt)
		}
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != syscall.SIGINT {
		t.Errorf("it ended with %s; the second interrupt was not obeyed", cmd.ProcessState)
	}
}

// A node goes on, and stops in good order, when nobody reads its log any more.
func TestNodeOutlivesItsLog(t *testing.T) {
	n := newNode(t, "a")
	cmd, _, out := program(t, brokenPipe(t), "archive", "serve", "--bootstrap", "--dir", n.dir, "--id", n.id, "--cluster", "c", "--raft", n.raft, "--http", n.http)
	if line, err := out.ReadString('\n'); err != nil || !strings.Contains(line, "serves at") {
		t.Fatalf("%q, %v", line, err)
	}
	var peers []peerView
	decode(t, &peers, "raft", "peers", "--nodes", n.http)
	for deadline := time.Now().Add(20 * time.Second); peers[0].State != "Leader" && time.Now().Before(deadline); {
		decode(t, &peers, "raft", "peers", "--nodes", n.http)
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// A replay whose output nobody reads gives its lease back, so that the next one need
// not wait for it.
func TestDeadReplayUnread(t *testing.T) {
	r := newDeadRig(t, cliNode)
	r.lay(3, "g")
	cmd := exec.Command(os.Args[0], "dead", "replay", "--redis", r.srv.URL(), "--queue", "q", "--stream", "s", "--yes", "-o", "jsonl")
	cmd.Stdout = brokenPipe(t)
	if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != exitFailed {
		t.Errorf("unread: %v", err)
	}
	if code, _, stderr := r.run("replay", "--yes"); code != exitOK {
		t.Errorf("the next one: exit %d: %s", code, stderr)
	}
	if n := len(r.records(r.work)); n != 3 {
		t.Errorf("%d records for 3 letters", n)
	}
}

// The demonstration ends and reconciles when nobody watches it any more.
func TestDemoUnwatched(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd, _, out := program(t, w, "demo", "-o", "json")
	_ = w.Close()
	for scan := bufio.NewScanner(r); scan.Scan() && !strings.Contains(scan.Text(), "guesses"); {
	}
	_ = r.Close()
	var report map[string]any
	if err := json.NewDecoder(out).Decode(&report); err != nil || report["chain_ok"] != true || report["lost"] != 0.0 {
		t.Errorf("it reported %v, %v", report, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	tmp := strings.TrimPrefix(cmd.Env[len(cmd.Env)-1], "TMPDIR=")
	if left, err := filepath.Glob(filepath.Join(tmp, "*")); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
}
