package volume

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"go.etcd.io/bbolt"
)

// work is one piece of work done by a volume, and by bare bbolt with the same
// settings. Each function makes a state and returns one round.
type work struct {
	name         string
	volume, bare func(b *testing.B) func()
	// records is how many records a round handles.
	records int
}

// run measures both, and then their ratio, round by round in turn, so that a
// busy machine slows both. A ratio of 1 is as fast as bbolt, 0.5 half as fast.
func (w work) run(b *testing.B) {
	for name, start := range map[string]func(*testing.B) func(){"volume": w.volume, "bbolt": w.bare} {
		b.Run(w.name+"/"+name, func(b *testing.B) {
			round := start(b)
			b.ReportAllocs()
			for b.Loop() {
				round()
			}
			b.ReportMetric(float64(b.N*w.records)/b.Elapsed().Seconds(), "records/s")
		})
	}
	b.Run(w.name+"/ratio", func(b *testing.B) {
		ours, bare := w.volume(b), w.bare(b)
		var took [2][]time.Duration
		for b.Loop() {
			for i, round := range []func(){ours, bare} {
				start := time.Now()
				round()
				took[i] = append(took[i], time.Since(start))
			}
		}
		for i := range took {
			slices.Sort(took[i])
		}
		median := func(i int) float64 { return float64(took[i][len(took[i])/2]) }
		b.ReportMetric(median(1)/median(0), "ratio")
	})
}

// benchRecord has about 200 bytes as a page.
func benchRecord(n int) evtlog.Record {
	return evtlog.Record{ID: id(n), Fields: []evtlog.Field{
		evtlog.F("event", "scored"), evtlog.F("game", "game-000000001"), evtlog.F("body", strings.Repeat("x", 130)),
	}}
}

func benchRecords(n int) []evtlog.Record {
	out := make([]evtlog.Record, n)
	for i := range out {
		out[i] = benchRecord(i + 1)
	}
	return out
}

func openBench(b *testing.B) *Store {
	b.Helper()
	s, err := Open(filepath.Join(b.TempDir(), "archive.db"), Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

// folding folds n records a round. Making the records costs a little and is
// counted, to the volume's disadvantage.
func folding(b *testing.B, s *Store, n int) func() {
	at, batch := 0, benchRecords(n)
	return func() {
		for i := range batch {
			batch[i].ID = id(at + 1 + i)
		}
		if _, err := s.Fold(b.Context(), feed, id(at), batch); err != nil {
			b.Fatal(err)
		}
		at += n
	}
}

// openBare opens a bbolt file with the settings of a Store.
func openBare(b *testing.B) *bbolt.DB {
	b.Helper()
	db, err := bbolt.Open(filepath.Join(b.TempDir(), "bare.db"), 0o600, &bbolt.Options{FreelistType: bbolt.FreelistMapType, NoStatistics: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	if err := db.Update(func(tx *bbolt.Tx) error { _, err := tx.CreateBucket(bucketPages); return err }); err != nil {
		b.Fatal(err)
	}
	return db
}

// putting writes n values of the size of a page a round.
func putting(b *testing.B, db *bbolt.DB, n int) func() {
	r := benchRecord(1)
	value, at := appendPage(nil, 0, &r), uint64(0)
	return func() {
		err := db.Update(func(tx *bbolt.Tx) error {
			bucket := tx.Bucket(bucketPages)
			bucket.FillPercent = fillPercent
			for range n {
				var key [8]byte
				binary.BigEndian.PutUint64(key[:], ArchiveBase+at)
				at++
				if err := bucket.Put(key[:], value); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFold(b *testing.B) {
	for _, n := range []int{1, 100, 1000, 5000} {
		work{
			name: fmt.Sprint(n), records: n,
			volume: func(b *testing.B) func() { return folding(b, openBench(b), n) },
			bare:   func(b *testing.B) func() { return putting(b, openBare(b), n) },
		}.run(b)
	}
}

// benchCount is how many records the reading benchmarks find.
const benchCount = 1_000_000

func filledStore(b *testing.B) *Store {
	s := openBench(b)
	fill := folding(b, s, 5000)
	for range benchCount / 5000 {
		fill()
	}
	return s
}

func filledBare(b *testing.B) *bbolt.DB {
	db := openBare(b)
	fill := putting(b, db, 5000)
	for range benchCount / 5000 {
		fill()
	}
	return db
}

// sink keeps the compiler from leaving work out.
var sink []byte

func BenchmarkScan(b *testing.B) {
	work{
		name: "all", records: benchCount,
		volume: func(b *testing.B) func() {
			s := filledStore(b)
			return func() {
				if n := countRecords(b, s, archive.Range{}); n != benchCount {
					b.Fatal(n)
				}
			}
		},
		bare: func(b *testing.B) func() {
			db := filledBare(b)
			return func() {
				_ = db.View(func(tx *bbolt.Tx) error {
					c := tx.Bucket(bucketPages).Cursor()
					for k, v := c.First(); k != nil; k, v = c.Next() {
						sink = append([]byte(nil), v...)
					}
					return nil
				})
			}
		},
	}.run(b)
}

func countRecords(b *testing.B, s *Store, r archive.Range) (n int) {
	for _, err := range s.Read(b.Context(), feed, r) {
		if err != nil {
			b.Fatal(err)
		}
		n++
	}
	return n
}

func BenchmarkWindow(b *testing.B) {
	// next walks over the records in large steps.
	next := func(at *int) int {
		*at = (*at + 7919*31) % (benchCount - 200)
		return *at + 1
	}
	work{
		name: "100", records: 100,
		volume: func(b *testing.B) func() {
			s, at := filledStore(b), 0
			return func() {
				from := next(&at)
				if n := countRecords(b, s, archive.Range{After: id(from), To: id(from + 100)}); n != 100 {
					b.Fatal(n)
				}
			}
		},
		bare: func(b *testing.B) func() {
			db, at := filledBare(b), 0
			return func() {
				_ = db.View(func(tx *bbolt.Tx) error {
					c := tx.Bucket(bucketPages).Cursor()
					var key [8]byte
					binary.BigEndian.PutUint64(key[:], ArchiveBase+uint64(next(&at)))
					_, v := c.Seek(key[:])
					for range 100 {
						sink = v
						_, v = c.Next()
					}
					return nil
				})
			}
		},
	}.run(b)
}

func BenchmarkOpen(b *testing.B) {
	for name, check := range map[string]int64{"quick": -1, "whole": 1 << 40} {
		b.Run(name, func(b *testing.B) {
			s := filledStore(b)
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				s, err := Open(s.Path(), Options{CheckBytes: check})
				if err != nil {
					b.Fatal(err)
				}
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkVerify(b *testing.B) {
	s := filledStore(b)
	for b.Loop() {
		if _, err := s.Verify(b.Context(), feed); err != nil {
			b.Fatal(err)
		}
	}
}
