package volume

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
)

// Quarantine moves a damaged file aside, to path.quarantine-<UTC time>, and
// returns its new name; nothing is deleted. The next Open makes a new, empty
// file. A file that a Store has open is archive.ErrLocked.
func Quarantine(path string) (string, error) {
	h, err := openBolt(path, Options{}.withDefaults(), true)
	switch {
	case err == nil:
		_ = h.db.Close()
	case errors.Is(err, archive.ErrLocked):
		return "", err
	case !errors.Is(err, archive.ErrCorrupt) && !isEmpty(path):
		return "", err
	}
	base := path + ".quarantine-" + time.Now().UTC().Format("20060102T150405Z")
	for n, name := 1, base; ; n++ {
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			if err := os.Rename(path, name); err != nil {
				return "", fmt.Errorf("volume: quarantine %s: %w", path, err)
			}
			return name, syncDir(filepath.Dir(path))
		}
		name = fmt.Sprintf("%s-%d", base, n)
	}
}

// isEmpty reports whether there is a file without bytes: bbolt tries to fill it
// and says that it may not write.
func isEmpty(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Size() == 0
}

// Quarantine sets the volume of a stream aside within the file, under the
// number that it returns, so that the stream begins with an empty volume again.
// It takes no longer for a large volume. A stream without a volume is 0.
func (s *Store) Quarantine(ctx context.Context, stream evtlog.StreamName) (id uint64, err error) {
	if err := s.ready(ctx, stream); err != nil {
		return 0, err
	}
	err = s.Update(func(tx *bbolt.Tx) (err error) {
		id, err = QuarantineVolume(tx, stream)
		return err
	})
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.aside, stream)
	return id, nil
}

// QuarantineVolume is Store.Quarantine inside a transaction, for use without a
// Store: a Store that has found the volume damaged is not told. What the same
// transaction has written to the volume before is lost. The error is one of
// bbolt: roll back.
func QuarantineVolume(tx *bbolt.Tx, stream evtlog.StreamName) (id uint64, err error) {
	all, key := tx.Bucket(bucketVolumes), volumeKey(stream)
	if all == nil || all.Bucket(key) == nil {
		return 0, nil
	}
	q, err := tx.CreateBucketIfNotExists(bucketQuarantine)
	if err != nil {
		return 0, err
	}
	if id, err = q.NextSequence(); err != nil {
		return 0, err
	}
	shelf, err := q.CreateBucket(binary.BigEndian.AppendUint64(nil, id))
	if err != nil {
		return 0, err
	}
	if err := enter(tx, key, -1); err != nil {
		return 0, err
	}
	return id, tx.MoveBucket(key, all, shelf)
}

// Quarantined is a volume that was set aside.
type Quarantined struct {
	ID     uint64
	Stream evtlog.StreamName
}

// ListQuarantined returns the volumes that were set aside, oldest first.
func ListQuarantined(tx *bbolt.Tx) ([]Quarantined, error) {
	q := tx.Bucket(bucketQuarantine)
	if q == nil {
		return nil, nil
	}
	var list []Quarantined
	err := q.ForEachBucket(func(id []byte) error {
		return q.Bucket(id).ForEachBucket(func(key []byte) error {
			stream, ok := streamOf(key)
			if !ok || len(id) != 8 {
				return &CorruptError{Path: tx.DB().Path(), Reason: "a volume set aside has a name that is none"}
			}
			list = append(list, Quarantined{ID: binary.BigEndian.Uint64(id), Stream: stream})
			return nil
		})
	})
	return list, err
}

// DropQuarantined deletes a volume that was set aside; its space is used again.
// An id that does not exist is bbolt's ErrBucketNotFound.
func DropQuarantined(tx *bbolt.Tx, id uint64) error {
	q, err := tx.CreateBucketIfNotExists(bucketQuarantine)
	if err != nil {
		return err
	}
	return q.DeleteBucket(binary.BigEndian.AppendUint64(nil, id))
}
