package demo

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/evtlog/evtlog/redislog"
)

// How the demonstration came by its Redis.
const (
	redisURL      = "url"
	redisServer   = "server"
	redisEmbedded = "embedded"
)

// server is the Redis of one demonstration.
type server struct {
	kind string
	url  string
	stop func()
}

// meaning says what the choice means for durability.
func (s server) meaning() string {
	switch s.kind {
	case redisURL:
		return "the server you named; as durable as it is configured"
	case redisServer:
		return "a redis-server of its own without persistence; live records last as long as it runs"
	}
	return "an embedded stand-in, because no redis-server is installed; nothing live survives the process"
}

// startRedis picks a Redis: the given URL, a private redis-server, or an
// embedded one.
func startRedis(ctx context.Context, url, dir string) (server, error) {
	if url != "" {
		return server{kind: redisURL, url: url, stop: func() {}}, nil
	}
	if path, err := exec.LookPath("redis-server"); err == nil {
		return startServer(ctx, path, dir)
	}
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		return server{}, fmt.Errorf("embedded redis: %w", err)
	}
	return server{kind: redisEmbedded, url: "redis://" + m.Addr() + "/0", stop: m.Close}, nil
}

func startServer(ctx context.Context, path, dir string) (server, error) {
	socket := filepath.Join(dir, "redis.sock")
	cmd := exec.Command(path, "--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "", "--appendonly", "no",
		"--logfile", filepath.Join(dir, "redis.log"))
	cmd.SysProcAttr = diesWithParent()
	if err := cmd.Start(); err != nil {
		return server{}, fmt.Errorf("start %s: %w", path, err)
	}
	s := server{kind: redisServer, url: "unix://" + socket, stop: func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}}
	if err := awaitSocket(ctx, socket); err != nil {
		s.stop()
		log, _ := os.ReadFile(filepath.Join(dir, "redis.log"))
		return server{}, fmt.Errorf("redis-server did not come up: %w: %s", err, log)
	}
	return s, nil
}

// awaitSocket waits until the server accepts connections.
func awaitSocket(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		conn, err := net.Dial("unix", path)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// redisConfig names the demonstration's connections.
func redisConfig(url string) redislog.Config {
	return redislog.Config{URL: url, ClientName: "evtlog-demo"}
}
