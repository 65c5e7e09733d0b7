package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/streamconsumer"
	"github.com/evtlog/evtlog/runtime"
)

// Point is one size of a growth series.
type Point struct {
	// X is the size.
	X float64 `json:"x"`
	// Cost is what one unit of work takes, in microseconds, and Memory what it
	// keeps, in bytes, 0 where that is not measured. The row says what a unit is.
	Cost   float64 `json:"cost_us"`
	Memory float64 `json:"memory_bytes,omitempty"`
	// PerSecond is the throughput in records.
	PerSecond float64 `json:"per_second,omitempty"`
}

// tolerated is the exponent up to which cost counts as constant: a unit of work
// may take 1.6 times as long at a hundred times the size. Caches and trees grow
// with the logarithm, and the machine is noisy.
const tolerated = 0.1

// exponent is the slope of cost over size on logarithmic axes: 0 when a unit of
// work costs the same at any size, 1 when it costs in proportion to it. Points
// without the figure are left out.
func exponent(points []Point, of func(Point) float64) float64 {
	var n, sx, sy, sxx, sxy float64
	for _, p := range points {
		if p.X <= 0 || of(p) <= 0 {
			continue
		}
		x, y := math.Log(p.X), math.Log(of(p))
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	if d := n*sxx - sx*sx; d > 0 {
		return (n*sxy - sx*sy) / d
	}
	return 0
}

func (p Point) cost() float64   { return p.Cost }
func (p Point) memory() float64 { return p.Memory }

// series is a growth row: one measurement at each of several sizes.
type series struct {
	name string
	// unit is what Cost and Memory are for.
	unit         string
	sizes, large []int
	point        func(ctx context.Context, e *env, x int) (Point, error)
}

func (s series) asTest() test {
	return test{names: []string{s.name}, run: func(ctx context.Context, e *env) ([]Row, error) {
		sizes := s.sizes
		if e.large {
			sizes = append(sizes, s.large...)
		}
		var points []Point
		for _, x := range sizes {
			p, err := s.point(ctx, e, x)
			if err != nil {
				return nil, fmt.Errorf("at %d: %w", x, err)
			}
			p.X = float64(x)
			points = append(points, p)
		}
		return []Row{s.row(points)}, nil
	}}
}

// row says whether cost or memory grow faster than the work.
func (s series) row(points []Point) Row {
	slope, kept := exponent(points, Point.cost), exponent(points, Point.memory)
	r := Row{Name: s.name, Unit: "exponent", Against: s.unit, Points: points}
	var said []string
	for _, p := range points {
		at := fmt.Sprintf("%.0f: %s µs", p.X, figure(p.Cost))
		if p.Memory != 0 {
			at += fmt.Sprintf(" %s B", figure(p.Memory))
		}
		said = append(said, at)
	}
	r.Note = fmt.Sprintf("cost grows with the power %.2f, memory %.2f; %s", slope, kept, strings.Join(said, ", "))
	return r.judge(max(slope, kept), atMost(tolerated))
}

func growthTests() []test {
	var tests []test
	for _, s := range []series{
		{
			name: "grow-length", unit: "append of one record by 64 callers; heap of the process", large: []int{10_000_000},
			sizes: []int{10_000, 100_000, 1_000_000}, point: lengthPoint,
		},
		{
			name: "grow-streams", unit: "append of one record, 4 callers a stream; heap for each stream", large: []int{10_000},
			sizes: []int{1, 10, 100, 1000}, point: streamsPoint,
		},
		{
			name: "grow-consumers", unit: "consumption of one record by all members; heap for each member", large: []int{1000},
			sizes: []int{1, 10, 100}, point: consumersPoint,
		},
		{
			name: "grow-record", unit: "append of one byte, 150 of them for what surrounds a record",
			sizes: []int{16, 256, 4 << 10, 64 << 10}, point: recordPoint,
		},
	} {
		tests = append(tests, s.asTest())
	}
	return append(tests, archiveGrowthTests()...)
}

// grown is how many records are appended or consumed at each size.
const grown = 100_000

func (e *env) costOf(s sample, units float64) Point {
	return Point{Cost: s.took.Seconds() * 1e6 / units, PerSecond: s.perSecond()}
}

func lengthPoint(ctx context.Context, e *env, length int) (Point, error) {
	name, err := e.fill(ctx, length)
	if err != nil {
		return Point{}, err
	}
	return e.appendTo(ctx, []string{name}, 64, fields)
}

func streamsPoint(ctx context.Context, e *env, streams int) (Point, error) {
	if _, err := e.fresh(ctx); err != nil {
		return Point{}, err
	}
	names := make([]string, streams)
	for i := range names {
		names[i] = "g" + strconv.Itoa(i)
	}
	return e.appendTo(ctx, names, 4*streams, fields)
}

// recordPoint appends records of one size; cost is for each byte.
func recordPoint(ctx context.Context, e *env, size int) (Point, error) {
	name, err := e.fresh(ctx)
	if err != nil {
		return Point{}, err
	}
	p, err := e.appendTo(ctx, []string{name}, 64, []evtlog.Field{evtlog.F("body", strings.Repeat("x", size))})
	const around = 150
	p.Cost /= float64(size + around)
	p.Memory = 0
	return p, err
}

// appendTo has callers append to streams in turn, and measures the cost of one
// record and the heap that each stream keeps.
func (e *env) appendTo(ctx context.Context, names []string, callers int, record []evtlog.Field) (Point, error) {
	cfg := runtime.Config{Redis: e.redisConfig()}
	for _, name := range names {
		cfg.Streams = append(cfg.Streams, runtime.Stream{Queue: queue, Name: name})
	}
	before := heap()
	rt, err := runtime.Start(ctx, cfg)
	if err != nil {
		return Point{}, err
	}
	defer e.stop(ctx, rt)
	logs := make([]*runtime.Log, len(names))
	for i, name := range names {
		if logs[i], err = rt.Stream(queue, name); err != nil {
			return Point{}, err
		}
	}
	// At most 256 MiB of records; a caller has at least a few.
	each := max(min(grown, 256<<20/(evtlog.Size(record)+1))/callers, 4)
	s, err := e.timed(each*callers, func() error {
		return inParallel(callers, func(caller int) error {
			log := logs[caller%len(logs)]
			for range each {
				if _, err := log.Append(ctx, record...); err != nil {
					return err
				}
			}
			return nil
		})
	})
	p := e.costOf(s, float64(s.records))
	p.Memory = (heap() - before) / float64(len(names))
	return p, err
}

func consumersPoint(ctx context.Context, e *env, members int) (Point, error) {
	name, err := e.fill(ctx, 4*grown)
	if err != nil {
		return Point{}, err
	}
	cfg := runtime.Config{Redis: e.redisConfig()}
	for i := range members {
		cfg.Consumers = append(cfg.Consumers, runtime.Consumer{
			Queue: queue, Stream: name, Group: "g", Name: "c" + strconv.Itoa(i), Start: streamconsumer.FromHead,
			Handler: func(context.Context, evtlog.Delivery) error { return nil },
		})
	}
	before := heap()
	start := time.Now()
	rt, err := runtime.Start(ctx, cfg)
	if err != nil {
		return Point{}, err
	}
	err = until(ctx, "everything is acknowledged", func() (bool, error) {
		var acked int64
		for _, c := range rt.Consumers() {
			acked += c.Acked
		}
		return acked >= 4*grown, nil
	})
	took := time.Since(start)
	p := Point{
		Cost: took.Seconds() * 1e6 / (4 * grown), PerSecond: 4 * grown / took.Seconds(),
		Memory: (heap() - before) / float64(members),
	}
	if err := errors.Join(err, rt.Stop(context.WithoutCancel(ctx))); err != nil {
		return p, err
	}
	return p, e.nothingPending(ctx, name, 4*grown)
}
