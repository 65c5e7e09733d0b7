// Command bench measures the product beside the limit of each kind of work, in
// one run on one machine, and prints ratios. Absolute figures move by a factor
// of two from hour to hour on a shared machine; ratios of two runs back to back
// do not.
//
//	go run ./bench [-quick] [-only NAME] [-o table|json]
//
// It starts its own redis-server and works in a temporary directory. It needs
// redis-server and redis-benchmark on PATH.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// Row is one line of the comparison.
type Row struct {
	Name string `json:"name"`
	// Against says what the limit is.
	Against string `json:"against"`
	// Product and Limit are records per second, medians of the rounds.
	Product float64 `json:"product_per_second"`
	Limit   float64 `json:"limit_per_second"`
	// Ratio is the median of the rounds' own ratios.
	Ratio  float64 `json:"ratio"`
	Target float64 `json:"target"`
	OK     bool    `json:"ok"`
	// P50 and P99 are latencies of single calls in microseconds, 0 where a row
	// has none.
	P50 float64 `json:"p50_us,omitempty"`
	P99 float64 `json:"p99_us,omitempty"`
	// Allocs and Bytes are per record, of the whole process.
	Allocs float64 `json:"allocs_per_record"`
	Bytes  float64 `json:"bytes_per_record"`
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	quick := flags.Bool("quick", false, "fewer records; the whole run ends in about a minute")
	only := flags.String("only", "", "run only the row of this name")
	format := flags.String("o", "table", "output format: table|json")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *format != "table" && *format != "json" {
		return fmt.Errorf("output format %q is unknown; use table or json", *format)
	}
	tests := rows()
	if *only != "" {
		tests = slices.DeleteFunc(tests, func(t test) bool { return t.name != *only })
		if len(tests) == 0 {
			return fmt.Errorf("there is no row %q; the rows are %s", *only, strings.Join(names(rows()), ", "))
		}
	}
	env, err := newEnv(*quick)
	if err != nil {
		return err
	}
	defer env.close()
	var results []Row
	for _, t := range tests {
		start := time.Now()
		row, err := measure(ctx, env, t)
		if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		fmt.Fprintf(progress, "%s done in %s\n", t.name, time.Since(start).Round(100*time.Millisecond))
		results = append(results, row)
	}
	return show(out, *format, results)
}

func names(tests []test) (out []string) {
	for _, t := range tests {
		out = append(out, t.name)
	}
	return out
}

// rounds is how often product and limit are measured, in turn.
const rounds = 3

// measure runs one row: in each round the limit and the product back to back.
func measure(ctx context.Context, env *env, t test) (Row, error) {
	row := Row{Name: t.name, Against: t.against, Target: t.target}
	var products, limits, ratios []float64
	for range rounds {
		if err := ctx.Err(); err != nil {
			return row, err
		}
		limit, err := t.limit(ctx, env)
		if err != nil {
			return row, errors.Join(errors.New("limit"), err)
		}
		s, err := t.product(ctx, env)
		if err != nil {
			return row, errors.Join(errors.New("product"), err)
		}
		products, limits, ratios = append(products, s.perSecond()), append(limits, limit), append(ratios, s.perSecond()/limit)
		row.P50, row.P99 = s.percentile(50), s.percentile(99)
		row.Allocs, row.Bytes = float64(s.allocs)/float64(s.records), float64(s.bytes)/float64(s.records)
	}
	row.Product, row.Limit, row.Ratio = median(products), median(limits), median(ratios)
	row.OK = row.Ratio >= row.Target
	return row, nil
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

func show(out io.Writer, format string, rows []Row) error {
	if format == "json" {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(rows)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tPRODUCT/s\tLIMIT/s\tRATIO\tTARGET\tOK\tP50 µs\tP99 µs\tALLOCS\tBYTES\tAGAINST")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.2f\t%.2f\t%v\t%.0f\t%.0f\t%.1f\t%.0f\t%s\n",
			r.Name, r.Product, r.Limit, r.Ratio, r.Target, r.OK, r.P50, r.P99, r.Allocs, r.Bytes, r.Against)
	}
	return w.Flush()
}
