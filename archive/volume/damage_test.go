package volume

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"go.etcd.io/bbolt"
)

// closedFile writes some volumes and returns the file and what is in it.
func closedFile(t testing.TB) (file []byte, content map[evtlog.StreamName]int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "archive.db")
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	content = map[evtlog.StreamName]int{feed: 3000, other: 700, {Queue: "q", Name: "small"}: 2}
	for from := 1; from <= 3000; from += 250 {
		for _, stream := range slices.SortedFunc(maps.Keys(content), compareStreams) {
			if n := content[stream]; from <= n {
				fold(t, s, stream, from, min(from+249, n))
			}
		}
	}
	gone := evtlog.StreamName{Queue: "q", Name: "gone"}
	fold(t, s, gone, 1, 500)
	if _, err := s.Quarantine(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file, err = os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return file, content
}

// damage is how often a damaged file was noticed, and where.
type damage struct{ atOpen, inUse, harmless int }

// tryFile opens a file that may be damaged and uses all of it. Every answer must
// be right, or an error that says what is wrong.
func tryFile(t *testing.T, what string, file []byte, content map[evtlog.StreamName]int, opts Options) (d damage) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "archive.db")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(path)
	s, err := Open(path, opts)
	if err != nil {
		if !errors.Is(err, archive.ErrCorrupt) && !errors.Is(err, ErrFormat) {
			t.Fatalf("%s: open: %v", what, err)
		}
		return damage{atOpen: 1}
	}
	defer s.Close()
	noticed := false
	typed := func(op string, err error) bool {
		if err == nil {
			return true
		}
		noticed = true
		if !errors.Is(err, archive.ErrCorrupt) {
			t.Fatalf("%s: %s: %v", what, op, err)
		}
		return false
	}
	for stream, n := range content {
		tryVolume(t, s, what, stream, n, typed)
	}
	if noticed {
		return damage{inUse: 1}
	}
	return damage{harmless: 1}
}

// tryVolume reads a volume in all ways, folds into it, and reads it again.
func tryVolume(t *testing.T, s *Store, what string, stream evtlog.StreamName, n int, typed func(string, error) bool) {
	t.Helper()
	want := recs(1, n)
	lies := func(op string, got any) { t.Fatalf("%s: %s of %s gave wrong data: %v", what, op, stream, got) }
	if w, err := s.Watermark(t.Context(), stream); typed("watermark", err) && w != id(n) {
		lies("watermark", w)
	}
	for _, r := range []archive.Range{{}, {Reverse: true}, {After: id(n / 3), To: id(n/3 + 20)}, {After: id(n / 2), To: id(n/2 + 5), Reverse: true}} {
		expect := within(want, r)
		got, err := read(s, stream, r)
		if typed("read", err) && len(got) != len(expect) || !same(got, expect[:min(len(got), len(expect))]) {
			lies("read", fmt.Sprintf("%+v: %d of %d records from %v, %v", r, len(got), len(expect), brief(got), err))
		}
	}
	var copied []evtlog.Record
	for c, err := range s.Commits(t.Context(), stream, 0, 0) {
		if !typed("commits", err) {
			break
		}
		records, err := c.Records(stream)
		if !typed("records of a commit", err) {
			break
		}
		copied = append(copied, records...)
	}
	if !same(copied, want[:len(copied)]) {
		lies("commits", len(copied))
	}
	more := recs(n+1, n+40)
	if w, err := s.Fold(t.Context(), stream, id(n), more); typed("fold", err) && w != id(n+40) {
		lies("fold", w)
	}
	got, err := read(s, stream, archive.Range{})
	whole := append(want, more...)
	if typed("read", err) && len(got) != len(whole) || !same(got, whole[:min(len(got), len(whole))]) {
		lies("read after fold", len(got))
	}
	_, err = s.Verify(t.Context(), stream)
	typed("verify", err)
}

