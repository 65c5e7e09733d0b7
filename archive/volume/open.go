package volume

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/evtlog/evtlog/archive"
)

// Open opens the file at path, or makes a new one when there is none. Close the
// Store when done.
//
// Errors: archive.ErrLocked when another Store has the file; *CorruptError
// when the file is damaged, which includes an empty one; *FormatError;
// ErrNetworkDisk; ErrOptions; else one of the operating system. A damaged file
// is left as it is: restore it from a copy, or move it aside with Quarantine.
// When only some volumes are damaged Open succeeds, and those volumes answer
// with their *CorruptError.
func Open(path string, opts Options) (*Store, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	if err := checkDisk(path, opts.AllowNetworkDisk); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		if err := create(path); err != nil {
			return nil, err
		}
	}
	s := newStore(path, opts)
	if err := s.examine(); err != nil {
		return nil, err
	}
	f, err := openBolt(path, opts, false)
	if err != nil {
		return nil, err
	}
	s.db, s.file = f.db, f.file
	go s.writeLoop()
	return s, nil
}

// boltHandle is an open file of bbolt.
type boltHandle struct {
	db *bbolt.DB
	// file is the one that db works on.
	file *os.File
}

// openBolt opens a file that bbolt may read only or write.
func openBolt(path string, opts Options, readOnly bool) (h boltHandle, err error) {
	o := &bbolt.Options{
		Timeout:      opts.LockTimeout,
		FreelistType: bbolt.FreelistMapType,
		ReadOnly:     readOnly,
		MaxSize:      int(opts.MaxBytes),
		NoStatistics: true,
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			// The file exists: bbolt must not make an empty one in its place.
			f, err := os.OpenFile(name, flag&^os.O_CREATE, mode)
			h.file = f
			return f, err
		},
	}
	err = guard(func() (err error) {
		h.db, err = bbolt.Open(path, 0o600, o)
		return err
	})
	if err == nil {
		return h, nil
	}
	var caught *panicError
	if errors.As(err, &caught) && h.file != nil {
		_ = abandon(h.file)
	}
	return boltHandle{}, openError(path, opts.LockTimeout, err)
}

// openError says what an error of bbolt.Open means.
func openError(path string, timeout time.Duration, err error) error {
	var errno syscall.Errno
	var pathErr *fs.PathError
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return fmt.Errorf("volume: %s: %w: no lock after %s; stop the other process, or give this one a file of its own", path, archive.ErrLocked, timeout)
	case errors.As(err, &pathErr), errors.As(err, &errno):
		return fmt.Errorf("volume: open %s: %w", path, err)
	}
	return &CorruptError{Path: path, Reason: err.Error()}
}

// examine checks the file under a shared lock, before bbolt is allowed to write
// to it.
func (s *Store) examine() error {
	info, err := os.Stat(s.path)
	if err != nil {
		return fmt.Errorf("volume: open %s: %w", s.path, err)
	}
	if info.Size() == 0 {
		return &CorruptError{Path: s.path, Reason: "the file is empty"}
	}
	h, err := openBolt(s.path, s.opts, true)
	if err != nil {
		return err
	}
	defer h.db.Close()
	if info, err = h.file.Stat(); err != nil {
		return fmt.Errorf("volume: open %s: %w", s.path, err)
	}
	reason, err := checkBolt(h.file, info.Size(), s.opts.depth(info.Size()), s.opts.AcceptTornMeta)
	if err != nil {
		return fmt.Errorf("volume: read %s: %w", s.path, err)
	}
	if reason != "" {
		return &CorruptError{Path: s.path, Reason: reason}
	}
	err = guard(func() error { return h.db.View(s.examineContent) })
	var caught *panicError
	if errors.As(err, &caught) {
		return &CorruptError{Path: s.path, Reason: caught.Error()}
	}
	return err
}

