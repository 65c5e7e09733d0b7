package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/archivetest"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
	"go.etcd.io/bbolt"
)

func TestConformance(t *testing.T) {
	archivetest.Conformance(t, func(t *testing.T) archive.Archive { return open(t) })
}

func TestFoldAnswers(t *testing.T) {
	s := open(t)
	fold(t, s, feed, 1, 10)
	fold(t, s, feed, 11, 20)
	fold(t, s, feed, 21, 21)

	changed := recs(11, 20)
	changed[4].Fields = append(changed[4].Fields, evtlog.F("one", "more"))
	branded := recs(11, 20)
	branded[2].Unbranded = !branded[2].Unbranded
	tests := []struct {
		name    string
		prev    evtid.ID
		records []evtlog.Record
		ok      bool
	}{
		{"the first fold again", id(0), recs(1, 10), true},
		{"a fold in the middle again", id(10), recs(11, 20), true},
		{"the last fold again", id(20), recs(21, 21), true},
		{"half of it", id(10), recs(11, 15), false},
		{"two at once", id(0), recs(1, 20), false},
		{"one field more", id(10), changed, false},
		{"another brand", id(10), branded, false},
		{"from inside a fold", id(15), recs(16, 20), false},
		{"from below, new records", id(20), recs(22, 25), false},
		{"from above", id(22), recs(23, 25), false},
		{"from nothing", id(0), recs(30, 31), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, err := s.Fold(t.Context(), feed, tt.prev, tt.records)
			if tt.ok {
				if err != nil || w != tt.records[len(tt.records)-1].ID {
					t.Fatalf("got %v, %v", w, err)
				}
				return
			}
			var conflict *archive.ConflictError
			if !errors.As(err, &conflict) || conflict.Watermark != id(21) || conflict.Prev != tt.prev {
				t.Fatalf("got %v, %v", w, err)
			}
		})
	}
	wantRead(t, s, feed, archive.Range{}, recs(1, 21))
	if h, _ := s.Begin(t.Context(), feed); h.LSN != 3 {
		t.Fatalf("head %+v", h)
	}
}

func TestCommitIsOptimistic(t *testing.T) {
	s := open(t)
	empty, err := s.Begin(t.Context(), feed)
	if err != nil || empty != (Head{Stream: feed}) {
		t.Fatalf("%+v %v", empty, err)
	}
	h1, err := s.Commit(t.Context(), empty, recs(1, 5))
	if err != nil || h1.LSN != 1 || h1.Count != 5 || h1.Watermark != id(5) || h1.Bytes == 0 {
		t.Fatalf("%+v %v", h1, err)
	}
	_, err = s.Commit(t.Context(), empty, recs(1, 5))
	var conflict *HeadConflictError
	if !errors.As(err, &conflict) || conflict.Head != h1 || conflict.Base != empty || !errors.Is(err, archive.ErrConflict) {
		t.Fatalf("stale base: %v", err)
	}
	h2, err := s.Commit(t.Context(), conflict.Head, recs(6, 6))
	if err != nil || h2.LSN != 2 {
		t.Fatal(h2, err)
	}
	forged := h2
	forged.Chain[0]++
	if _, err = s.Commit(t.Context(), forged, recs(7, 7)); !errors.As(err, &conflict) {
		t.Fatalf("another history: %v", err)
	}
	if got, _ := s.Begin(t.Context(), feed); got != h2 {
		t.Fatalf("head %+v, want %+v", got, h2)
	}
}

func TestRefusals(t *testing.T) {
	s := open(t)
	big := rec(1)
	big.Fields = []evtlog.Field{evtlog.F("body", strings.Repeat("x", MaxCommitBytes))}
	bad := evtlog.StreamName{Queue: "a\x00b", Name: "feed"}
	var name *keyspace.NameError
	tests := []struct {
		name string
		err  error
		want func(error) bool
	}{
		{"no records", second(s.Fold(t.Context(), feed, id(0), nil)), is(archive.ErrRejected)},
		{"out of order", second(s.Fold(t.Context(), feed, id(0), []evtlog.Record{rec(2), rec(1)})), is(archive.ErrRejected)},
		{"too large", second(s.Fold(t.Context(), feed, id(0), []evtlog.Record{big})), is(archive.ErrRejected)},
		{"bad name", second(s.Fold(t.Context(), bad, id(0), recs(1, 1))), is(archive.ErrRejected)},
		{"bad name of a watermark", second(s.Watermark(t.Context(), bad)), func(err error) bool { return errors.As(err, &name) }},
		{"bad name of a read", second(read(s, bad, archive.Range{})), func(err error) bool { return errors.As(err, &name) }},
	}
	for _, tt := range tests {
		if !tt.want(tt.err) {
			t.Errorf("%s: %v", tt.name, tt.err)
		}
	}
	if heads, err := s.Volumes(t.Context()); err != nil || len(heads) != 0 {
		t.Errorf("volumes %v %v", heads, err)
	}
}

func second[T any](_ T, err error) error { return err }

