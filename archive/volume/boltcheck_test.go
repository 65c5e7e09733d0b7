package volume

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/evtlog/evtlog/archive"
)

// A file of bbolt that holds no volumes is sound, and damage to any page shows.
func TestCheckFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other.db")
	if err := CheckFile(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket([]byte("logs"))
		if err != nil {
			return err
		}
		for i := range 200 {
			if err := b.Put([]byte{byte(i)}, make([]byte, 500)); err != nil {
				return err
			}
		}
		return nil
	})
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if err := CheckFile(path); err != nil {
		t.Fatalf("a sound file: %v", err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{20, os.Getpagesize() + 20} {
		whole[at] ^= 1
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := CheckFile(path); !errors.Is(err, archive.ErrCorrupt) {
			t.Errorf("byte %d flipped: %v", at, err)
		}
		whole[at] ^= 1
	}
}
