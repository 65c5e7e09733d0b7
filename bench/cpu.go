package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ownCPU is the CPU time this process has used, user and system.
func ownCPU() time.Duration { return usage(syscall.RUSAGE_SELF) }

// childrenCPU is that of all children that were waited for.
func childrenCPU() time.Duration { return usage(syscall.RUSAGE_CHILDREN) }

func usage(who int) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(who, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// serverCPU is the CPU time of the redis-server, to a hundredth of a second, 0
// where /proc does not tell.
func (e *env) serverCPU() time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", e.redis.Process.Pid))
	if err != nil {
		return 0
	}
	cpu, err := parseStat(string(b))
	if err != nil {
		return 0
	}
	return cpu
}

// tick is the unit of /proc/<pid>/stat on every Linux that Go runs on.
const tick = time.Second / 100

// parseStat returns user and system time of a /proc/<pid>/stat line. The name of
// the program, in parentheses, may hold blanks and parentheses itself.
func parseStat(line string) (time.Duration, error) {
	end := strings.LastIndexByte(line, ')')
	if end < 0 {
		return 0, fmt.Errorf("no program name in %q", line)
	}
	// Behind the name: state is the 3rd field of the line, utime the 14th.
	words := strings.Fields(line[end+1:])
	if len(words) < 13 {
		return 0, fmt.Errorf("only %d fields behind the name in %q", len(words), line)
	}
	user, err := strconv.ParseInt(words[11], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("user time: %w", err)
	}
	system, err := strconv.ParseInt(words[12], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("system time: %w", err)
	}
	return time.Duration(user+system) * tick, nil
}
