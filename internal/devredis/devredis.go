// Package devredis finds a Redis for demonstrations and examples: one that is
// given, a private redis-server, or an embedded stand-in.
package devredis

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// How the Redis was come by.
const (
	// Given: the caller named it.
	Given = "url"
	// Private: a redis-server was started.
	Private = "server"
	// Embedded: a stand-in inside this process.
	Embedded = "embedded"
)

// Server is a Redis to use until Stop.
type Server struct {
	// Kind is Given, Private or Embedded.
	Kind string
	URL  string
	// Stop ends what was started.
	Stop func()
}

// Meaning says in words what the choice means for durability.
func (s Server) Meaning() string {
	switch s.Kind {
	case Given:
		return "the server you named; as durable as it is configured"
	case Private:
		return "a redis-server of its own without persistence; live records last as long as it runs"
	}
	return "an embedded stand-in, because no redis-server is installed; nothing live survives the process"
}

// Start picks a Redis: the given URL unless it is empty, else a redis-server with
// its files in dir when one is installed, else an embedded one.
func Start(ctx context.Context, url, dir string) (Server, error) {
	if url != "" {
		return Server{Kind: Given, URL: url, Stop: func() {}}, nil
	}
	if path, err := exec.LookPath("redis-server"); err == nil {
		return startServer(ctx, path, dir)
	}
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		return Server{}, fmt.Errorf("embedded redis: %w", err)
	}
	return Server{Kind: Embedded, URL: "redis://" + m.Addr() + "/0", Stop: m.Close}, nil
}

func startServer(ctx context.Context, path, dir string) (Server, error) {
	socket := filepath.Join(dir, "redis.sock")
	cmd := exec.Command(path, "--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "", "--appendonly", "no",
		"--logfile", filepath.Join(dir, "redis.log"))
	cmd.SysProcAttr = DiesWithParent()
	if err := cmd.Start(); err != nil {
		return Server{}, fmt.Errorf("start %s: %w", path, err)
	}
	s := Server{Kind: Private, URL: "unix://" + socket, Stop: func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}}
	if err := awaitSocket(ctx, socket); err != nil {
		s.Stop()
		log, _ := os.ReadFile(filepath.Join(dir, "redis.log"))
		return Server{}, fmt.Errorf("redis-server did not come up: %w: %s", err, log)
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
