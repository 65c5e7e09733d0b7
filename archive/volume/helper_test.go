package volume

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
	"go.uber.org/goleak"
)

var (
	feed  = evtlog.StreamName{Queue: "cm", Name: "feed"}
	other = evtlog.StreamName{Queue: "cm", Name: "other"}
)

// osPage is the size of bbolt's pages in a file made here.
var osPage = os.Getpagesize()

// TestMain runs a child when the test binary was started as one, else the
// tests, and then looks for goroutines left behind.
func TestMain(m *testing.M) {
	if role := os.Getenv("EVTLOG_VOLUME_CHILD"); role != "" {
		os.Exit(child(role))
	}
	goleak.VerifyTestMain(m)
}

// openAt opens a store and, at the end, verifies every chain that is not
// expected to be damaged.
func openAt(t testing.TB, path string, opts Options) *Store {
	t.Helper()
	s, err := Open(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.usable(); err == nil {
			verifyAll(t, s)
		}
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func open(t testing.TB) *Store {
	return openAt(t, filepath.Join(t.TempDir(), "archive.db"), Options{})
}

func verifyAll(t testing.TB, s *Store) {
	t.Helper()
	heads, err := s.Volumes(context.Background())
	if err != nil {
		t.Errorf("volumes: %v", err)
	}
	for _, h := range heads {
		report, err := s.Verify(context.Background(), h.Stream)
		if err != nil {
			t.Errorf("verify: %v", err)
		} else if report.Head != h || report.Records != h.Count || report.Bytes != h.Bytes || report.Commits != h.LSN {
			t.Errorf("verify found %+v, the head is %+v", report, h)
		}
	}
}

// id returns the n-th id of a stream that gets one record a millisecond.
func id(n int) evtid.ID {
	if n == 0 {
		return evtid.ID{}
	}
	v, err := evtid.Make(evtid.EpochMillis+int64(n), 7, 0)
	if err != nil {
		panic(err)
	}
	return v
}

// rec returns record n, whose content follows from n.
func rec(n int) evtlog.Record {
	return evtlog.Record{
		ID:        id(n),
		Fields:    []evtlog.Field{evtlog.F("event", "scored"), evtlog.F("n", fmt.Sprint(n)), evtlog.F("n", "twice")},
		Unbranded: n%7 == 0,
	}
}

// recs returns records from..to, both included.
func recs(from, to int) []evtlog.Record {
	var out []evtlog.Record
	for n := from; n <= to; n++ {
		out = append(out, rec(n))
	}
	return out
}

// fold folds records from..to of the stream that id makes.
func fold(t testing.TB, s *Store, stream evtlog.StreamName, from, to int) {
	t.Helper()
	w, err := s.Fold(t.Context(), stream, id(from-1), recs(from, to))
	if err != nil || w != id(to) {
		t.Fatalf("fold %d..%d: %v %v", from, to, w, err)
	}
}

// read collects a range.
func read(s *Store, stream evtlog.StreamName, r archive.Range) (out []evtlog.Record, err error) {
	for rec, err := range s.Read(context.Background(), stream, r) {
		if err != nil {
			return out, err
		}
		out = append(out, rec)
	}
	return out, nil
}

// same compares records but for their source.
func same(a, b []evtlog.Record) bool {
	return slices.EqualFunc(a, b, func(x, y evtlog.Record) bool {
		return x.ID == y.ID && x.Unbranded == y.Unbranded && slices.Equal(x.Fields, y.Fields)
	})
}

func wantRead(t testing.TB, s *Store, stream evtlog.StreamName, r archive.Range, want []evtlog.Record) {
	t.Helper()
	got, err := read(s, stream, r)
	if err != nil {
		t.Fatalf("read %+v: %v", r, err)
	}
	if !same(got, want) {
		t.Fatalf("read %+v: %d records %v, want %d %v", r, len(got), brief(got), len(want), brief(want))
	}
	for _, r := range got {
		if r.Source != evtlog.Archived {
			t.Fatalf("record %v has source %v", r, r.Source)
		}
	}
}

func brief(rs []evtlog.Record) []evtlog.Record { return rs[:min(len(rs), 3)] }

// within returns what a read of r over all must give.
func within(all []evtlog.Record, r archive.Range) (out []evtlog.Record) {
	for _, rec := range all {
		if r.After.Less(rec.ID) && (r.To.IsZero() || !r.To.Less(rec.ID)) {
			out = append(out, rec)
		}
	}
	if r.Reverse {
		slices.Reverse(out)
	}
	return out
}

func reversed(rs []evtlog.Record) []evtlog.Record {
	rs = slices.Clone(rs)
	slices.Reverse(rs)
	return rs
}

// waitFor waits until a condition holds.
func waitFor(t testing.TB, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatal("the condition did not come true in 20 s")
		}
		runtime.Gosched()
	}
}
