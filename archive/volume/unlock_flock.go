//go:build !windows && !plan9 && !solaris && !aix

package volume

import (
	"errors"
	"os"
	"syscall"
)

// abandon closes a file that bbolt cannot close any more and gives up its lock.
// The memory map that stays behind would hold the lock otherwise.
func abandon(f *os.File) error {
	return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close())
}