// Any flipped byte of a closed file is noticed, or has no meaning.
func TestFlippedBytes(t *testing.T) {
	file, content := closedFile(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	var sum damage
	for i := range 120 {
		at, flip := rng.IntN(len(file)), byte(1+rng.IntN(255))
		if i%2 == 0 {
			// The front of a page, where bbolt keeps its pointers.
			at = at/osPage*osPage + rng.IntN(200)
		}
		bad := bytes.Clone(file)
		bad[at] ^= flip
		opts := Options{}
		if i%3 != 0 {
			opts.CheckBytes = -1
		}
		d := tryFile(t, fmt.Sprintf("byte %d xor %#x, CheckBytes %d", at, flip, opts.CheckBytes), bad, content, opts)
		sum.atOpen, sum.inUse, sum.harmless = sum.atOpen+d.atOpen, sum.inUse+d.inUse, sum.harmless+d.harmless
	}
	t.Logf("noticed at open %d, in use %d; harmless %d", sum.atOpen, sum.inUse, sum.harmless)
	if sum.atOpen == 0 || sum.inUse == 0 {
		t.Error("the flips hit nothing")
	}
}

// A volume whose name is bent must not look like one that never was.
func TestFlippedNames(t *testing.T) {
	file, content := closedFile(t)
	names := 0
	for stream := range content {
		key := volumeKey(stream)
		for at := bytes.Index(file, key); at >= 0; {
			for i := range key {
				bad := bytes.Clone(file)
				bad[at+i] ^= 1
				tryFile(t, fmt.Sprintf("byte %d of the name %q at %d", i, key, at), bad, content, Options{})
			}
			names++
			next := bytes.Index(file[at+1:], key)
			if next < 0 {
				break
			}
			at += 1 + next
		}
	}
	if names < len(content) {
		t.Errorf("%d names of %d volumes were found", names, len(content))
	}
}

func TestTruncatedFile(t *testing.T) {
	file, content := closedFile(t)
	used := int(binary.NativeEndian.Uint64(file[liveMeta(file)+boltHeader+40:])) * osPage
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 4))
	sizes := []int{0, 1, 100, osPage - 1, osPage, 8192, 4 * osPage, used - 1}
	for range 10 {
		sizes = append(sizes, rng.IntN(used))
	}
	for _, size := range sizes {
		for _, check := range []int64{0, -1} {
			if d := tryFile(t, fmt.Sprint("cut to ", size), file[:size], content, Options{CheckBytes: check}); d.atOpen == 0 {
				t.Errorf("a file cut from %d to %d bytes was opened", used, size)
			}
		}
	}
	// What bbolt has only reserved may go.
	if d := tryFile(t, "the reserve cut off", file[:used], content, Options{}); d.harmless == 0 {
		t.Error("a file without its reserve was refused")
	}
}

func TestDamagedFileIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "archive.db")
	for n, content := range []string{"", "some text that is no archive", strings.Repeat("x", 70_000)} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Open(path, Options{})
		var corrupt *CorruptError
		if !errors.As(err, &corrupt) || corrupt.Path != path || !strings.Contains(err.Error(), "Quarantine") {
			t.Fatalf("%.10q: %v", content, err)
		}
		if got, _ := os.ReadFile(path); string(got) != content {
			t.Fatalf("%.10q was changed", content)
		}
		name, err := Quarantine(path)
		if err != nil || !strings.HasPrefix(name, path+".quarantine-") {
			t.Fatal(name, err)
		}
		if got, _ := os.ReadFile(name); string(got) != content {
			t.Fatalf("%.10q was changed on the way", content)
		}
		if all, _ := filepath.Glob(path + ".quarantine-*"); len(all) != n+1 {
			t.Fatalf("%d files set aside, want %d", len(all), n+1)
		}
		s, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Quarantine(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("quarantine of nothing: %v", err)
	}
}

func TestTornMeta(t *testing.T) {
	path := filepath.Join(t.TempDir(), "archive.db")
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	fold(t, s, feed, 1, 10)
	fold(t, s, feed, 11, 20)
	_ = s.Close()
	b, _ := os.ReadFile(path)
	b[liveMeta(b)+boltHeader+30]++
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, Options{}); !errors.Is(err, archive.ErrCorrupt) || !strings.Contains(err.Error(), "AcceptTornMeta") {
		t.Fatal(err)
	}
	back := openAt(t, path, Options{AcceptTornMeta: true})
	wantRead(t, back, feed, archive.Range{}, recs(1, 10))
	fold(t, back, feed, 11, 30)
}

// spoil changes a value of a volume behind the store's back.
func spoil(t *testing.T, s *Store, stream evtlog.StreamName, bucket []byte, key uint64, mod func(v []byte) []byte) {
	t.Helper()
	err := s.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucketVolumes).Bucket(volumeKey(stream)).Bucket(bucket)
		k := binary.BigEndian.AppendUint64(nil, key)
		v := mod(bytes.Clone(b.Get(k)))
		if v == nil {
			return b.Delete(k)
		}
		return b.Put(k, v)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func openFilled(t *testing.T, commits, size int) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "archive.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	for n := range commits {
		fold(t, s, feed, n*size+1, n*size+size)
	}
	fold(t, s, other, 1, 5)
	return s
}

