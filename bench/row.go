package main

import (
	"fmt"
	"math"
	"slices"
)

// Row is one line of the comparison.
type Row struct {
	Name string `json:"name"`
	// Ratio is the median over the rounds of product by limit; for a row without
	// a limit, what was measured, in Unit.
	Ratio float64 `json:"ratio"`
	// Target is what Ratio should reach: at least, or with AtMost at most.
	Target float64 `json:"target"`
	AtMost bool    `json:"at_most,omitempty"`
	OK     bool    `json:"ok"`
	// Informative rows have no target.
	Informative bool `json:"informative,omitempty"`
	// Against says what the limit is, and Unit what Product and Limit count.
	Against string  `json:"against,omitempty"`
	Unit    string  `json:"unit,omitempty"`
	Product float64 `json:"product,omitempty"`
	Limit   float64 `json:"limit,omitempty"`
	// Rounds are the single ratios.
	Rounds []float64 `json:"rounds,omitempty"`
	// Latencies of single calls in microseconds, medians of the rounds. 0 where a
	// row has none.
	P50      float64 `json:"p50_us,omitempty"`
	P99      float64 `json:"p99_us,omitempty"`
	LimitP50 float64 `json:"limit_p50_us,omitempty"`
	LimitP99 float64 `json:"limit_p99_us,omitempty"`
	// What one record cost the product's whole process.
	Allocs float64 `json:"allocs_per_record,omitempty"`
	Bytes  float64 `json:"bytes_per_record,omitempty"`
	// CPU seconds for a million records: of the product's process, of the
	// redis-server meanwhile, and of the limit's own process and its server.
	ClientCPU      float64 `json:"client_cpu_s_per_million,omitempty"`
	ServerCPU      float64 `json:"server_cpu_s_per_million,omitempty"`
	LimitClientCPU float64 `json:"limit_client_cpu_s_per_million,omitempty"`
	LimitServerCPU float64 `json:"limit_server_cpu_s_per_million,omitempty"`
	// Note says what else matters to read the figure.
	Note string `json:"note,omitempty"`
	// Skipped says why the row was not measured; Error, what failed.
	Skipped string `json:"skipped,omitempty"`
	Error   string `json:"error,omitempty"`
	// Points are the series of a growth row.
	Points []Point `json:"points,omitempty"`
}

// target is what a ratio should reach.
type target struct {
	value  float64
	atMost bool
}

func atLeast(v float64) target { return target{value: v} }
func atMost(v float64) target  { return target{value: v, atMost: true} }

// reached reports whether a ratio meets the target. What is not a number does
// not.
func (t target) reached(ratio float64) bool {
	if math.IsNaN(ratio) {
		return false
	}
	if t.atMost {
		return ratio <= t.value
	}
	return ratio >= t.value
}

// judge fills in ratio, target and verdict.
func (r Row) judge(ratio float64, t target) Row {
	r.Ratio, r.Target, r.AtMost, r.OK = ratio, t.value, t.atMost, t.reached(ratio)
	return r
}

// verdict is the row in a few words.
func (r Row) verdict() string {
	switch {
	case r.Error != "":
		return r.Name + " failed: " + r.Error
	case r.Skipped != "":
		return r.Name + " skipped: " + r.Skipped
	case r.Informative:
		return fmt.Sprintf("%s %.2f", r.Name, r.Ratio)
	case r.OK:
		return fmt.Sprintf("%s %.2f, target %s: reached", r.Name, r.Ratio, r.bound())
	}
	return fmt.Sprintf("%s %.2f, target %s: MISSED", r.Name, r.Ratio, r.bound())
}

// bound is the target with its direction.
func (r Row) bound() string {
	switch {
	case r.Informative:
		return "–"
	case r.AtMost:
		return fmt.Sprintf("≤ %.2f", r.Target)
	}
	return fmt.Sprintf("≥ %.2f", r.Target)
}

// median returns the middle value, the mean of the two middle ones when their
// number is even, and 0 when there are none.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	half := len(v) / 2
	if len(v)%2 == 1 {
		return v[half]
	}
	return (v[half-1] + v[half]) / 2
}

// ratio divides, and is not a number when there is nothing to divide by.
func ratio(a, b float64) float64 {
	if b == 0 {
		return math.NaN()
	}
	return a / b
}
