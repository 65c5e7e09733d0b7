package integration

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evtlog/evtlog/internal/redistest"
)

// TestReadmeProgram compiles and runs the first program of the README as it
// stands there, against a server of its own.
func TestReadmeProgram(t *testing.T) {
	srv := redistest.Start(t)
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, program, ok := strings.Cut(string(text), "```go\npackage main\n")
	program, _, closed := strings.Cut(program, "```")
	if !ok || !closed {
		t.Fatal("the README has no program")
	}
	local := strings.Replace("package main\n"+program, "redis://127.0.0.1:6379/0", srv.URL(), 1)
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(local), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "go", "run", file).CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	for _, word := range []string{"appended EVT", "handled  EVT", "read     EVT", "{event scored}"} {
		if !strings.Contains(string(out), word) {
			t.Errorf("the output lacks %q:\n%s", word, out)
		}
	}
}
