package main

import (
	"math"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		of   []float64
		want float64
	}{
		{nil, 0},
		{[]float64{7}, 7},
		{[]float64{9, 1, 5}, 5},
		{[]float64{9, 1, 5, 6}, 5.5},
	} {
		given := append([]float64(nil), c.of...)
		if got := median(c.of); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.of, got, c.want)
		}
		for i := range given {
			if given[i] != c.of[i] {
				t.Errorf("median reordered %v to %v", given, c.of)
			}
		}
	}
}

func TestTargetHasADirection(t *testing.T) {
	for _, c := range []struct {
		target target
		ratio  float64
		want   bool
	}{
		{atLeast(0.9), 0.9, true},
		{atLeast(0.9), 1.2, true},
		{atLeast(0.9), 0.89, false},
		{atMost(1.3), 1.3, true},
		{atMost(1.3), 0.4, true},
		{atMost(1.3), 1.31, false},
		{atMost(0), 0, true},
		{atMost(0), 1, false},
		{atLeast(0), math.NaN(), false},
		{atMost(5), math.NaN(), false},
	} {
		r := Row{Name: "x"}.judge(c.ratio, c.target)
		if r.OK != c.want || r.Target != c.target.value || r.AtMost != c.target.atMost {
			t.Errorf("%v against %+v gave %+v", c.ratio, c.target, r)
		}
	}
}

func TestVerdictWords(t *testing.T) {
	for _, c := range []struct {
		row  Row
		want string
	}{
		{Row{Name: "a", Error: "no disk"}, "a failed: no disk"},
		{Row{Name: "a", Skipped: "takes long"}, "a skipped: takes long"},
		{Row{Name: "a", Ratio: 2, Informative: true}, "a 2.00"},
		{Row{Name: "a"}.judge(2, atLeast(1)), "a 2.00, target ≥ 1.00: reached"},
		{Row{Name: "a"}.judge(2, atMost(1)), "a 2.00, target ≤ 1.00: MISSED"},
	} {
		if got := c.row.verdict(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestComparisonTakesTheMedianOfTheRounds(t *testing.T) {
	run := func(perSecond ...int) (out []sample) {
		for _, n := range perSecond {
			out = append(out, sample{records: n, took: time.Second})
		}
		return out
	}
	c := comparison{name: "x", target: atLeast(0.5)}
	// The medians of the two sides are 30 and 100, of different rounds; the ratio
	// is that of rounds that ran back to back.
	r := c.row(run(10, 60, 30), run(100, 100, 20), sample.perSecond)
	if r.Ratio != 0.6 || r.Product != 30 || r.Limit != 100 || !r.OK {
		t.Errorf("%+v", r)
	}
	alone := c.row(run(10, 60, 30), nil, sample.perSecond)
	if alone.Ratio != 30 || len(alone.Rounds) != 3 {
		t.Errorf("without a limit: %+v", alone)
	}
}

func TestPercentiles(t *testing.T) {
	var latencies []time.Duration
	for i := 100; i >= 1; i-- {
		latencies = append(latencies, time.Duration(i)*time.Microsecond)
	}
	s := sample{}.withLatencies(latencies)
	if s.p50 != 50 || s.p99 != 99 {
		t.Errorf("p50 %v, p99 %v", s.p50, s.p99)
	}
	if s := (sample{}).withLatencies(nil); s.p50 != 0 || s.p99 != 0 {
		t.Errorf("of nothing: %+v", s)
	}
}

func TestPerRecordFigures(t *testing.T) {
	s := sample{records: 4, took: 2 * time.Second, allocs: 12, client: time.Second}
	if s.perSecond() != 2 || s.allocsPerRecord() != 3 || s.perMillion(s.client) != 250_000 {
		t.Errorf("%v/s, %v allocs, %v s per million", s.perSecond(), s.allocsPerRecord(), s.perMillion(s.client))
	}
	if none := (sample{}); none.allocsPerRecord() != 0 || !math.IsNaN(none.perSecond()) {
		t.Errorf("of nothing: %v, %v", none.allocsPerRecord(), none.perSecond())
	}
}

func TestExponent(t *testing.T) {
	grown := func(cost ...float64) (out []Point) {
		for i, c := range cost {
			out = append(out, Point{X: math.Pow(10, float64(i+1)), Cost: c})
		}
		return out
	}
	for _, c := range []struct {
		points []Point
		want   float64
	}{
		{grown(5, 5, 5), 0},
		{grown(1, 10, 100), 1},
		{grown(100, 10, 1), -1},
		{grown(1, 100, 10_000), 2},
		{grown(1, 0, 100), 1},
		{grown(7), 0},
		{nil, 0},
	} {
		if got := exponent(c.points, Point.cost); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%+v has exponent %v, want %v", c.points, got, c.want)
		}
	}
}

func TestGrowthRowTakesTheWorse(t *testing.T) {
	s := series{name: "grow-x", unit: "one record"}
	r := s.row([]Point{{X: 10, Cost: 1, Memory: 1}, {X: 1000, Cost: 1, Memory: 100}})
	if r.OK || math.Abs(r.Ratio-1) > 1e-9 {
		t.Errorf("memory grows with the size, yet %+v", r)
	}
	if r := s.row([]Point{{X: 10, Cost: 2}, {X: 1000, Cost: 2}}); !r.OK || r.Ratio != 0 {
		t.Errorf("nothing grows, yet %+v", r)
	}
}
