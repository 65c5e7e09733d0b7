package main

import (
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Result is what a piece of work cost. Allocations, bytes and CPU are those of
// this whole process while it ran.
type Result struct {
	Records    int     `json:"records"`
	Seconds    float64 `json:"seconds"`
	P50        float64 `json:"p50_us"`
	P99        float64 `json:"p99_us"`
	Allocs     uint64  `json:"allocs"`
	Bytes      uint64  `json:"bytes"`
	CPUSeconds float64 `json:"cpu_seconds"`
}

// timed measures f, which works on the given number of records and may fill in
// latencies of single calls.
func timed(records int, latencies []time.Duration, f func() error) (Result, error) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	cpu, start := cpuSeconds(), time.Now()
	err := f()
	took, cpu := time.Since(start), cpuSeconds()-cpu
	runtime.ReadMemStats(&after)
	slices.Sort(latencies)
	return Result{
		Records: records, Seconds: took.Seconds(), P50: percentile(latencies, 50), P99: percentile(latencies, 99),
		Allocs: after.Mallocs - before.Mallocs, Bytes: after.TotalAlloc - before.TotalAlloc, CPUSeconds: cpu,
	}, err
}

// percentile returns a latency of a sorted list in microseconds.
func percentile(sorted []time.Duration, p int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return float64(sorted[(len(sorted)-1)*p/100]) / 1e3
}

// cpuSeconds is the CPU time this process has used, user and system.
func cpuSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return (time.Duration(u.Utime.Nano()) + time.Duration(u.Stime.Nano())).Seconds()
}

// called runs call records times, divided among the callers, and measures each.
func called(records, callers int, call func() error) (Result, error) {
	each := records / callers
	latencies := make([]time.Duration, each*callers)
	return timed(len(latencies), latencies, func() error {
		errs := make(chan error, callers)
		for c := range callers {
			go func() {
				mine := latencies[c*each : (c+1)*each]
				for i := range mine {
					start := time.Now()
					if err := call(); err != nil {
						errs <- err
						return
					}
					mine[i] = time.Since(start)
				}
				errs <- nil
			}()
		}
		var first error
		for range callers {
			if err := <-errs; err != nil && first == nil {
				first = err
			}
		}
		return first
	})
}

// payload is the record of all rows in one piece, about 120 bytes, for systems
// that have no fields.
var payload = []byte("scored|3f1d8c52-6b0e-4f6f-9c55-52a7a1c0a1de|" + strings.Repeat("0123456789", 4) + "|" + strings.Repeat("x", 32))

// names and values of the record for systems that have fields. The bench command
// appends the same.
var names = []string{"event", "game", "payload"}
var values = []string{"scored", "3f1d8c52-6b0e-4f6f-9c55-52a7a1c0a1de", strings.Repeat("0123456789", 4)}
