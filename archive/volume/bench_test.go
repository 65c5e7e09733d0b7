package volume

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"go.etcd.io/bbolt"
)

// Each benchmark stands beside the same work done with bare bbolt and the same
// settings, so that only their ratio needs to be looked at.

// benchValue is about 200 bytes as a page.
var benchValue = strings.Repeat("x", 130)

func benchRecord(n int) evtlog.Record {
	return evtlog.Record{ID: id(n), Fields: []evtlog.Field{
		evtlog.F("event", "scored"), evtlog.F("game", "game-000000001"), evtlog.F("body", benchValue),
	}}
}

func benchRecords(from, n int) []evtlog.Record {
	out := make([]evtlog.Record, n)
	for i := range out {
		out[i] = benchRecord(from + i)
	}
	return out
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

// putBare writes n values of the size of a page in one transaction.
func putBare(b *testing.B, db *bbolt.DB, from, n int, value []byte) {
	err := db.Update(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket(bucketPages)
		bucket.FillPercent = fillPercent
		var key [8]byte
		for i := range n {
			binary.BigEndian.PutUint64(key[:], ArchiveBase+uint64(from+i))
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

func pageBytes() []byte {
	r := benchRecord(1)
	return appendPage(nil, 0, &r)
}

func BenchmarkFold(b *testing.B) {
	for _, n := range []int{1, 100, 1000, 5000} {
		b.Run(fmt.Sprintf("volume/%d", n), func(b *testing.B) {
			s := openAt(b, filepath.Join(b.TempDir(), "archive.db"), Options{})
			b.ReportAllocs()
			at := 0
			for b.Loop() {
				b.StopTimer()
				batch := benchRecords(at+1, n)
				b.StartTimer()
				if _, err := s.Fold(b.Context(), feed, id(at), batch); err != nil {
					b.Fatal(err)
				}
				at += n
			}
			b.ReportMetric(float64(at)/b.Elapsed().Seconds(), "records/s")
		})
		b.Run(fmt.Sprintf("bbolt/%d", n), func(b *testing.B) {
			db, value := openBare(b), pageBytes()
			b.ReportAllocs()
			at := 0
			for b.Loop() {
				putBare(b, db, at+1, n, value)
				at += n
			}
			b.ReportMetric(float64(at)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

const benchCount = 1_000_000

func filledStore(b *testing.B) *Store {
	b.Helper()
	s := openAt(b, filepath.Join(b.TempDir(), "archive.db"), Options{})
	for at := 0; at < benchCount; at += 5000 {
		if _, err := s.Fold(b.Context(), feed, id(at), benchRecords(at+1, 5000)); err != nil {
			b.Fatal(err)
		}
	}
	return s
}

func filledBare(b *testing.B) *bbolt.DB {
	b.Helper()
	db, value := openBare(b), pageBytes()
	for at := 0; at < benchCount; at += 5000 {
		putBare(b, db, at, 5000, value)
	}
	return db
}

func BenchmarkScan(b *testing.B) {
	b.Run("volume", func(b *testing.B) {
		s := filledStore(b)
		b.ReportAllocs()
		n := 0
		for b.Loop() {
			for _, err := range s.Read(b.Context(), feed, archive.Range{}) {
				if err != nil {
					b.Fatal(err)
				}
				n++
			}
		}
		b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
	})
	b.Run("bbolt", func(b *testing.B) {
		db := filledBare(b)
		b.ReportAllocs()
		n := 0
		for b.Loop() {
			_ = db.View(func(tx *bbolt.Tx) error {
				c := tx.Bucket(bucketPages).Cursor()
				for k, v := c.First(); k != nil; k, v = c.Next() {
					sink = append([]byte(nil), v...)
					n++
				}
				return nil
			})
		}
		b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
	})
}

var sink []byte

func BenchmarkWindow(b *testing.B) {
	b.Run("volume", func(b *testing.B) {
		s := filledStore(b)
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			from := (i*7919 + 1) % (benchCount - 200)
			i++
			n := 0
			for _, err := range s.Read(b.Context(), feed, archive.Range{After: id(from), To: id(from + 100)}) {
				if err != nil {
					b.Fatal(err)
				}
				n++
			}
			if n != 100 {
				b.Fatal(n)
			}
		}
	})
	b.Run("bbolt", func(b *testing.B) {
		db := filledBare(b)
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			from := (i*7919 + 1) % (benchCount - 200)
			i++
			_ = db.View(func(tx *bbolt.Tx) error {
				c := tx.Bucket(bucketPages).Cursor()
				var key [8]byte
				binary.BigEndian.PutUint64(key[:], ArchiveBase+uint64(from))
				_, v := c.Seek(key[:])
				for range 100 {
					sink = v
					_, v = c.Next()
				}
				return nil
			})
		}
	})
}
