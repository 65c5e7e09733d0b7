package volume

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"go.etcd.io/bbolt"
)

// child is what the test binary does when it was started as a child.
func child(role string) int {
	var err error
	switch role {
	case "fold":
		err = foldForEver(os.Getenv("EVTLOG_VOLUME_PATH"))
	case "limited":
		err = foldUnderALimit(os.Getenv("EVTLOG_VOLUME_PATH"))
	default:
		err = fmt.Errorf("no such child: %s", role)
	}
	if err != nil {
		fmt.Println("child:", err)
		return 1
	}
	return 0
}

// startChild starts the test binary as a child.
func startChild(t *testing.T, role, path string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "EVTLOG_VOLUME_CHILD="+role, "EVTLOG_VOLUME_PATH="+path)
	cmd.Stderr = os.Stderr
	return cmd
}

func crashStream(n int) evtlog.StreamName {
	return evtlog.StreamName{Queue: "crash", Name: fmt.Sprint("s", n)}
}

const crashStreams = 3

// foldForEver folds into several streams at once, goes on where the file ends,
// and prints "<stream> <record>" after each fold that was acknowledged.
func foldForEver(path string) error {
	s, err := Open(path, Options{})
	if err != nil {
		return err
	}
	fmt.Println("open")
	var out sync.Mutex
	errs := make(chan error)
	for i := range crashStreams {
		go func() {
			w, err := s.Watermark(context.Background(), crashStream(i))
			at := 0
			if !w.IsZero() {
				at = int(w.UnixMilli() - id(0).UnixMilli())
			}
			for ; err == nil; at += 1 + (at+i)%50 {
				next := at + 1 + (at+i)%50
				if _, err = s.Fold(context.Background(), crashStream(i), id(at), recs(at+1, next)); err == nil {
					out.Lock()
					fmt.Println(i, next)
					out.Unlock()
				}
			}
			errs <- err
		}()
	}
	return <-errs
}

