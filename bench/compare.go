package main

import (
	"context"
	"fmt"
)

// rounds is how often product and limit are measured, in turn.
const rounds = 3

// measurement does a piece of work, checks that it was done, and says what it
// cost.
type measurement func(ctx context.Context, e *env) (sample, error)

// comparison is a row that sets the product beside a limit.
type comparison struct {
	name, against, unit string
	target              target
	informative         bool
	limit, product      measurement
	// of is what is compared; nil compares records per second.
	of func(sample) float64
	// note, which may be empty, is added to what the product notes.
	note string
}

// asTest makes a test of a comparison.
func (c comparison) asTest() test {
	return test{names: []string{c.name}, run: func(ctx context.Context, e *env) ([]Row, error) {
		r, err := c.run(ctx, e)
		return []Row{r}, err
	}}
}

func asTests(comparisons ...comparison) (tests []test) {
	for _, c := range comparisons {
		tests = append(tests, c.asTest())
	}
	return tests
}

// run measures limit and product in turn, so that a busy machine slows both.
// Without a limit the product's own figure is the ratio.
func (c comparison) run(ctx context.Context, e *env) (Row, error) {
	of := c.of
	if of == nil {
		of = sample.perSecond
	}
	var limits, products []sample
	for range rounds {
		if c.limit != nil {
			s, err := c.limit(ctx, e)
			if err != nil {
				return Row{}, fmt.Errorf("limit: %w", err)
			}
			limits = append(limits, s)
		}
		s, err := c.product(ctx, e)
		if err != nil {
			return Row{}, fmt.Errorf("product: %w", err)
		}
		products = append(products, s)
		if err := ctx.Err(); err != nil {
			return Row{}, err
		}
	}
	return c.row(products, limits, of), nil
}

// row makes the row of what was measured.
func (c comparison) row(products, limits []sample, of func(sample) float64) Row {
	r := Row{
		Name: c.name, Against: c.against, Unit: c.unit, Informative: c.informative, Note: joined(products[0].note, c.note),
		Product: middle(products, of), P50: middle(products, sample.median), P99: middle(products, func(s sample) float64 { return s.p99 }),
		Allocs:    middle(products, sample.allocsPerRecord),
		Bytes:     middle(products, func(s sample) float64 { return s.per(float64(s.bytes)) }),
		ClientCPU: middle(products, func(s sample) float64 { return s.perMillion(s.client) }),
		ServerCPU: middle(products, func(s sample) float64 { return s.perMillion(s.server) }),
	}
	if r.Unit == "" {
		r.Unit = "records/s"
	}
	if len(limits) == 0 {
		for _, s := range products {
			r.Rounds = append(r.Rounds, of(s))
		}
		return r.judge(r.Product, c.target)
	}
	r.Limit, r.LimitP50 = middle(limits, of), middle(limits, sample.median)
	r.LimitP99 = middle(limits, func(s sample) float64 { return s.p99 })
	r.LimitClientCPU = middle(limits, func(s sample) float64 { return s.perMillion(s.client) })
	r.LimitServerCPU = middle(limits, func(s sample) float64 { return s.perMillion(s.server) })
	for i := range products {
		r.Rounds = append(r.Rounds, ratio(of(products[i]), of(limits[i])))
	}
	return r.judge(median(r.Rounds), c.target)
}

// middle is the median of one figure of the samples.
func middle(samples []sample, of func(sample) float64) float64 {
	var v []float64
	for _, s := range samples {
		v = append(v, of(s))
	}
	return median(v)
}

func joined(a, b string) string {
	switch {
	case a == "":
		return b
	case b == "":
		return a
	}
	return a + "; " + b
}
