//go:build !linux

package replica

import (
	"errors"
	"syscall"
)

// Only Linux gives a process mounts of its own; TestDiskFullStepsAsideAndComesBack
// goes the same way elsewhere.
func ownMounts() *syscall.SysProcAttr { return nil }

func mountSmallDisk(string, int64) error { return errors.ErrUnsupported }
