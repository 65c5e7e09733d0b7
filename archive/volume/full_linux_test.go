package volume

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// foldUnderALimit fills a store up to a limit on the size of files, which needs
// no rights to set, then lifts the limit and goes on.
func foldUnderALimit(path string) error {
	signal.Ignore(syscall.SIGXFSZ)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	lower := limit
	lower.Cur = 3 << 20
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &lower); err != nil {
		return err
	}
	s, err := Open(path, Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	next, err := fillUp(s)
	if !errors.Is(err, ErrFull) || !errors.Is(err, syscall.EFBIG) && !strings.Contains(err.Error(), syscall.EFBIG.Error()) {
		return fmt.Errorf("full after %d records: %w", next, err)
	}
	if err := stayedWhole(s, next); err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	return goesOn(s, next)
}

func TestFileSizeLimit(t *testing.T) {
	cmd := startChild(t, "limited", filepath.Join(t.TempDir(), "archive.db"))
	if out, err := cmd.Output(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// On a real full disk, where the system lets the test make a small one.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		// TestFileSizeLimit goes the same way with another error of the system.
		t.Logf("no right to mount a small disk (%v)", err)
		return
	}
	defer func() {
		if err := exec.Command("umount", "-l", dir).Run(); err != nil {
			t.Error(err)
		}
	}()
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Open(filepath.Join(dir, "archive.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	next, err := fillUp(s)
	if !errors.Is(err, ErrFull) || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("full after %d records: %v", next, err)
	}
	if err := stayedWhole(s, next); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := goesOn(s, next); err != nil {
		t.Fatal(err)
	}
}
