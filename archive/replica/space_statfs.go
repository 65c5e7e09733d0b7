//go:build linux || darwin

package replica

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// freeSpace returns the bytes that the node's directory may still take.
func (n *Node) freeSpace() (uint64, error) {
	if n.cfg.faults.free != nil {
		return n.cfg.faults.free()
	}
	var st unix.Statfs_t
	if err := unix.Statfs(n.cfg.Dir, &st); err != nil {
		return 0, fmt.Errorf("replica: free space of %s: %w", n.cfg.Dir, err)
	}
	return st.Bavail * uint64(st.Bsize), nil
}
