package devredis

import "syscall"

// DiesWithParent makes a child process end with this one, however this one ends.
// It gets its own process group: Ctrl-C in a terminal reaches this process
// alone, which then stops the others in order.
func DiesWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
