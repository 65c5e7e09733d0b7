//go:build !linux

package devredis

import "syscall"

// DiesWithParent would make a child process end with this one. Only Linux can
// do that; elsewhere a child outlives a parent that is killed.
func DiesWithParent() *syscall.SysProcAttr { return nil }