// What Verify says of each kind of damage, and that it names the first commit.
func TestVerifyNamesTheFirstBadCommit(t *testing.T) {
	seed := pageSeed(volumeKey(feed))
	reseal := func(mod func(r *evtlog.Record)) func([]byte) []byte {
		return func(v []byte) []byte {
			r, _, _ := decodePage(string(v[:len(v)-crcSize]), nil)
			mod(&r)
			return appendPage(nil, seed, &r)
		}
	}
	rerow := func(mod func(r *row)) func([]byte) []byte {
		return func(v []byte) []byte {
			r, _ := parseRow(v, rowSeed(volumeKey(feed)))
			mod(&r)
			return appendRow(nil, rowSeed(volumeKey(feed)), &r)
		}
	}
	flip := func(v []byte) []byte { v[len(v)/2]++; return v }
	drop := func([]byte) []byte { return nil }
	page := func(n int) uint64 { return ArchiveBase + uint64(n) - 1 }
	tests := []struct {
		name   string
		bucket []byte
		key    uint64
		mod    func([]byte) []byte
		lsn    uint64
		page   uint64
	}{
		{"a flipped byte", bucketPages, page(34), flip, 4, page(34)},
		{"a lost page", bucketPages, page(34), drop, 4, page(34)},
		{"a page of another stream", bucketPages, page(34), func([]byte) []byte {
			r := rec(34)
			return appendPage(nil, pageSeed(volumeKey(other)), &r)
		}, 4, page(34)},
		{"an id below the one before", bucketPages, page(34), reseal(func(r *evtlog.Record) { r.ID = id(3) }), 4, page(34)},
		{"another value, sealed well", bucketPages, page(34), reseal(func(r *evtlog.Record) { r.Fields[0].Value = "missed" }), 4, 0},
		{"another last id, sealed well", bucketPages, page(40), reseal(func(r *evtlog.Record) { r.ID = r.ID.Next() }), 4, 0},
		{"a flipped row", bucketCommits, 4, flip, 4, 0},
		{"a lost row", bucketCommits, 4, drop, 4, 0},
		{"a row of another number", bucketCommits, 4, rerow(func(r *row) { r.lsn = 5 }), 4, 0},
		{"another chain", bucketCommits, 4, rerow(func(r *row) { r.chain[3]++ }), 4, 0},
		{"another prev", bucketCommits, 4, rerow(func(r *row) { r.prev = id(29) }), 4, 0},
		{"another first page", bucketCommits, 4, rerow(func(r *row) { r.first, r.count = r.first+1, r.count-1 }), 4, 0},
		{"another size", bucketCommits, 4, rerow(func(r *row) { r.size++ }), 4, 0},
		{"an impossible size", bucketCommits, 4, rerow(func(r *row) { r.size = 3 }), 4, 0},
		{"another total", bucketCommits, 4, rerow(func(r *row) { r.total++ }), 4, 0},
		{"a term that falls", bucketCommits, 4, rerow(func(r *row) { r.index, r.term = 9, 9 }), 0, 0},
		{"the last row", bucketCommits, 6, rerow(func(r *row) { r.total++ }), 0, 0},
		{"a row too many", bucketCommits, 7, func([]byte) []byte { return []byte("row") }, 0, 0},
		{"a page too many", bucketPages, page(61), func([]byte) []byte { return []byte("page") }, 6, page(61)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := openFilled(t, 6, 10)
			spoil(t, s, feed, tt.bucket, tt.key, tt.mod)
			report, err := s.Verify(t.Context(), feed)
			if tt.name == "a term that falls" {
				// The rows after it have no position at all, which is not a fall.
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var corrupt *CorruptError
			if !errors.As(err, &corrupt) || corrupt.Stream != feed || corrupt.LSN != tt.lsn || corrupt.Page != tt.page {
				t.Fatalf("got %v (%+v)", err, corrupt)
			}
			if want := max(tt.lsn, 1) - 1; tt.lsn > 0 && tt.lsn < 6 && (report.Commits != want || report.Records != want*10) {
				t.Errorf("report %+v", report)
			}
			// Now the volume serves nothing, and the other goes on.
			if _, err := s.Watermark(t.Context(), feed); !errors.Is(err, archive.ErrCorrupt) {
				t.Errorf("watermark: %v", err)
			}
			if _, err := s.Fold(t.Context(), feed, id(60), recs(61, 61)); !errors.Is(err, archive.ErrCorrupt) {
				t.Errorf("fold: %v", err)
			}
			if heads, err := s.Volumes(t.Context()); !errors.Is(err, archive.ErrCorrupt) || len(heads) != 2 {
				t.Errorf("volumes: %v %v", heads, err)
			}
			fold(t, s, other, 6, 9)
			wantRead(t, s, other, archive.Range{}, recs(1, 9))
			// Set aside, the stream begins anew.
			if _, err := s.Quarantine(t.Context(), feed); err != nil {
				t.Fatal(err)
			}
			fold(t, s, feed, 1, 5)
			wantRead(t, s, feed, archive.Range{}, recs(1, 5))
		})
	}
}