// examineContent checks what is in the file: the format, and each volume's end.
func (s *Store) examineContent(tx *bbolt.Tx) error {
	meta := tx.Bucket(bucketMeta)
	if meta == nil || meta.Get(keyFormat) == nil {
		return &FormatError{Path: s.path}
	}
	id, err := parseFormat(s.path, meta.Get(keyFormat))
	if err != nil {
		return err
	}
	s.id = id
	all := tx.Bucket(bucketVolumes)
	if all == nil {
		return &CorruptError{Path: s.path, Reason: "the table of volumes is missing"}
	}
	want, ok := parseRegistry(meta.Get(keyRegistry))
	var got registry
	err = all.ForEach(func(key, _ []byte) error {
		got.toggle(key, +1)
		return nil
	})
	if err != nil || !ok || got != want {
		return &CorruptError{Path: s.path, Reason: "the volumes are not those in the register"}
	}
	return all.ForEach(func(key, _ []byte) error {
		stream, ok := streamOf(key)
		if !ok {
			return &CorruptError{Path: s.path, Reason: "a volume has a name that is none"}
		}
		if err := guard(func() error { return checkEnd(tx, newVol(stream)) }); err != nil {
			_ = s.setAside(stream, err)
		}
		return nil
	})
}

// checkEnd checks that the end of a volume is where its head says.
func checkEnd(tx *bbolt.Tx, v *vol) error {
	if err := v.attach(tx.Bucket(bucketVolumes).Bucket(v.key)); err != nil {
		return err
	}
	if v.bucket == nil {
		return v.corrupt(0, 0, "it is no volume")
	}
	last, err := v.last()
	if err != nil {
		return err
	}
	key, page := v.pages.Cursor().Last()
	reason := checkPage(v.pageSeed, page)
	if !isKey(key, last.end()-1) {
		reason = "the last page is not the one that the head names"
	} else if id, ok := pageID(page); reason == "" && (!ok || id != last.watermark) {
		reason = "the last page is not the watermark"
	}
	if reason != "" {
		return v.corrupt(last.lsn, last.end()-1, reason)
	}
	return nil
}

// format returns the row that says what the file is.
func format(id [storeIDSize]byte) []byte {
	b := make([]byte, 0, formatSize)
	b = append(b, formatMagic...)
	b = binary.BigEndian.AppendUint16(b, FormatVersion)
	b = append(b, id[:]...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func parseFormat(path string, b []byte) (id [storeIDSize]byte, err error) {
	if len(b) < len(formatMagic)+2 || string(b[:len(formatMagic)]) != formatMagic {
		return id, &FormatError{Path: path}
	}
	if v := binary.BigEndian.Uint16(b[len(formatMagic):]); v != FormatVersion {
		return id, &FormatError{Path: path, Version: int(v)}
	}
	if len(b) != formatSize || crc32.Checksum(b[:formatSize-crcSize], castagnoli) != binary.BigEndian.Uint32(b[formatSize-crcSize:]) {
		return id, &CorruptError{Path: path, Reason: "the checksum of the format row does not match"}
	}
	copy(id[:], b[len(formatMagic)+2:])
	return id, nil
}

// create makes a new file, complete or not at all: it is written under another
// name and linked when it is on disk. So a file that is empty or half made is
// always a damaged one.
func create(path string) error {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+".new-*")
	if err != nil {
		return fmt.Errorf("volume: create %s: %w", path, err)
	}
	defer os.Remove(tmp.Name())
	if err := tmp.Close(); err != nil {
		return fmt.Errorf("volume: create %s: %w", path, err)
	}
	if err := initFile(tmp.Name()); err != nil {
		return fmt.Errorf("volume: create %s: %w", path, err)
	}
	if err := os.Link(tmp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("volume: create %s: %w", path, err)
	}
	return syncDir(dir)
}

func initFile(path string) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: DefaultLockTimeout, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		var id [storeIDSize]byte
		_, _ = rand.Read(id[:])
		meta, err := tx.CreateBucket(bucketMeta)
		if err != nil {
			return err
		}
		if err := meta.Put(keyFormat, format(id)); err != nil {
			return err
		}
		if err := meta.Put(keyRegistry, new(registry).encode()); err != nil {
			return err
		}
		_, err = tx.CreateBucket(bucketVolumes)
		return err
	})
	return errors.Join(err, db.Close())
}
