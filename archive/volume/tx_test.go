package volume

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
	"go.etcd.io/bbolt"
)

func encode(t testing.TB, stream evtlog.StreamName, prev evtid.ID, records []evtlog.Record) []byte {
	t.Helper()
	data, err := EncodeCommit(nil, stream, prev, records)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// applyAll applies commits in one transaction and returns the results.
func applyAll(t testing.TB, s *Store, steps ...func(tx *bbolt.Tx) (Result, error)) (out []Result) {
	t.Helper()
	err := s.Update(func(tx *bbolt.Tx) error {
		for _, step := range steps {
			res, err := step(tx)
			if err != nil {
				return err
			}
			out = append(out, res)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func applied(stream evtlog.StreamName, data []byte, index, term uint64) func(tx *bbolt.Tx) (Result, error) {
	return func(tx *bbolt.Tx) (Result, error) { return Apply(tx, stream, data, Position{Index: index, Term: term}) }
}

func adopted(stream evtlog.StreamName, c Commit) func(tx *bbolt.Tx) (Result, error) {
	return func(tx *bbolt.Tx) (Result, error) { return Adopt(tx, stream, c) }
}

func TestApply(t *testing.T) {
	s := open(t)
	c1, c2 := encode(t, feed, id(0), recs(1, 5)), encode(t, feed, id(5), recs(6, 9))
	rival := encode(t, feed, id(5), recs(7, 9))
	foreign := encode(t, other, id(9), recs(10, 11))
	res := applyAll(t, s,
		applied(feed, c1, 10, 1),
		applied(feed, c1, 10, 1),
		applied(feed, c2, 12, 1),
		applied(feed, c2, 13, 1),
		applied(feed, rival, 14, 2),
		applied(feed, c2, 11, 1),
		applied(feed, c2, 12, 2),
		applied(feed, foreign, 15, 2),
		applied(evtlog.StreamName{Queue: "{}", Name: "x"}, c1, 16, 2),
		applied(other, encode(t, other, id(0), recs(1, 1)), 17, 2),
	)
	want := []struct {
		verdict Verdict
		lsn     uint64
		w       evtid.ID
	}{
		{Applied, 1, id(5)}, {Skipped, 1, id(5)}, {Applied, 2, id(9)}, {Duplicate, 2, id(9)}, {Conflict, 2, id(9)},
		{Skipped, 2, id(9)}, {Rewritten, 2, id(9)}, {Malformed, 2, id(11)}, {Malformed, 0, id(0)}, {Applied, 1, id(1)},
	}
	for i, w := range want {
		if res[i].Verdict != w.verdict || res[i].Head.LSN != w.lsn || res[i].Watermark != w.w {
			t.Errorf("step %d: %+v, want %+v", i, res[i], w)
		}
		if (res[i].Err != nil) != (w.verdict == Malformed) {
			t.Errorf("step %d: error %v", i, res[i].Err)
		}
	}
	if h := res[2].Head; h.Index != 12 || h.Term != 1 || h.Count != 9 {
		t.Errorf("head %+v", h)
	}
	wantRead(t, s, feed, archive.Range{}, recs(1, 9))
}

// A reader that waits for a watermark is woken by commits of a state machine too.
func TestApplyWakesReaders(t *testing.T) {
	s := open(t)
	got := make(chan []evtlog.Record)
	go func() {
		records, err := read(s, feed, archive.Range{AtLeast: id(4)})
		if err != nil {
			t.Error(err)
		}
		got <- records
	}()
	waitFor(t, func() bool { s.changed.mu.Lock(); defer s.changed.mu.Unlock(); return s.changed.ch != nil })
	applyAll(t, s, applied(feed, encode(t, feed, id(0), recs(1, 3)), 1, 1))
	applyAll(t, s, applied(feed, encode(t, feed, id(3), recs(4, 6)), 2, 1))
	if records := <-got; !same(records, recs(1, 6)) {
		t.Errorf("%d records", len(records))
	}
}

// A volume made from the log, one folded into locally, and one copied commit by
// commit have the same chain and the same commits, byte for byte.
func TestThreeWaysOneChain(t *testing.T) {
	local, logged, copied := open(t), open(t), open(t)
	for i, to := range []int{4, 5, 900, 2000} {
		from := []int{1, 5, 6, 901}[i]
		fold(t, local, feed, from, to)
		applyAll(t, logged, applied(feed, encode(t, feed, id(from-1), recs(from, to)), uint64(10+i), 3))
	}
	for c, err := range logged.Commits(t.Context(), feed, 0, 0) {
		if err != nil {
			t.Fatal(err)
		}
		b, _ := c.MarshalBinary()
		var back Commit
		if err := back.UnmarshalBinary(b); err != nil {
			t.Fatal(err)
		}
		if res := applyAll(t, copied, adopted(feed, back), adopted(feed, back)); res[0].Verdict != Applied || res[1].Verdict != Duplicate {
			t.Fatalf("%v", res)
		}
	}
	h1, _ := local.Begin(t.Context(), feed)
	h2, _ := logged.Begin(t.Context(), feed)
	h3, _ := copied.Begin(t.Context(), feed)
	if h2 != h3 || h2.Index != 13 || h2.Term != 3 {
		t.Errorf("logged %+v, copied %+v", h2, h3)
	}
	h2.Index, h2.Term = 0, 0
	if h1 != h2 {
		t.Errorf("local %+v, logged %+v", h1, h2)
	}
	wantRead(t, copied, feed, archive.Range{}, recs(1, 2000))
	// The index goes on where the copy ends.
	if res := applyAll(t, copied, applied(feed, encode(t, feed, id(2000), recs(2001, 2001)), 13, 3)); res[0].Verdict != Skipped {
		t.Errorf("%+v", res)
	}
}

func TestAdoptRefuses(t *testing.T) {
	a, b := open(t), open(t)
	fold(t, a, feed, 1, 3)
	fold(t, a, feed, 4, 6)
	fold(t, a, feed, 7, 9)
	fold(t, b, feed, 1, 2)
	var cs []Commit
	for c, err := range a.Commits(t.Context(), feed, 0, 0) {
		if err != nil {
			t.Fatal(err)
		}
		cs = append(cs, c)
	}
	damaged := cs[1]
	damaged.Data = append([]byte(nil), damaged.Data...)
	damaged.Data[40]++
	none := cs[1]
	none.LSN = 0
	res := applyAll(t, b,
		adopted(feed, cs[0]), adopted(feed, cs[1]), adopted(feed, cs[2]), adopted(feed, none), adopted(feed, damaged),
		adopted(evtlog.StreamName{}, cs[0]))
	for i, want := range []Verdict{Diverged, Diverged, Gap, Malformed, Malformed, Malformed} {
		if res[i].Verdict != want {
			t.Errorf("commit %d: %v, want %v", i, res[i], want)
		}
	}
	wantRead(t, b, feed, archive.Range{}, recs(1, 2))
}

func TestHeads(t *testing.T) {
	s := open(t)
	fold(t, s, other, 1, 2)
	fold(t, s, feed, 1, 5)
	fold(t, s, feed, 6, 7)
	h1, _ := s.Begin(t.Context(), feed)
	heads, err := s.Volumes(t.Context())
	if err != nil || len(heads) != 2 || heads[0] != h1 || heads[1].Stream != other {
		t.Fatalf("%+v %v", heads, err)
	}
	err = s.View(func(tx *bbolt.Tx) error {
		for lsn, count := range []uint64{0, 5, 7} {
			h, ok, err := HeadAt(tx, feed, uint64(lsn))
			if !ok || err != nil || h.Count != count || h.LSN != uint64(lsn) || h.Stream != feed {
				t.Errorf("head at %d: %+v %v %v", lsn, h, ok, err)
			}
		}
		if h, ok, err := HeadAt(tx, feed, 3); ok || err != nil {
			t.Errorf("head at 3: %+v %v %v", h, ok, err)
		}
		h, err := HeadOf(tx, feed)
		if h2, _, _ := HeadAt(tx, feed, 2); err != nil || h != h1 || h != h2 {
			t.Errorf("head %+v, at 2 %+v: %v", h, h2, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCommitsRange(t *testing.T) {
	s := open(t)
	for n := 1; n <= 5; n++ {
		fold(t, s, feed, n, n)
	}
	for _, tt := range []struct {
		after, to uint64
		want      []uint64
	}{{0, 0, []uint64{1, 2, 3, 4, 5}}, {2, 0, []uint64{3, 4, 5}}, {2, 4, []uint64{3, 4}}, {5, 0, nil}, {9, 0, nil}, {3, 2, nil}, {0, 9, []uint64{1, 2, 3, 4, 5}}} {
		var got []uint64
		for c, err := range s.Commits(t.Context(), feed, tt.after, tt.to) {
			if err != nil {
				t.Fatal(err)
			}
			if c.Prev != id(int(c.LSN)-1) || c.Watermark != id(int(c.LSN)) || c.Count != 1 {
				t.Errorf("commit %+v", c)
			}
			got = append(got, c.LSN)
		}
		if len(got) != len(tt.want) || len(got) > 0 && (got[0] != tt.want[0] || got[len(got)-1] != tt.want[len(tt.want)-1]) {
			t.Errorf("(%d, %d]: %v, want %v", tt.after, tt.to, got, tt.want)
		}
	}
	for range s.Commits(t.Context(), feed, 0, 0) {
		break
	}
	for _, err := range s.Commits(t.Context(), evtlog.StreamName{}, 0, 0) {
		if err == nil {
			t.Error("commits of no stream")
		}
	}
	for range s.Commits(t.Context(), other, 0, 0) {
		t.Error("commits of an empty volume")
	}
}

func TestQuarantineVolume(t *testing.T) {
	s := open(t)
	fold(t, s, feed, 1, 2000)
	fold(t, s, other, 1, 5)
	if id, err := s.Quarantine(t.Context(), evtlog.StreamName{Queue: "no", Name: "such"}); id != 0 || err != nil {
		t.Fatalf("%d %v", id, err)
	}
	for n := uint64(1); n <= 2; n++ {
		qid, err := s.Quarantine(t.Context(), feed)
		if err != nil || qid != n {
			t.Fatalf("%d %v", qid, err)
		}
		wantRead(t, s, feed, archive.Range{}, nil)
		fold(t, s, feed, 1, 7)
	}
	wantRead(t, s, feed, archive.Range{}, recs(1, 7))
	wantRead(t, s, other, archive.Range{}, recs(1, 5))
	err := s.Update(func(tx *bbolt.Tx) error {
		list, err := ListQuarantined(tx)
		if err != nil || len(list) != 2 || list[0] != (Quarantined{1, feed}) || list[1] != (Quarantined{2, feed}) {
			t.Errorf("%v %v", list, err)
		}
		return DropQuarantined(tx, 1)
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = s.View(func(tx *bbolt.Tx) error {
		list, err := ListQuarantined(tx)
		if err != nil || len(list) != 1 || list[0].ID != 2 {
			t.Errorf("%v %v", list, err)
		}
		return nil
	})
	if err := s.Update(func(tx *bbolt.Tx) error { return DropQuarantined(tx, 1) }); err == nil {
		t.Error("dropped twice")
	}
}

// A reader whose volume is replaced under it must not go on in the new one.
func TestReadOfAReplacedVolume(t *testing.T) {
	for _, reverse := range []bool{false, true} {
		for _, replacement := range []int{0, 100, 5000} {
			s := open(t)
			fold(t, s, feed, 1, 3000)
			n := 0
			var err error
			for _, err = range s.Read(t.Context(), feed, archive.Range{Reverse: reverse}) {
				if n++; n == 1 {
					if _, err := s.Quarantine(t.Context(), feed); err != nil {
						t.Fatal(err)
					}
					if replacement > 0 {
						// Other records on the same pages.
						if _, err := s.Fold(t.Context(), feed, id(0), recs(2, replacement+1)); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			if !errors.Is(err, archive.ErrBehind) || n != firstChunk+1 {
				t.Errorf("reverse %v, %d records instead: %d records read, %v", reverse, replacement, n-1, err)
			}
		}
	}
}

func TestWalkOfAReplacedVolume(t *testing.T) {
	for _, replacement := range []int{0, 1000} {
		s := open(t)
		for n := 1; n <= 3; n++ {
			big := rec(n)
			big.Fields = []evtlog.Field{evtlog.F("body", string(make([]byte, copyChunk)))}
			if _, err := s.Fold(t.Context(), feed, id(n-1), []evtlog.Record{big}); err != nil {
				t.Fatal(err)
			}
		}
		n := 0
		var err error
		for _, err = range s.Commits(t.Context(), feed, 0, 0) {
			if n++; n == 1 {
				if _, err := s.Quarantine(t.Context(), feed); err != nil {
					t.Fatal(err)
				}
				for k := 1; k <= replacement; k++ {
					applyAll(t, s, applied(feed, encode(t, feed, id(k-1), recs(k, k)), 0, 0))
					if k == 5 {
						break
					}
				}
			}
		}
		if !errors.Is(err, archive.ErrBehind) || n != 2 {
			t.Errorf("%d commits read, %v", n-1, err)
		}
		if _, err := s.Begin(t.Context(), feed); err != nil {
			t.Errorf("the new volume was taken for damaged: %v", err)
		}
	}
}

// Business pages below ArchiveBase are not touched, and not taken for records.
func TestPagesBelowArchiveBase(t *testing.T) {
	s := open(t)
	fold(t, s, feed, 1, 3)
	err := s.Update(func(tx *bbolt.Tx) error {
		var key [8]byte
		binary.BigEndian.PutUint64(key[:], 42)
		return tx.Bucket(bucketVolumes).Bucket(volumeKey(feed)).Bucket(bucketPages).Put(key[:], []byte("business"))
	})
	if err != nil {
		t.Fatal(err)
	}
	fold(t, s, feed, 4, 300)
	wantRead(t, s, feed, archive.Range{}, recs(1, 300))
	wantRead(t, s, feed, archive.Range{Reverse: true}, reversed(recs(1, 300)))
}
