package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/internal/devredis"
	"github.com/evtlog/evtlog/redislog"
)

// env is the server and the directory that the tests work with.
type env struct {
	options
	progress io.Writer
	dir      string
	port     string
	redis    *exec.Cmd
	// peers builds the peers at its first call.
	peers func() (string, error)
	runs  int
}

func newEnv(ctx context.Context, o options, progress io.Writer) (*env, error) {
	for _, tool := range []string{"redis-server", "redis-benchmark", "redis-cli"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("%s is not on PATH: install Debian's redis-server and redis-tools: %w", tool, err)
		}
	}
	dir, err := os.MkdirTemp("", "evtlog-bench-")
	if err != nil {
		return nil, err
	}
	e := &env{options: o, progress: progress, dir: dir, peers: peersOnce(ctx, dir)}
	if err := e.startRedis(); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return e, nil
}

func (e *env) startRedis() error {
	addr, err := freeAddr()
	if err != nil {
		return err
	}
	_, e.port, err = net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	e.redis = exec.Command("redis-server", "--port", e.port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
		"--dir", e.dir, "--maxclients", "40000")
	e.redis.SysProcAttr = devredis.DiesWithParent()
	if err := e.redis.Start(); err != nil {
		return err
	}
	for range 500 {
		if conn, err := net.Dial("tcp", addr); err == nil {
			return conn.Close()
		}
		time.Sleep(10 * time.Millisecond)
	}
	e.close()
	return fmt.Errorf("redis-server on port %s did not come up", e.port)
}

// freeAddr returns a loopback address that nobody listens on at the moment.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func (e *env) close() {
	_ = e.redis.Process.Kill()
	_ = e.redis.Wait()
	_ = os.RemoveAll(e.dir)
}

func (e *env) redisConfig() redislog.Config {
	return redislog.Config{URL: "redis://127.0.0.1:" + e.port + "/0", ClientName: "evtlog-bench"}
}

// cli runs one command with redis-cli and returns what it prints.
func (e *env) cli(ctx context.Context, words ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "redis-cli", append([]string{"-p", e.port}, words...)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", words[0], err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// fresh empties the server and returns a name that was not used before.
func (e *env) fresh(ctx context.Context) (string, error) {
	_, err := e.cli(ctx, "FLUSHALL")
	return e.unused("s"), err
}

// unused returns a name that was not used before.
func (e *env) unused(prefix string) string {
	e.runs++
	return prefix + strconv.Itoa(e.runs)
}

// directory makes a directory that was not there before.
func (e *env) directory(prefix string) (string, error) {
	dir := e.path(e.unused(prefix))
	return dir, os.Mkdir(dir, 0o700)
}

func (e *env) path(name string) string { return filepath.Join(e.dir, name) }

// scale picks the number of records: a quick run has a sixteenth, in whole
// thousands, because a peer waits for the rest of its batch of so many.
func (e *env) scale(records int) int {
	if !e.quick {
		return records
	}
	if records /= 16; records >= 1000 {
		records -= records % 1000
	}
	return max(1, records)
}

// pick returns the value for a full or for a quick run.
func (e *env) pick(full, quick int) int {
	if e.quick {
		return quick
	}
	return full
}

const queue = "bench"

// key is the Redis key of a stream of the queue.
func key(stream string) string { return "emq:{" + queue + "}:stream:" + stream }

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
