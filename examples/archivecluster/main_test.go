package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test binary stand in for the program, which starts itself
// as the nodes.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == nodeVerb || os.Args[1] == "--duration") {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestDrill runs the shortest drill as a process of its own.
func TestDrill(t *testing.T) {
	tmp := t.TempDir()
	cmd := exec.Command(os.Args[0], "--duration", "24s", "-o", "json")
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "EVTLOG_REDIS_URL=")
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(3*time.Minute, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s\n%s", err, stdout.String(), stderr.String())
	}
	var r report
	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil {
		t.Fatalf("%v: %s", err, stdout.String())
	}
	if r.Published == 0 || r.Folded != r.Published || r.Readable != r.Published || r.Lost != 0 || r.Duplicates != 0 {
		t.Errorf("it does not add up: %+v\n%s", r, stderr.String())
	}
	if r.LeaderKills < 2 || r.RestoredByDelta == 0 || !r.ChainsEqual || r.Nodes != 3 {
		t.Errorf("the drill did not show what it should: %+v\n%s", r, stderr.String())
	}
	if left, _ := filepath.Glob(filepath.Join(tmp, "*")); len(left) > 0 {
		t.Errorf("files are left: %v", left)
	}
}
