package main

import (
	"runtime"
	"slices"
	"time"
)

// sample is one measured run of the product.
type sample struct {
	records int
	took    time.Duration
	// latencies of single calls, sorted by finish; empty where a row has none.
	latencies     []time.Duration
	allocs, bytes uint64
}

func (s sample) perSecond() float64 { return float64(s.records) / s.took.Seconds() }

// percentile returns a latency in microseconds, 0 when there are none.
func (s *sample) percentile(p int) float64 {
	if len(s.latencies) == 0 {
		return 0
	}
	slices.Sort(s.latencies)
	return float64(s.latencies[(len(s.latencies)-1)*p/100]) / 1e3
}

// timed measures f, which works on the given number of records.
func timed(records int, f func() error) (sample, error) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start := time.Now()
	err := f()
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	return sample{
		records: records, took: took,
		allocs: after.Mallocs - before.Mallocs, bytes: after.TotalAlloc - before.TotalAlloc,
	}, err
}
