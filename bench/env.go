package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/redislog"
)

// env is the server and the directory that the rows work with.
type env struct {
	quick bool
	dir   string
	port  string
	cmd   *exec.Cmd
	runs  int
}

func newEnv(quick bool) (*env, error) {
	for _, tool := range []string{"redis-server", "redis-benchmark", "redis-cli"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("%s is not on PATH: install Debian's redis-server and redis-tools: %w", tool, err)
		}
	}
	dir, err := os.MkdirTemp("", "evtlog-bench-")
	if err != nil {
		return nil, err
	}
	e := &env{quick: quick, dir: dir}
	if err := e.startRedis(); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return e, nil
}

func (e *env) startRedis() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	_, e.port, err = net.SplitHostPort(l.Addr().String())
	if err != nil {
		return err
	}
	_ = l.Close()
	e.cmd = exec.Command("redis-server", "--port", e.port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", e.dir)
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := e.cmd.Start(); err != nil {
		return err
	}
	for range 500 {
		if conn, err := net.Dial("tcp", "127.0.0.1:"+e.port); err == nil {
			return conn.Close()
		}
		time.Sleep(10 * time.Millisecond)
	}
	e.close()
	return fmt.Errorf("redis-server on port %s did not come up", e.port)
}

func (e *env) close() {
	_ = e.cmd.Process.Kill()
	_ = e.cmd.Wait()
	_ = os.RemoveAll(e.dir)
}

func (e *env) redis() redislog.Config {
	return redislog.Config{URL: "redis://127.0.0.1:" + e.port + "/0", ClientName: "evtlog-bench"}
}

// fresh empties the server and returns a name that was not used before.
func (e *env) fresh() (string, error) {
	e.runs++
	out, err := exec.Command("redis-cli", "-p", e.port, "FLUSHALL").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("flush: %w: %s", err, out)
	}
	return "s" + strconv.Itoa(e.runs), nil
}

func (e *env) path(name string) string { return filepath.Join(e.dir, name) }

// scale picks the number of records: a quick run has a quarter.
func (e *env) scale(records int) int {
	if e.quick {
		return records / 4
	}
	return records
}

// fields is the record of all rows: with the id field about 120 bytes.
var fields = []evtlog.Field{
	evtlog.F("event", "scored"),
	evtlog.F("game", "3f1d8c52-6b0e-4f6f-9c55-52a7a1c0a1de"),
	evtlog.F("payload", "0123456789012345678901234567890123456789"),
}

// xadd is the same record as words of a command; '*' lets the server choose the
// id, since redis-benchmark cannot count.
func xadd(key string) []string {
	words := []string{"XADD", key, "*", "id", "EVT0KHTOWnGLuC"}
	for _, f := range fields {
		words = append(words, f.Name, f.Value)
	}
	return words
}

// benchmark runs redis-benchmark and returns requests per second.
func (e *env) benchmark(ctx context.Context, n, clients, pipeline int, words ...string) (float64, error) {
	args := append([]string{
		"-p", e.port, "-n", strconv.Itoa(n), "-c", strconv.Itoa(clients), "-P", strconv.Itoa(pipeline), "--csv",
	}, words...)
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "redis-benchmark", args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("redis-benchmark: %w: %s", err, stderr.String())
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	columns := strings.Split(lines[len(lines)-1], `","`)
	if len(columns) < 2 {
		return 0, fmt.Errorf("redis-benchmark: cannot read %q", out)
	}
	return strconv.ParseFloat(strings.Trim(columns[1], `"`), 64)
}
