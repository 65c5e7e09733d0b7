package replica

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bberrors "go.etcd.io/bbolt/errors"

	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/archive/replica/command"
	"github.com/evtlog/evtlog/archive/volume"
)

// raftFile is the name of the log and vote file inside a node's directory.
const raftFile = "raft.db"

// errStoreStopped is what a stopped raftStore answers to every write.
var errStoreStopped = errors.New("replica: the raft store is stopped")

// openBolt opens raft.db with the options that keep it fast and safe: every
// write synced, a lock that is not waited for, a freelist that is not written
// with each commit and does not degrade once the log has been cut.
// A file whose structure is damaged, on which bbolt may panic, is errDamaged.
func openBolt(path string, readOnly bool) (store *raftboltdb.BoltStore, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("replica: open %s: %w: %v", path, errDamaged, p)
		}
	}()
	store, err = raftboltdb.New(raftboltdb.Options{
		Path: path,
		BoltOptions: &bbolt.Options{
			Timeout:        time.Second,
			NoFreelistSync: true,
			FreelistType:   bbolt.FreelistMapType,
			ReadOnly:       readOnly,
		},
	})
	if errors.Is(err, bberrors.ErrTimeout) {
		return nil, fmt.Errorf("replica: open %s: %w; stop the other process", path, archive.ErrLocked)
	}
	for _, bad := range []error{bberrors.ErrInvalid, bberrors.ErrVersionMismatch, bberrors.ErrChecksum} {
		if errors.Is(err, bad) {
			return nil, fmt.Errorf("replica: open %s: %w: %w", path, errDamaged, err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("replica: open %s: %w", path, err)
	}
	return store, nil
}

// raftStore is the log and stable store of one incarnation of a node. It stands
// between raft and raft.db for three reasons: raft panics when the term cannot
// be stored, and a full disk must not end the program; a damaged entry must be
// noticed before it is sent to others; and a stopped node must not write.
type raftStore struct {
	bolt *raftboltdb.BoltStore
	// fail is told the first write error.
	fail func(error)
	// damaged is told of an entry whose checksum does not match.
	damaged func(index uint64, err error)

	once    sync.Once
	stopped chan struct{}
}

var (
	_ raft.LogStore    = (*raftStore)(nil)
	_ raft.StableStore = (*raftStore)(nil)
)

// openRaftStore opens raft.db in a directory that nobody else uses: the lock on
// the volumes sees to that. The file is examined first, since bbolt may end the
// program over a damaged one, which is errDamaged.
func openRaftStore(dir string, fail func(error), damaged func(uint64, error)) (*raftStore, error) {
	path := filepath.Join(dir, raftFile)
	if err := checkRaftFile(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	bolt, err := openBolt(path, false)
	if err != nil {
		return nil, err
	}
	return &raftStore{bolt: bolt, fail: fail, damaged: damaged, stopped: make(chan struct{})}, nil
}

func checkRaftFile(path string) error {
	err := volume.CheckFile(path)
	if errors.Is(err, archive.ErrCorrupt) {
		return fmt.Errorf("replica: %s: %w: %w", raftFile, errDamaged, err)
	}
	return err
}

// stop makes every later write fail, and lets go a write that waits for space.
func (s *raftStore) stop() { s.once.Do(func() { close(s.stopped) }) }

func (s *raftStore) isStopped() bool {
	select {
	case <-s.stopped:
		return true
	default:
		return false
	}
}

// close closes the file; raft must have ended.
func (s *raftStore) close() error {
	s.stop()
	return s.bolt.Close()
}

// raftFileSize returns the bytes of raft.db, 0 when that cannot be told.
func raftFileSize(dir string) int64 {
	st, err := os.Stat(filepath.Join(dir, raftFile))
	if err != nil {
		return 0
	}
	return st.Size()
}

// guard runs an access to the file. bbolt trusts the structure of its file, so
// damage there shows as a panic, or as a fault in the mapped file; it becomes
// errDamaged.
func guard(access func() error) (err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errDamaged, p)
		}
	}()
	return access()
}

func (s *raftStore) write(access func() error) error {
	if s.isStopped() {
		return errStoreStopped
	}
	err := guard(access)
	if err != nil {
		s.fail(fmt.Errorf("replica: write to %s: %w", raftFile, err))
	}
	return err
}

// StoreLog implements raft.LogStore.
func (s *raftStore) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore. An entry that arrives damaged is refused:
// it must not get into this log.
func (s *raftStore) StoreLogs(logs []*raft.Log) error {
	for _, l := range logs {
		if err := checkEntry(l); err != nil {
			s.damaged(l.Index, fmt.Errorf("it arrived damaged from the leader: %w", err))
			return err
		}
	}
	return s.write(func() error { return s.bolt.StoreLogs(logs) })
}