func TestReadFindsDamage(t *testing.T) {
	flip := func(v []byte) []byte { v[9]++; return v }
	for _, tt := range []struct {
		name string
		r    archive.Range
		good int
	}{
		{"forward", archive.Range{}, 1499},
		{"reverse", archive.Range{Reverse: true}, 500},
		{"begins there", archive.Range{After: id(1499)}, 0},
		{"begins behind it", archive.Range{After: id(1500), To: id(1510)}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := openFilled(t, 2, 1000)
			spoil(t, s, feed, bucketPages, ArchiveBase+1499, flip)
			got, err := read(s, feed, tt.r)
			var corrupt *CorruptError
			if !errors.As(err, &corrupt) || corrupt.Page != ArchiveBase+1499 || corrupt.Stream != feed {
				t.Fatalf("%d records, %v", len(got), err)
			}
			if len(got) != tt.good {
				t.Errorf("%d records before the damage, want %d", len(got), tt.good)
			}
			if _, err := read(s, feed, archive.Range{To: id(5)}); !errors.Is(err, archive.ErrCorrupt) {
				t.Errorf("the volume is served on: %v", err)
			}
		})
	}
}

// A page that is sealed well but holds an id from elsewhere is found by its
// neighbours, whichever side a read comes from.
func TestReadFindsMisplacedIDs(t *testing.T) {
	for _, tt := range []struct {
		name string
		page int
		id   int
		r    archive.Range
	}{
		{"the first of a read", 2000, 1500, archive.Range{After: id(1999)}},
		{"the neighbour of a reverse read", 2000, 1500, archive.Range{To: id(1999), Reverse: true}},
		{"in the middle", 1000, 999, archive.Range{}},
		{"in the middle, reverse", 1000, 1001, archive.Range{Reverse: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := openFilled(t, 2, 1000)
			spoil(t, s, feed, bucketPages, ArchiveBase+uint64(tt.page)-1, func([]byte) []byte {
				r := rec(tt.id)
				return appendPage(nil, pageSeed(volumeKey(feed)), &r)
			})
			got, err := read(s, feed, tt.r)
			if !errors.Is(err, archive.ErrCorrupt) {
				t.Fatalf("%d records, %v", len(got), err)
			}
		})
	}
}

// A volume whose end is damaged does not keep the file from being opened.
func TestOpenSetsVolumesAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "archive.db")
	for name, hit := range map[string]func(*Store){
		"last page": func(s *Store) { spoil(t, s, feed, bucketPages, ArchiveBase+9, func([]byte) []byte { return nil }) },
		"last row":  func(s *Store) { spoil(t, s, feed, bucketCommits, 1, func(v []byte) []byte { v[3]++; return v }) },
		"wrong id": func(s *Store) {
			spoil(t, s, feed, bucketPages, ArchiveBase+9, func([]byte) []byte { r := rec(9); return appendPage(nil, pageSeed(volumeKey(feed)), &r) })
		},
		"short page": func(s *Store) {
			spoil(t, s, feed, bucketPages, ArchiveBase+9, func([]byte) []byte { return []byte{1} })
		},
		"no commits": func(s *Store) { dropBucket(t, s, bucketCommits) },
		"no pages":   func(s *Store) { dropBucket(t, s, bucketPages) },
		"page beyond": func(s *Store) {
			spoil(t, s, feed, bucketPages, ArchiveBase+10, func([]byte) []byte { return []byte("x") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			_ = os.Remove(path)
			s, err := Open(path, Options{})
			if err != nil {
				t.Fatal(err)
			}
			fold(t, s, feed, 1, 10)
			fold(t, s, other, 1, 10)
			hit(s)
			_ = s.Close()
			if s, err = Open(path, Options{}); err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if _, err := s.Begin(t.Context(), feed); !errors.Is(err, archive.ErrCorrupt) {
				t.Errorf("begin: %v", err)
			}
			wantRead(t, s, other, archive.Range{}, recs(1, 10))
			for _, verdict := range applyAll(t, s, applied(feed, encode(t, feed, id(10), recs(11, 11)), 1, 1)) {
				if name == "last row" || name == "no commits" || name == "no pages" {
					if verdict.Verdict != Corrupt || !errors.Is(verdict.Err, archive.ErrCorrupt) {
						t.Errorf("apply: %+v", verdict)
					}
				}
			}
		})
	}
}

func dropBucket(t *testing.T, s *Store, name []byte) {
	t.Helper()
	err := s.db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketVolumes).Bucket(volumeKey(feed)).DeleteBucket(name)
	})
	if err != nil {
		t.Fatal(err)
	}
}