func is(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

// holdUp keeps the writer busy with a fold of records 1..3 into other, which
// cannot go on before the returned function is called.
func holdUp(t *testing.T, s *Store) (r *request, release func()) {
	t.Helper()
	hold, held, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Update(func(*bbolt.Tx) error { close(held); <-hold; return nil })
	}()
	<-held
	data, err := EncodeCommit(nil, other, id(0), recs(1, 3))
	if err != nil {
		t.Fatal(err)
	}
	r = &request{stream: other, data: &data, done: make(chan struct{})}
	r.view, _ = parseCommitHeader(data)
	s.enqueue(r)
	waitFor(t, func() bool { return queued(s) == 0 })
	return r, func() { close(hold); <-done }
}

func queued(s *Store) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue)
}

// Folds that wait together are written together; each has its own answer.
func TestFoldsShareATransaction(t *testing.T) {
	s := open(t)
	const streams = 20
	_, release := holdUp(t, s)
	var before int
	_ = s.db.View(func(tx *bbolt.Tx) error { before = tx.ID(); return nil })
	var wg sync.WaitGroup
	answers := make(chan error, 2*streams)
	for i := range streams {
		stream := evtlog.StreamName{Queue: "q", Name: fmt.Sprint("s", i)}
		wg.Go(func() { answers <- second(s.Fold(context.Background(), stream, id(0), recs(1, 3))) })
		wg.Go(func() { answers <- second(s.Fold(context.Background(), stream, id(8), recs(9, 9))) })
	}
	waitFor(t, func() bool { return queued(s) == 2*streams })
	release()
	wg.Wait()
	conflicts := 0
	for range 2 * streams {
		if err := <-answers; errors.Is(err, archive.ErrConflict) {
			conflicts++
		} else if err != nil {
			t.Error(err)
		}
	}
	if conflicts != streams {
		t.Errorf("%d conflicts, want %d", conflicts, streams)
	}
	_ = s.db.View(func(tx *bbolt.Tx) error {
		// One of holdUp's own, one of its fold, one for all the rest.
		if used := tx.ID() - before; used != 3 {
			t.Errorf("%d transactions for %d folds", used, 2*streams)
		}
		return nil
	})
}

func TestFoldGivesUpWithItsContext(t *testing.T) {
	s := open(t)
	taken, release := holdUp(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	waiting := make(chan error)
	go func() { waiting <- second(s.Fold(ctx, feed, id(0), recs(1, 1))) }()
	waitFor(t, func() bool { return queued(s) == 1 })
	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "nothing was written") {
		t.Errorf("a fold that waits: %v", err)
	}
	if _, err := s.await(ctx, taken); !errors.Is(err, context.Canceled) || errors.Is(err, archive.ErrRejected) {
		t.Errorf("a fold that is being written: %v", err)
	}
	release()
	<-taken.done
	wantRead(t, s, other, archive.Range{}, recs(1, 3))
	wantRead(t, s, feed, archive.Range{}, nil)
	if _, err := s.Fold(ctx, feed, id(0), recs(1, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: %v", err)
	}
}

func TestClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "archive.db")
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	fold(t, s, feed, 1, 3)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waiting := make(chan error)
	go func() { waiting <- second(read(s, feed, archive.Range{AtLeast: id(9)})) }()
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := <-waiting; !errors.Is(err, evtlog.ErrStopped) {
		t.Errorf("a read that waits: %v", err)
	}
	for name, err := range map[string]error{
		"fold":       second(s.Fold(ctx, feed, id(3), recs(4, 4))),
		"watermark":  second(s.Watermark(ctx, feed)),
		"read":       second(read(s, feed, archive.Range{})),
		"volumes":    second(s.Volumes(ctx)),
		"verify":     second(s.Verify(ctx, feed)),
		"quarantine": second(s.Quarantine(ctx, feed)),
		"update":     s.Update(func(*bbolt.Tx) error { return nil }),
		"view":       s.View(func(*bbolt.Tx) error { return nil }),
	} {
		if !errors.Is(err, evtlog.ErrStopped) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
	again := openAt(t, path, Options{})
	if again.ID() != s.ID() || len(s.ID()) != 32 {
		t.Errorf("ids %q and %q", s.ID(), again.ID())
	}
	wantRead(t, again, feed, archive.Range{}, recs(1, 3))
}

func TestCloseRefusesWhatWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "archive.db")
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	taken, release := holdUp(t, s)
	var wg sync.WaitGroup
	answers := make(chan error, 3)
	for range 3 {
		wg.Go(func() { answers <- second(s.Fold(context.Background(), feed, id(0), recs(1, 1))) })
	}
	waitFor(t, func() bool { return queued(s) == 3 })
	wg.Go(func() { _ = s.Close() })
	waitFor(t, func() bool { return s.usable() != nil })
	release()
	wg.Wait()
	for range 3 {
		if err := <-answers; !errors.Is(err, evtlog.ErrStopped) {
			t.Error(err)
		}
	}
	<-taken.done
	again := openAt(t, path, Options{})
	wantRead(t, again, feed, archive.Range{}, nil)
	if taken.err == nil {
		wantRead(t, again, other, archive.Range{}, recs(1, 3))
	}
}

