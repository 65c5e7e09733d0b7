package volume

import "syscall"

// filesystem returns the magic number of the file system that holds dir, 0 when
// it cannot be told.
func filesystem(dir string) uint32 {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0
	}
	return uint32(st.Type)
}
