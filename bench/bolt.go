package main

import (
	"encoding/binary"
	"os"
	"time"

	bolt "go.etcd.io/bbolt"
)

// bareBolt is the limit of a local fold: values of 200 bytes under ascending
// keys, 1,000 a transaction, fsync on. It returns records per second.
func bareBolt(path string, records int) (float64, error) {
	defer os.Remove(path)
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: time.Second, FreelistType: bolt.FreelistMapType})
	if err != nil {
		return 0, err
	}
	defer db.Close()
	const perCommit = 1000
	value := make([]byte, 200)
	start := time.Now()
	for n := 0; n < records; n += perCommit {
		err := db.Update(func(tx *bolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte("records"))
			if err != nil {
				return err
			}
			b.FillPercent = 0.95
			for i := range perCommit {
				key := make([]byte, 8)
				binary.BigEndian.PutUint64(key, uint64(n+i))
				if err := b.Put(key, value); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	return float64(records) / time.Since(start).Seconds(), nil
}