// Whatever was acknowledged before a SIGKILL is there after it, and nothing else
// is but what was on its way.
func TestKilledWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "archive.db")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 5))
	acked := make([]int, crashStreams)
	total := 0
	for round := range 20 {
		cmd := startChild(t, "fold", path)
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(stdout)
		var kill *time.Timer
		for lines.Scan() {
			if kill == nil {
				// The moment of death is drawn, not waited for.
				kill = time.AfterFunc(time.Duration(rng.Int64N(int64(60*time.Millisecond))), func() { _ = cmd.Process.Kill() })
			}
			var stream, n int
			if _, err := fmt.Sscan(lines.Text(), &stream, &n); err == nil {
				acked[stream] = n
				total++
			} else if lines.Text() != "open" {
				t.Errorf("round %d: %s", round, lines.Text())
			}
		}
		_ = cmd.Wait()
		s := openAt(t, path, Options{})
		for i, n := range acked {
			w, err := s.Watermark(t.Context(), crashStream(i))
			if err != nil || w.Less(id(n)) {
				t.Fatalf("round %d: stream %d was acknowledged up to %d, has %v: %v", round, i, n, w, err)
			}
			last := 0
			if !w.IsZero() {
				last = int(w.UnixMilli() - id(0).UnixMilli())
			}
			wantRead(t, s, crashStream(i), archive.Range{}, recs(1, last))
		}
		verifyAll(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if total == 0 {
		t.Error("nothing was acknowledged before any of the kills")
	}
}

// fillUp folds 50 records at a time until there is no room, and returns the
// first record that did not fit.
func fillUp(s *Store) (next int, err error) {
	next = 1
	for err == nil {
		if _, err = s.Fold(context.Background(), feed, id(next-1), recs(next, next+49)); err == nil {
			next += 50
		}
	}
	return next, err
}

// stayedWhole checks a store that is full: it says so, all is there, and
// nothing half.
func stayedWhole(s *Store, next int) error {
	for range 3 {
		_, err := s.Fold(context.Background(), feed, id(next-1), recs(next, next+49))
		var full *FullError
		if !errors.As(err, &full) || full.Path != s.Path() || !errors.Is(err, ErrFull) {
			return fmt.Errorf("fold into a full store: %w", err)
		}
	}
	w, err := s.Watermark(context.Background(), feed)
	if err != nil || w != id(next-1) {
		return fmt.Errorf("watermark %v, want %v: %w", w, id(next-1), err)
	}
	_, err = s.Verify(context.Background(), feed)
	return err
}

// goesOn checks that a store that was full takes the same fold when there is room.
func goesOn(s *Store, next int) error {
	if _, err := s.Fold(context.Background(), feed, id(next-1), recs(next, next+49)); err != nil {
		return fmt.Errorf("fold with room again: %w", err)
	}
	got, err := read(s, feed, archive.Range{})
	if err != nil || !same(got, recs(1, next+49)) {
		return fmt.Errorf("%d records, want %d: %w", len(got), next+49, err)
	}
	_, err = s.Verify(context.Background(), feed)
	return err
}

func TestMaxBytes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "archive.db")
	s, err := Open(path, Options{MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	next, err := fillUp(s)
	if !errors.Is(err, ErrFull) || next < 1000 {
		t.Fatalf("full after %d records: %v", next, err)
	}
	if err := stayedWhole(s, next); err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Stat(path); info.Size() > 1<<20 {
		t.Errorf("the file has %d bytes", info.Size())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := goesOn(openAt(t, path, Options{MaxBytes: 8 << 20}), next); err != nil {
		t.Fatal(err)
	}
}

// A write that fails in any other way leaves nobody knowing what is on the disk.
func TestFailedDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "archive.db")
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	fold(t, s, feed, 1, 10)
	waiting := make(chan error)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	go func() {
		for _, err := range s.Read(ctx, feed, archive.Range{AtLeast: id(11)}) {
			waiting <- err
			return
		}
		waiting <- nil
	}()
	// The disk goes away under bbolt.
	if err := s.file.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = s.Fold(t.Context(), feed, id(10), recs(11, 20))
	var failed *FailedError
	if !errors.As(err, &failed) || !errors.Is(err, ErrFailed) || !errors.Is(err, os.ErrClosed) || failed.Path != path {
		t.Fatalf("fold: %v", err)
	}
	for name, err := range map[string]error{
		"fold":      second(s.Fold(ctx, feed, id(10), recs(11, 20))),
		"read":      second(read(s, feed, archive.Range{})),
		"watermark": second(s.Watermark(ctx, feed)),
		"update":    s.Update(func(*bbolt.Tx) error { return nil }),
		"waiting":   <-waiting,
	} {
		if !errors.Is(err, ErrFailed) {
			t.Errorf("%s after the failure: %v", name, err)
		}
	}
	_ = s.Close()
	again := openAt(t, path, Options{})
	wantRead(t, again, feed, archive.Range{}, recs(1, 10))
	fold(t, again, feed, 11, 20)
}

// When bbolt cannot even undo, the store ends, and Close still frees the file.
func TestStuckTransaction(t *testing.T) {
	path := filepath.Join(t.TempDir(), "archive.db")
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Update(func(tx *bbolt.Tx) error {
		_ = tx.Rollback()
		return errors.New("boom")
	})
	if !errors.Is(err, ErrFailed) {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	openAt(t, path, Options{})
}

// A file that shrinks under an open store faults in the memory map. That must
// not end the process.
func TestFaultInTheMap(t *testing.T) {
	path := filepath.Join(t.TempDir(), "archive.db")
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	fold(t, s, feed, 1, 5000)
	if err := os.Truncate(path, int64(2*osPage)); err != nil {
		t.Fatal(err)
	}
	if _, err := read(s, feed, archive.Range{}); !errors.Is(err, archive.ErrCorrupt) {
		t.Errorf("read: %v", err)
	}
	if _, err := s.Fold(t.Context(), other, id(0), recs(1, 1)); !errors.Is(err, archive.ErrCorrupt) && !errors.Is(err, ErrFailed) {
		t.Errorf("fold: %v", err)
	}
	if err := s.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketVolumes).ForEach(func(_, _ []byte) error { return nil })
	}); err == nil {
		t.Error("the view saw nothing")
	}
	_ = s.Close()
}
