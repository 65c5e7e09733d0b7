package volume

import (
	"fmt"
	"log/slog"
	"math"
	"time"
)

// Defaults of Options.
const (
	DefaultLockTimeout = time.Second
	DefaultCheckBytes  = 256 << 20
)

// Options configure a Store. The zero value is a sound default.
type Options struct {
	// LockTimeout is how long Open waits for another process to let go of the
	// file. 0 means 1 s.
	LockTimeout time.Duration
	// MaxBytes is the largest size of the file; a fold that would pass it is
	// refused with ErrFull. The file grows in steps of 16 MiB, so leave that
	// much. 0 means no limit.
	MaxBytes int64
	// CheckBytes is the largest file whose whole structure is checked at Open,
	// which takes about half a second per GiB. Of a larger one Open leaves out
	// the leaf pages, which hold the records: those are always checked when they
	// are read. 0 means 256 MiB, a negative number checks no file whole.
	CheckBytes int64
	// AcceptTornMeta opens a file one of whose two meta pages is damaged, in the
	// state before its last commit, which may have been acknowledged. Set it only
	// when what the archive lacks can be had elsewhere: from the live stream, or
	// from the other nodes.
	AcceptTornMeta bool
	// AllowNetworkDisk opens a file on NFS or SMB all the same.
	AllowNetworkDisk bool
	// Logger gets a line for each damage found. nil discards.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.LockTimeout == 0 {
		o.LockTimeout = DefaultLockTimeout
	}
	if o.CheckBytes == 0 {
		o.CheckBytes = DefaultCheckBytes
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func (o Options) validate() error {
	switch {
	case o.LockTimeout < 0:
		return fmt.Errorf("volume: %w: LockTimeout %s is negative; 0 means %s", ErrOptions, o.LockTimeout, DefaultLockTimeout)
	case o.MaxBytes < 0 || o.MaxBytes > math.MaxInt:
		return fmt.Errorf("volume: %w: MaxBytes %d is outside 0..%d; 0 means no limit", ErrOptions, o.MaxBytes, math.MaxInt)
	}
	return nil
}

// depth says how deep a file of a size is checked.
func (o Options) depth(size int64) int {
	if size <= o.CheckBytes {
		return deep
	}
	return shallow
}
