//go:build windows || plan9 || solaris || aix

package volume

import "os"

// abandon closes a file that bbolt cannot close any more, and with it gives up
// the lock.
func abandon(f *os.File) error { return f.Close() }