func TestUpdateUndoes(t *testing.T) {
	s := open(t)
	fold(t, s, feed, 1, 2)
	before, _ := s.Begin(t.Context(), feed)
	data, err := EncodeCommit(nil, feed, id(2), recs(3, 4))
	if err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	err = s.Update(func(tx *bbolt.Tx) error {
		if res, err := Apply(tx, feed, data, Position{Index: 1, Term: 1}); err != nil || res.Verdict != Applied {
			t.Errorf("apply: %v %v", res, err)
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Fatal(err)
	}
	err = s.Update(func(tx *bbolt.Tx) error { panic("a damaged page") })
	if !errors.Is(err, archive.ErrCorrupt) || !strings.Contains(err.Error(), "a damaged page") {
		t.Fatal(err)
	}
	if err = s.View(func(tx *bbolt.Tx) error { panic("a damaged page") }); !errors.Is(err, archive.ErrCorrupt) {
		t.Fatal(err)
	}
	if after, err := s.Begin(t.Context(), feed); err != nil || after != before {
		t.Fatalf("%+v, want %+v: %v", after, before, err)
	}
	fold(t, s, feed, 3, 4)
}

func TestOptions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "archive.db")
	for _, o := range []Options{{LockTimeout: -1}, {MaxBytes: -1}} {
		if _, err := Open(path, o); !errors.Is(err, ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a refused Open left a file: %v", err)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none", "archive.db"), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	o := Options{}.withDefaults()
	if o.depth(DefaultCheckBytes) != deep || o.depth(DefaultCheckBytes+1) != shallow {
		t.Error("the default check is not by size")
	}
	if o := (Options{CheckBytes: -1}).withDefaults(); o.depth(1) != shallow {
		t.Error("a negative CheckBytes checks files whole")
	}
}

func TestLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "archive.db")
	openAt(t, path, Options{})
	_, err := Open(path, Options{LockTimeout: 100 * 1e6})
	if !errors.Is(err, archive.ErrLocked) || !strings.Contains(err.Error(), path) {
		t.Fatalf("second open: %v", err)
	}
	if _, err := Quarantine(path); !errors.Is(err, archive.ErrLocked) {
		t.Fatalf("quarantine of an open file: %v", err)
	}
}

func TestStoreIsMadeWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "archive.db")
	var wg sync.WaitGroup
	opened := make(chan *Store, 8)
	for range 8 {
		wg.Go(func() {
			s, err := Open(path, Options{LockTimeout: 50 * 1e6})
			if err == nil {
				opened <- s
			} else if !errors.Is(err, archive.ErrLocked) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	close(opened)
	n := 0
	for s := range opened {
		n++
		_ = s.Close()
	}
	if n != 1 {
		t.Errorf("%d of 8 opened the file", n)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestForeignFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, fill func(tx *bbolt.Tx) error) string {
		path := filepath.Join(dir, name)
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(db.Update(fill), db.Close()); err != nil {
			t.Fatal(err)
		}
		return path
	}
	formatRow := func(row []byte) func(tx *bbolt.Tx) error {
		return func(tx *bbolt.Tx) error {
			b, _ := tx.CreateBucket(bucketMeta)
			return b.Put(keyFormat, row)
		}
	}
	newer := format([storeIDSize]byte{})
	newer[len(formatMagic)+1] = 2
	torn := format([storeIDSize]byte{})
	torn[12]++
	tests := []struct {
		name    string
		fill    func(tx *bbolt.Tx) error
		version int
		want    error
	}{
		{"raft.db", func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("logs")); return err }, 0, ErrFormat},
		{"newer.db", formatRow(newer), 2, ErrFormat},
		{"odd.db", formatRow([]byte("hello world")), 0, ErrFormat},
		{"torn.db", formatRow(torn), 0, archive.ErrCorrupt},
		{"bare.db", formatRow(format([storeIDSize]byte{})), 0, archive.ErrCorrupt},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := write(tt.name, tt.fill)
			before, _ := os.ReadFile(path)
			_, err := Open(path, Options{})
			if !errors.Is(err, tt.want) {
				t.Fatal(err)
			}
			var f *FormatError
			if errors.As(err, &f) && (f.Version != tt.version || f.Path != path) {
				t.Errorf("%+v", f)
			}
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Error("the file was changed")
			}
		})
	}
}

func TestNetworkDisk(t *testing.T) {
	for magic, want := range map[uint32]string{0x6969: "NFS", 0xFF534D42: "SMB", 0xEF53: "", 0: ""} {
		if got := networkDisk(magic); got != want {
			t.Errorf("%#x is %q, want %q", magic, got, want)
		}
	}
	if filesystem(t.TempDir()) == 0 {
		t.Error("the file system of the test cannot be told")
	}
	if filesystem("/does/not/exist") != 0 {
		t.Error("no directory has a file system")
	}
}
