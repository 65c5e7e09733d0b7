package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// benchmark runs redis-benchmark: n commands from so many clients, each with so
// many on their way. n is rounded up to whole pipelines, as redis-benchmark does.
func (e *env) benchmark(ctx context.Context, n, clients, pipeline int, words ...string) (sample, error) {
	n = (n + pipeline - 1) / pipeline * pipeline
	args := append([]string{
		"-p", e.port, "-n", strconv.Itoa(n), "-c", strconv.Itoa(clients), "-P", strconv.Itoa(pipeline), "--csv",
	}, words...)
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "redis-benchmark", args...)
	cmd.Stderr = &stderr
	server, client := e.serverCPU(), childrenCPU()
	out, err := cmd.Output()
	if err != nil {
		return sample{}, fmt.Errorf("redis-benchmark: %w: %s", err, stderr.String())
	}
	s, err := parseBenchmark(string(out), n)
	s.client, s.server = childrenCPU()-client, e.serverCPU()-server
	return s, err
}

// parseBenchmark reads what redis-benchmark --csv prints: since 6.2 a header, and
// one line with the command, requests per second, and latencies in milliseconds:
// average, least, p50, p95, p99, most. The command comes first and its quotes are
// not escaped, so columns are counted from the end.
func parseBenchmark(out string, n int) (sample, error) {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	columns := strings.Split(strings.Trim(lines[len(lines)-1], `"`), `","`)
	numbers := 1
	if len(lines) > 1 {
		numbers = strings.Count(lines[0], `","`)
	}
	if numbers < 1 || len(columns) < numbers+1 {
		return sample{}, fmt.Errorf("redis-benchmark: cannot read %q", out)
	}
	columns = columns[len(columns)-numbers:]
	rate, err := strconv.ParseFloat(columns[0], 64)
	if err != nil {
		return sample{}, fmt.Errorf("redis-benchmark: requests per second: %w", err)
	}
	if rate <= 0 {
		return sample{}, errors.New("redis-benchmark: it was too quick to be measured; use more requests")
	}
	s := sample{records: n, took: time.Duration(float64(n) / rate * float64(time.Second))}
	if len(columns) >= 6 {
		p50, err50 := strconv.ParseFloat(columns[3], 64)
		p99, err99 := strconv.ParseFloat(columns[5], 64)
		if err := errors.Join(err50, err99); err != nil {
			return sample{}, fmt.Errorf("redis-benchmark: latencies: %w", err)
		}
		s.p50, s.p99 = p50*1000, p99*1000
	}
	return s, nil
}
