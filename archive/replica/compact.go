package replica

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	bberrors "go.etcd.io/bbolt/errors"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/archive/replica/snapstore"
	"github.com/evtlog/evtlog/archive/volume"
)

// Compacted is what Compact did to one file.
type Compacted struct {
	Name          string
	Before, After int64
}

// compactTx is how many bytes are copied in one transaction.
const compactTx = 32 << 20

// Compact rewrites the files of a node that is not running, so that the space
// they do not use goes back to the disk; the files themselves never shrink. It
// needs room for a copy of the largest one. A file is replaced only by a copy
// that is complete and on disk. archive.ErrLocked says that the node is running.
func Compact(ctx context.Context, dir string) ([]Compacted, error) {
	var out []Compacted
	for _, name := range []string{volumesFile, raftFile} {
		c, err := compactFile(ctx, filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return out, fmt.Errorf("replica: compact %s: %w", name, err)
		}
		out = append(out, c)
	}
	return out, nil
}

func compactFile(ctx context.Context, path string) (c Compacted, err error) {
	before, err := os.Stat(path)
	if err != nil {
		return c, err
	}
	// Writable, although it is only read: the lock must be the exclusive one.
	src, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, FreelistType: bbolt.FreelistMapType})
	if errors.Is(err, bberrors.ErrTimeout) {
		return c, fmt.Errorf("%w; stop the node", archive.ErrLocked)
	}
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	tmp := path + ".compact"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c, err
	}
	dst, err := bbolt.Open(tmp, 0o600, &bbolt.Options{Timeout: time.Second, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return c, err
	}
	// Otherwise the copy grows to the next power of two.
	dst.AllocSize = 64 << 10
	err = errors.Join(ctx.Err(), bbolt.Compact(dst, src, compactTx), dst.Sync(), dst.Close(), ctx.Err())
	if err != nil {
		return c, errors.Join(err, os.Remove(tmp))
	}
	after, err := os.Stat(tmp)
	if err != nil {
		return c, err
	}
	if err := os.Rename(tmp, path); err != nil {
		return c, err
	}
	return Compacted{Name: filepath.Base(path), Before: before.Size(), After: after.Size()}, syncDir(filepath.Dir(path))
}

// VerifyDir checks every byte that a node keeps which is not running: volumes,
// log and snapshots. Damage is a finding, not an error. archive.ErrLocked says
// that the node is running: ask it with the Verify call instead.
func VerifyDir(ctx context.Context, dir string) ([]api.Finding, error) {
	path := filepath.Join(dir, volumesFile)
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("replica: verify: %w", err)
	}
	var out []api.Finding
	v, err := volume.Open(path, volume.Options{CheckBytes: 1 << 50})
	switch {
	case errors.Is(err, archive.ErrCorrupt):
		out = append(out, api.Finding{What: volumesFile, Detail: err.Error()})
	case err != nil:
		return nil, err
	default:
		found, err := verifyVolumes(ctx, v)
		if err = errors.Join(err, v.Close()); err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	log := api.Finding{What: raftFile, OK: true}
	if _, err := os.Stat(filepath.Join(dir, raftFile)); err == nil {
		if log.Commits, err = verifyLog(ctx, dir); errors.Is(err, archive.ErrLocked) || ctx.Err() != nil {
			return nil, errors.Join(ctx.Err(), err)
		} else if err != nil {
			log.OK, log.Detail = false, err.Error()
		}
		out = append(out, log)
	}
	files, bad := snapstore.Check(filepath.Join(dir, snapshotsDir))
	f := api.Finding{What: snapshotsDir, OK: len(bad) == 0, Commits: uint64(files)}
	if len(bad) > 0 {
		f.Detail = errors.Join(bad...).Error()
	}
	return append(out, f), nil
}

func verifyVolumes(ctx context.Context, v *volume.Store) ([]api.Finding, error) {
	heads, err := v.Volumes(ctx)
	if err != nil && !errors.Is(err, archive.ErrCorrupt) {
		return nil, err
	}
	var out []api.Finding
	for _, h := range heads {
		r, err := v.Verify(ctx, h.Stream)
		f := api.Finding{What: volumeName(h.Stream), OK: err == nil, Commits: r.Commits, Records: r.Records}
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil && !errors.Is(err, archive.ErrCorrupt):
			return nil, err
		case err != nil:
			f.Detail = err.Error()
		}
		out = append(out, f)
	}
	return out, nil
}

func volumeName(s evtlog.StreamName) string { return "volume " + s.String() }

// verifyLog reads the log read-only.
func verifyLog(ctx context.Context, dir string) (n uint64, err error) {
	path := filepath.Join(dir, raftFile)
	bolt, err := openBolt(path, true)
	if err != nil {
		return 0, err
	}
	// Under the lock that bolt holds.
	if err = checkRaftFile(path); err == nil {
		s := &raftStore{bolt: bolt}
		n, err = s.verify(ctx)
	}
	return n, errors.Join(err, bolt.Close())
}
