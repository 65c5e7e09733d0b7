// Command bench measures the product beside the limit of each kind of work and
// beside its peers, in one run on one machine, and prints ratios. Absolute
// figures move by a factor of two from hour to hour on a shared machine; ratios
// of two measurements back to back do so much less.
//
//	go run ./bench [-quick] [-only NAME,…] [-o table|json|md|svg] [-record FILE]
//	go run ./bench -growth [-large]   # how cost grows with size
//	go run ./bench -from FILE -o svg  # show what was recorded
//
// It starts its own redis-server, builds the peers in bench/peers, and works in
// a temporary directory. It needs redis-server, redis-cli and redis-benchmark on
// PATH, and for the first build of the peers the Go module proxy.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/pprof"
	"slices"
	"strings"
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

// options are the command line.
type options struct {
	quick, growth, large bool
	only, format         string
	record, from         string
	profile              string
}

func parse(args []string, usage io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.BoolVar(&o.quick, "quick", false, "fewer records; the whole run ends within a minute")
	flags.BoolVar(&o.growth, "growth", false, "measure how cost grows with size instead of the targets")
	flags.BoolVar(&o.large, "large", false, "with -growth: the largest sizes too; takes minutes and gigabytes")
	flags.StringVar(&o.only, "only", "", "run only the rows of these names, separated by commas")
	flags.StringVar(&o.format, "o", "table", "output format: table|json|md|svg")
	flags.StringVar(&o.record, "record", "", "also write the report, with machine and versions, to this JSON file")
	flags.StringVar(&o.from, "from", "", "measure nothing; show the report in this JSON file")
	flags.StringVar(&o.profile, "cpuprofile", "", "write a CPU profile of the product's process to this file")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if !slices.Contains([]string{"table", "json", "md", "svg"}, o.format) {
		return o, fmt.Errorf("output format %q is unknown; use table, json, md or svg", o.format)
	}
	return o, nil
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	if len(args) > 0 {
		if verb, ok := verbs()[args[0]]; ok {
			return verb(ctx, args[1:], out)
		}
	}
	o, err := parse(args, progress)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	}
	if o.from != "" {
		report, err := readReport(o.from)
		if err != nil {
			return err
		}
		return show(out, o.format, report)
	}
	report, err := profiled(o.profile, func() (Report, error) { return measureAll(ctx, o, progress) })
	if err != nil {
		return err
	}
	if o.record != "" {
		if err := writeReport(o.record, report); err != nil {
			return err
		}
	}
	return errors.Join(show(out, o.format, report), report.failure())
}

// profiled runs f under the profiler, when a file is given.
func profiled(path string, f func() (Report, error)) (Report, error) {
	if path == "" {
		return f()
	}
	file, err := os.Create(path)
	if err != nil {
		return Report{}, err
	}
	defer file.Close()
	if err := pprof.StartCPUProfile(file); err != nil {
		return Report{}, err
	}
	defer pprof.StopCPUProfile()
	return f()
}

// measureAll runs the chosen tests. A test that fails gives rows with an error,
// and the others still run.
func measureAll(ctx context.Context, o options, progress io.Writer) (Report, error) {
	tests, err := choose(catalogue(o), o.only)
	if err != nil {
		return Report{}, err
	}
	e, err := newEnv(ctx, o, progress)
	if err != nil {
		return Report{}, err
	}
	defer e.close()
	report := Report{Host: describeHost(ctx, e)}
	for _, t := range tests {
		start := time.Now()
		rows, err := t.run(ctx, e)
		if ctx.Err() != nil {
			return report, ctx.Err()
		}
		if err != nil {
			rows = t.failed(err)
		}
		for _, r := range rows {
			if o.only == "" || chosen(t, r.Name, o.only) {
				report.Rows = append(report.Rows, r)
			}
		}
		fmt.Fprintf(progress, "%-22s %6s  %s\n", t.names[0], time.Since(start).Round(100*time.Millisecond), summary(rows))
	}
	report.Host.LoadAfter = load()
	return report, nil
}

// summary is the progress of one test in a few words.
func summary(rows []Row) string {
	var words []string
	for _, r := range rows {
		words = append(words, r.verdict())
	}
	return strings.Join(words, "; ")
}

// test measures one row, or several that come out of one measurement.
type test struct {
	names []string
	// group names the test in -only beside its rows.
	group string
	run   func(ctx context.Context, e *env) ([]Row, error)
}

// failed gives a row for each name, which says why it could not be measured.
func (t test) failed(err error) (rows []Row) {
	for _, name := range t.names {
		rows = append(rows, Row{Name: name, Error: err.Error()})
	}
	return rows
}

func catalogue(o options) []test {
	if o.growth {
		return growthTests()
	}
	return slices.Concat(appendTests(), consumeTests(), foldTests(), readTests(), clusterTests(), smallTests())
}

// choose returns the tests that have a row of one of the names.
func choose(tests []test, only string) ([]test, error) {
	if only == "" {
		return tests, nil
	}
	var known, missing []string
	var out []test
	for _, t := range tests {
		known = append(known, t.names...)
		if slices.ContainsFunc(t.names, func(name string) bool { return chosen(t, name, only) }) {
			out = append(out, t)
		}
	}
	for name := range strings.SplitSeq(only, ",") {
		if !slices.Contains(known, name) && !slices.ContainsFunc(tests, func(t test) bool { return t.group == name }) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("there is no row %s; the rows are %s", strings.Join(missing, ", "), strings.Join(known, ", "))
	}
	return out, nil
}

// chosen reports whether a row of a test is among the names asked for.
func chosen(t test, row, only string) bool {
	for name := range strings.SplitSeq(only, ",") {
		if name == row || t.group != "" && name == t.group {
			return true
		}
	}
	return false
}
