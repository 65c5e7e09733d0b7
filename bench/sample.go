package main

import (
	"runtime"
	"slices"
	"time"
)

// sample is one measured piece of work, of the product or of its limit.
type sample struct {
	records int
	took    time.Duration
	// p50 and p99 are latencies of single calls in microseconds.
	p50, p99 float64
	// allocs and bytes are those of the whole process.
	allocs, bytes uint64
	// client is the CPU time of the process that did the work, server that of the
	// redis-server meanwhile.
	client, server time.Duration
	note           string
}

func (s sample) perSecond() float64 { return ratio(float64(s.records), s.took.Seconds()) }

func (s sample) median() float64 { return s.p50 }

func (s sample) allocsPerRecord() float64 { return s.per(float64(s.allocs)) }

// per divides by the number of records.
func (s sample) per(v float64) float64 {
	if s.records == 0 {
		return 0
	}
	return v / float64(s.records)
}

// perMillion is CPU seconds for a million records.
func (s sample) perMillion(cpu time.Duration) float64 { return s.per(cpu.Seconds()) * 1e6 }

// percentile returns a latency of a sorted list in microseconds, 0 when there
// are none.
func percentile(sorted []time.Duration, p int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return float64(sorted[(len(sorted)-1)*p/100]) / 1e3
}

// withLatencies adds what single calls took; it sorts the list.
func (s sample) withLatencies(latencies []time.Duration) sample {
	slices.Sort(latencies)
	s.p50, s.p99 = percentile(latencies, 50), percentile(latencies, 99)
	return s
}

// timed measures f, which works on the given number of records.
func (e *env) timed(records int, f func() error) (sample, error) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	server, client, start := e.serverCPU(), ownCPU(), time.Now()
	err := f()
	took, client := time.Since(start), ownCPU()-client
	server = e.serverCPU() - server
	runtime.ReadMemStats(&after)
	return sample{
		records: records, took: took, client: client, server: server,
		allocs: after.Mallocs - before.Mallocs, bytes: after.TotalAlloc - before.TotalAlloc,
	}, err
}

// inParallel runs f for each caller and returns the first error.
func inParallel(callers int, f func(caller int) error) error {
	errs := make(chan error, callers)
	for i := range callers {
		go func() { errs <- f(i) }()
	}
	var first error
	for range callers {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// called lets callers make calls, records in all, and measures each. The end of a
// call is the start of the next: one look at the clock for each.
func (e *env) called(records, callers int, call func() error) (sample, error) {
	each := records / callers
	latencies := make([]time.Duration, each*callers)
	s, err := e.timed(len(latencies), func() error {
		return inParallel(callers, func(caller int) error {
			mine := latencies[caller*each : (caller+1)*each]
			last := time.Now()
			for i := range mine {
				if err := call(); err != nil {
					return err
				}
				now := time.Now()
				mine[i], last = now.Sub(last), now
			}
			return nil
		})
	})
	return s.withLatencies(latencies), err
}
