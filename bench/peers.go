package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// peersModule is where the peers' own module lies, seen from the root of the
// repository.
const peersModule = "bench/peers"

// peerResult is what a peer prints.
type peerResult struct {
	Records    int     `json:"records"`
	Seconds    float64 `json:"seconds"`
	P50        float64 `json:"p50_us"`
	P99        float64 `json:"p99_us"`
	Allocs     uint64  `json:"allocs"`
	Bytes      uint64  `json:"bytes"`
	CPUSeconds float64 `json:"cpu_seconds"`
}

func (r peerResult) sample() sample {
	return sample{
		records: r.Records, took: seconds(r.Seconds), p50: r.P50, p99: r.P99,
		allocs: r.Allocs, bytes: r.Bytes, client: seconds(r.CPUSeconds),
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// buildPeers builds the nested module once and returns the program.
func buildPeers(ctx context.Context, dir string) (string, error) {
	root, err := moduleRoot(ctx)
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "peers")
	cmd := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join(root, peersModule), "-o", program, ".")
	// A workspace or vendor setting of the caller is not the peers'.
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("the peers cannot be built (their versions are pinned in %s/go.mod and come from the Go module proxy): %w: %s", peersModule, err, out)
	}
	return program, nil
}

func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/evtlog/evtlog").Output()
	if err != nil {
		return "", fmt.Errorf("run the bench inside the repository: %w", err)
	}
	return string(bytes.TrimSpace(out)), nil
}

// peersOnce builds the peers when the first row needs them, so that rows without
// peers work where no module proxy is reachable.
func peersOnce(ctx context.Context, dir string) func() (string, error) {
	return sync.OnceValues(func() (string, error) { return buildPeers(ctx, dir) })
}

// peer has a peer do the work and returns what it measured of itself. stream is
// the key it works on; its files are gone afterwards.
func (e *env) peer(ctx context.Context, work, stream string, records, callers int) (sample, error) {
	program, err := e.peers()
	if err != nil {
		return sample{}, err
	}
	dir, err := os.MkdirTemp(e.dir, "peer-")
	if err != nil {
		return sample{}, err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, program, "-redis", "127.0.0.1:"+e.port, "-dir", dir, "-stream", stream,
		"-n", strconv.Itoa(records), "-callers", strconv.Itoa(callers), work)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return sample{}, fmt.Errorf("peer %s: %w: %s", work, err, stderr.String())
	}
	var r peerResult
	if err := json.Unmarshal(out, &r); err != nil {
		return sample{}, fmt.Errorf("peer %s: cannot read %q: %w", work, out, err)
	}
	return r.sample(), nil
}

// peerOn is a measurement by a peer on an empty server.
func peerOn(work string, records, callers int) measurement {
	return func(ctx context.Context, e *env) (sample, error) {
		name, err := e.fresh(ctx)
		if err != nil {
			return sample{}, err
		}
		return e.peer(ctx, work, name, e.scale(records), callers)
	}
}