// GetLog implements raft.LogStore. An entry whose content is damaged is reported
// and returned as it is: raft would panic on an error, while the state machine
// and the other nodes each refuse the entry by its checksum. Where there is no
// entry to return, the goroutine of raft that asked ends with the node, instead
// of the whole program.
func (s *raftStore) GetLog(index uint64, l *raft.Log) error {
	err := s.read(index, l)
	if errors.Is(err, errDamaged) {
		s.damaged(index, err)
		<-s.stopped
		runtime.Goexit()
	}
	if err != nil {
		return err
	}
	if err := checkEntry(l); err != nil {
		s.damaged(index, err)
	}
	return nil
}

// read reads one entry, without a look at what it says. raft.ErrLogNotFound and
// errDamaged are possible.
func (s *raftStore) read(index uint64, l *raft.Log) error {
	err := guard(func() error { return s.bolt.GetLog(index, l) })
	if err == nil && l.Index != index {
		err = fmt.Errorf("%w: it says it is entry %d", errDamaged, l.Index)
	}
	if err != nil && !errors.Is(err, raft.ErrLogNotFound) && !errors.Is(err, errDamaged) {
		// It could not be decoded.
		err = fmt.Errorf("%w: %w", errDamaged, err)
	}
	return err
}

// checkEntry reports whether the bytes of a command match their checksums. An
// entry that is whole but of a newer version is not damaged.
func checkEntry(l *raft.Log) error {
	if l.Type == raft.LogConfiguration {
		_, err := membersOf(l)
		return err
	}
	if l.Type != raft.LogCommand {
		return nil
	}
	_, err := command.Decode(l.Data)
	var bad *command.BadError
	if errors.As(err, &bad) && bad.Damaged {
		return err
	}
	return nil
}

// FirstIndex implements raft.LogStore.
func (s *raftStore) FirstIndex() (i uint64, err error) {
	err = guard(func() error { i, err = s.bolt.FirstIndex(); return err })
	return i, err
}

// LastIndex implements raft.LogStore.
func (s *raftStore) LastIndex() (i uint64, err error) {
	err = guard(func() error { i, err = s.bolt.LastIndex(); return err })
	return i, err
}

// DeleteRange implements raft.LogStore.
func (s *raftStore) DeleteRange(lo, hi uint64) error {
	return s.write(func() error { return s.bolt.DeleteRange(lo, hi) })
}

// Keys of the node's own in the stable store.
var (
	stableCluster     = []byte("evtlog/cluster")
	stableIncarnation = []byte("evtlog/incarnation")
)

func isNotFound(err error) bool {
	return errors.Is(err, raftboltdb.ErrKeyNotFound)
}

// identity returns whose log this is; empty parts are not known.
func (s *raftStore) identity() (api.Identity, error) {
	var id api.Identity
	for key, into := range map[string]*string{string(stableCluster): &id.Cluster, string(stableIncarnation): &id.Incarnation} {
		v, err := s.Get([]byte(key))
		if err != nil && !isNotFound(err) {
			return id, fmt.Errorf("replica: read %s: %w", raftFile, err)
		}
		*into = string(v)
	}
	return id, nil
}

func (s *raftStore) setIdentity(id api.Identity) error {
	if known, err := s.identity(); err != nil || known == id {
		return err
	}
	if err := s.Set(stableCluster, []byte(id.Cluster)); err != nil {
		return fmt.Errorf("replica: write %s: %w", raftFile, err)
	}
	if err := s.Set(stableIncarnation, []byte(id.Incarnation)); err != nil {
		return fmt.Errorf("replica: write %s: %w", raftFile, err)
	}
	return nil
}

// verify reads every entry and checks its bytes; it returns how many there are.
func (s *raftStore) verify(ctx context.Context) (entries uint64, err error) {
	if err := s.verifyVote(); err != nil {
		return 0, err
	}
	first, err := s.FirstIndex()
	if err != nil {
		return 0, fmt.Errorf("replica: read %s: %w", raftFile, err)
	}
	last, err := s.LastIndex()
	if err != nil || first == 0 {
		return 0, err
	}
	for i := first; i <= last; i++ {
		if ctx.Err() != nil {
			return entries, ctx.Err()
		}
		var l raft.Log
		err := s.read(i, &l)
		if errors.Is(err, raft.ErrLogNotFound) {
			// Cut meanwhile by a snapshot, or never there, behind one that was sent.
			continue
		}
		if err == nil {
			err = checkEntry(&l)
		}
		if err != nil {
			return entries, fmt.Errorf("replica: entry %d of %s: %w: %w", i, raftFile, errDamaged, err)
		}
		entries++
	}
	return entries, nil
}
