package volume

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// checkDisk refuses a file on a disk where locks cannot be trusted.
func checkDisk(path string, allow bool) error {
	return refuseDisk(path, networkDisk(filesystem(filepath.Dir(path))), allow)
}

func refuseDisk(path, kind string, allow bool) error {
	if kind == "" || allow {
		return nil
	}
	return fmt.Errorf("volume: %s: %w: it is %s, where locks and fsync cannot be trusted; use a local disk, or set AllowNetworkDisk", path, ErrNetworkDisk, kind)
}

// networkDisk names the network file system with this magic number, "" for any
// other. The numbers are Linux's.
func networkDisk(magic uint32) string {
	switch magic {
	case 0x6969:
		return "NFS"
	case 0x517B, 0xFF534D42, 0xFE534D42:
		return "SMB"
	}
	return ""
}

// syncDir makes a new or changed name in a directory durable.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		// Directories cannot be synced there, and need not be.
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("volume: sync %s: %w", dir, err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("volume: sync %s: %w", dir, err)
	}
	return nil
}

// isFull reports whether an error of a write is a lack of room. bbolt flattens
// the error of a refused growth to text.
func isFull(err error) bool {
	for _, full := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if errors.Is(err, full) || hasSuffix(err, full) {
			return true
		}
	}
	return false
}
