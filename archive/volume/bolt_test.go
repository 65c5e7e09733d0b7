package volume

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

// boltBytes returns a file of bbolt with buckets of all kinds: inline, with a
// page of its own, with branch pages, nested, with pages of several pages.
func boltBytes(t testing.TB, seed uint64) []byte {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	path := filepath.Join(t.TempDir(), "some.db")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{FreelistType: bbolt.FreelistMapType, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	for range 6 {
		err := db.Update(func(tx *bbolt.Tx) error {
			var b *bbolt.Bucket
			for range 1 + rng.IntN(4) {
				name := []byte(fmt.Sprint("bucket", rng.IntN(5)))
				if b == nil {
					b, err = tx.CreateBucketIfNotExists(name)
				} else {
					b, err = b.CreateBucketIfNotExists(name)
				}
				if err != nil {
					return err
				}
				for range rng.IntN(800) {
					key := binary.BigEndian.AppendUint64(nil, rng.Uint64N(1000))
					if err := b.Put(key, make([]byte, rng.IntN(100))); err != nil {
						return err
					}
				}
				if rng.IntN(3) == 0 {
					if err := b.Put([]byte("large"), make([]byte, rng.IntN(40_000))); err != nil {
						return err
					}
				}
				for range rng.IntN(100) {
					if err := b.Delete(binary.BigEndian.AppendUint64(nil, rng.Uint64N(1000))); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func check(b []byte, depth int) string {
	reason, err := checkBolt(bytes.NewReader(b), int64(len(b)), depth, false)
	if err != nil {
		return err.Error()
	}
	return reason
}

// Whatever bbolt writes is found to be good.
func TestCheckBoltAcceptsWhatBoltWrites(t *testing.T) {
	seed := rand.Uint64N(1 << 40)
	t.Logf("seed %d", seed)
	for i := range uint64(10) {
		b := boltBytes(t, seed+i)
		for _, depth := range []int{shallow, deep, 0} {
			if reason := check(b, depth); reason != "" {
				t.Fatalf("seed %d, depth %d: %s", seed+i, depth, reason)
			}
		}
	}
}

// What bbolt's own check finds is found here too, at the latest by the deep
// check, and nothing makes this reader panic.
func TestCheckBoltFindsWhatBoltFinds(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	good := boltBytes(t, seed>>20)
	found := 0
	for range 200 {
		b := bytes.Clone(good)
		page := rng.IntN(len(b) / osPage)
		// Most of the structure is at the front of a page.
		at := page*osPage + rng.IntN(64)
		flip := byte(1 + rng.IntN(255))
		b[at] ^= flip
		reason := check(b, deep)
		check(b, shallow)
		if reason != "" {
			found++
			continue
		}
		if boltFinds(t, b) {
			t.Fatalf("byte %d xor %#x was missed", at, flip)
		}
	}
	if found < 50 {
		t.Errorf("only %d of 200 flips were found", found)
	}
}

// boltFinds runs bbolt's check.
func boltFinds(t *testing.T, b []byte) bool {
	path := filepath.Join(t.TempDir(), "flipped.db")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := openBolt(path, Options{}.withDefaults(), true)
	if err != nil {
		return true
	}
	defer h.db.Close()
	bad := false
	_ = h.db.View(func(tx *bbolt.Tx) error {
		for range tx.Check() {
			bad = true
		}
		return nil
	})
	return bad
}

func TestCheckBoltRefuses(t *testing.T) {
	good := boltBytes(t, 5)
	u64 := func(b []byte, at int, v uint64) { binary.NativeEndian.PutUint64(b[at:], v) }
	meta := liveMeta(good)
	root := int(binary.NativeEndian.Uint64(good[meta+boltHeader+16:])) * osPage
	free := int(binary.NativeEndian.Uint64(good[meta+boltHeader+32:])) * osPage
	for name, mod := range map[string]func([]byte) []byte{
		"nothing":                 func(b []byte) []byte { return nil },
		"text":                    func(b []byte) []byte { return bytes.Repeat([]byte("hello"), 9000) },
		"one meta page":           func(b []byte) []byte { b[osPage+boltHeader+20]++; return b },
		"both meta pages":         func(b []byte) []byte { b[boltHeader]++; b[osPage+boltHeader]++; return b },
		"cut short":               func(b []byte) []byte { return b[:int(binary.NativeEndian.Uint64(b[meta+boltHeader+40:]))*osPage-1] },
		"root of another number":  func(b []byte) []byte { u64(b, root, 1); return b },
		"root of another type":    func(b []byte) []byte { b[root+8] = flagFreelist; return b },
		"free list that is none":  func(b []byte) []byte { b[free+8] = flagLeaf; return b },
		"free list with the root": func(b []byte) []byte { u64(b, free+boltHeader, uint64(root/osPage)); return b },
		"free list past the end":  func(b []byte) []byte { u64(b, free+boltHeader, 1<<40); return b },
		"long free list":          func(b []byte) []byte { b[free+10], b[free+11] = 0xff, 0xff; return b },
		"element out of the page": func(b []byte) []byte { b[root+boltHeader+7] = 0xff; return b },
		"key without length":      func(b []byte) []byte { copy(b[root+boltHeader+8:], make([]byte, 4)); return b },
		"overflow past the end":   func(b []byte) []byte { b[root+14] = 0xff; return b },
	} {
		b := mod(bytes.Clone(good))
		for _, depth := range []int{shallow, deep} {
			if reason := check(b, depth); reason == "" {
				t.Errorf("%s passed a check of depth %d", name, depth)
			}
		}
	}
}

// A free list that names a page in use would have bbolt write over it.
func TestCheckBoltFindsUsedFreePages(t *testing.T) {
	tried := 0
	for seed := range uint64(10) {
		good := boltBytes(t, seed)
		at := int(binary.NativeEndian.Uint64(good[liveMeta(good)+boltHeader+32:])) * osPage
		word := func(i int) uint64 { return binary.NativeEndian.Uint64(good[at+boltHeader+8*i:]) }
		for i := range int(binary.NativeEndian.Uint16(good[at+10:])) - 1 {
			// The page behind a free one, unless that is free as well.
			id := word(i) + 1
			if id == word(i+1) {
				continue
			}
			b := bytes.Clone(good)
			binary.NativeEndian.PutUint64(b[at+boltHeader+8*i:], id)
			if reason := check(b, deep); !strings.Contains(reason, "in use and in the free list") {
				t.Errorf("seed %d: page %d is free and in use: %q", seed, id, reason)
			}
			tried++
		}
	}
	if tried == 0 {
		t.Error("no free list has a gap to try")
	}
}

// Two meta pages that are good but do not follow each other: one is from
// another time of the file.
func TestCheckBoltFindsAnOldMeta(t *testing.T) {
	b := boltBytes(t, 5)
	at := osPage - liveMeta(b) + boltHeader
	binary.NativeEndian.PutUint64(b[at+48:], binary.NativeEndian.Uint64(b[at+48:])-2)
	binary.NativeEndian.PutUint64(b[at+56:], fnvSum(b[at:at+56]))
	if reason := check(b, deep); !strings.Contains(reason, "do not follow each other") {
		t.Errorf("got %q", reason)
	}
}

// liveMeta is the offset of the meta page that counts.
func liveMeta(b []byte) int {
	if binary.NativeEndian.Uint64(b[boltHeader+48:]) > binary.NativeEndian.Uint64(b[osPage+boltHeader+48:]) {
		return 0
	}
	return osPage
}

func TestCheckBoltTornMeta(t *testing.T) {
	for _, torn := range []int{0, osPage} {
		b := boltBytes(t, 6)
		b[torn+boltHeader+50]++
		if reason, _ := checkBolt(bytes.NewReader(b), int64(len(b)), deep, false); reason == "" {
			t.Error("a torn meta page was accepted")
		}
		// With the newer one gone the free list is the older one's, of the older tree.
		if reason, _ := checkBolt(bytes.NewReader(b), int64(len(b)), shallow, true); torn == liveMeta(boltBytes(t, 6)) && reason != "" {
			t.Logf("the state before: %s", reason)
		} else if reason != "" {
			t.Errorf("the state that is left: %s", reason)
		}
	}
}

// A branch page that points up would send bbolt round for ever: even the quick
// check must see it.
func TestQuickCheckFindsCircles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "archive.db")
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 20 {
		fold(t, s, feed, n*1000+1, n*1000+1000)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	good, _ := os.ReadFile(path)
	if reason := check(good, shallow); reason != "" {
		t.Fatal(reason)
	}
	used := int(binary.NativeEndian.Uint64(good[liveMeta(good)+boltHeader+40:]))
	branches := 0
	for page := 2; page < used; page++ {
		at := page * osPage
		if binary.NativeEndian.Uint16(good[at+8:]) != flagBranch {
			continue
		}
		count := int(binary.NativeEndian.Uint16(good[at+10:]))
		for i := range count {
			b := bytes.Clone(good)
			binary.NativeEndian.PutUint64(b[at+boltHeader+i*boltElement+8:], uint64(page))
			if check(b, shallow) != "" {
				branches++
				break
			}
		}
	}
	if branches < 2 {
		t.Fatalf("circles were found through %d branch pages", branches)
	}
}

type failingReader struct{ at int64 }

var errDisk = errors.New("disk")

func (f failingReader) ReadAt(b []byte, off int64) (int, error) {
	if off >= f.at {
		return 0, errDisk
	}
	return bytes.NewReader(nil).ReadAt(b, off)
}

func TestCheckBoltPassesErrorsOn(t *testing.T) {
	if _, err := checkBolt(failingReader{}, 1<<20, deep, false); !errors.Is(err, errDisk) {
		t.Fatal(err)
	}
}

func FuzzCheckBolt(f *testing.F) {
	path := filepath.Join(f.TempDir(), "archive.db")
	if err := create(path); err != nil {
		f.Fatal(err)
	}
	b, _ := os.ReadFile(path)
	f.Add(b[:4*osPage], uint16(100))
	f.Fuzz(func(_ *testing.T, b []byte, at uint16) {
		check(b, deep)
		// Behind good meta pages.
		whole := bytes.Clone(b)
		for _, m := range []int{0, osPage} {
			if len(whole) >= m+boltHeader+boltMeta {
				whole[m+boltHeader+int(at)%56]++
				sum := fnvSum(whole[m+boltHeader : m+boltHeader+56])
				binary.NativeEndian.PutUint64(whole[m+boltHeader+56:], sum)
			}
		}
		check(whole, deep)
		check(whole, shallow)
	})
}

func fnvSum(b []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(b)
	return h.Sum64()
}
