package main

import (
	"encoding/binary"
	"os"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive/volume"
	bolt "go.etcd.io/bbolt"
)

var boltBucket = []byte("records")

// valueSize is what the record of all rows takes in a volume, so that bare bbolt
// stores as many bytes.
func valueSize() int { return volume.EncodedSize([]evtlog.Record{{Fields: fields}}) }

// bareBolt makes a bbolt file of values under ascending keys, with fsync.
func bareBolt(path string, records, perCommit int) (*bolt.DB, error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: time.Second, FreelistType: bolt.FreelistMapType})
	if err != nil {
		return nil, err
	}
	value := make([]byte, valueSize())
	for n := 0; n < records; n += perCommit {
		if err := putMany(db, n, min(perCommit, records-n), value); err != nil {
			_ = db.Close()
			return nil, err
		}
	}
	return db, nil
}

// putMany is one commit.
func putMany(db *bolt.DB, from, n int, value []byte) error {
	return db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(boltBucket)
		if err != nil {
			return err
		}
		b.FillPercent = 0.95
		for i := range n {
			if err := b.Put(boltKey(from+i), value); err != nil {
				return err
			}
		}
		return nil
	})
}

func boltKey(n int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// removeBolt closes a file and removes it.
func removeBolt(db *bolt.DB) {
	path := db.Path()
	_ = db.Close()
	_ = os.Remove(path)
}

// boltScan copies every value, and returns how many there are.
func boltScan(db *bolt.DB) (n int, err error) {
	err = db.View(func(tx *bolt.Tx) error {
		c := tx.Bucket(boltBucket).Cursor()
		for k, v := c.First(); k != nil; k, v = c.Next() {
			if copied := append([]byte(nil), v...); len(copied) > 0 {
				n++
			}
		}
		return nil
	})
	return n, err
}

// boltWindow reads n values from a position on, without copying them.
func boltWindow(db *bolt.DB, from, n int) (read int, err error) {
	err = db.View(func(tx *bolt.Tx) error {
		c := tx.Bucket(boltBucket).Cursor()
		for k, v := c.Seek(boltKey(from)); k != nil && read < n; k, v = c.Next() {
			if len(v) > 0 {
				read++
			}
		}
		return nil
	})
	return read, err
}
