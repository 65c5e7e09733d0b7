// Package redistest starts a real redis-server for a test: on a free port, with
// its own directory, killed and removed at the end.
package redistest

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Server is one redis-server process. Its methods are for the test's goroutine.
type Server struct {
	// Addr is "127.0.0.1:port". It stays the same across Restart.
	Addr string
	// Dir is the working directory, where dumps and append-only files go.
	Dir string

	t    testing.TB
	args []string
	mu   sync.Mutex
	cmd  *exec.Cmd
}

// Start starts a server with the given extra arguments, such as "--appendonly",
// "yes". It waits until the server answers. Without redis-server on PATH the
// test fails: a skip would pass for green.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatalf("redis-server is not on PATH; run scripts/test.sh, which installs it: %v", err)
	}
	dir, err := os.MkdirTemp("", "evtlog-redis-")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Addr: freeAddr(t), Dir: dir, t: t}
	_, port, _ := net.SplitHostPort(s.Addr)
	s.args = append([]string{
		path, "--port", port, "--bind", "127.0.0.1", "--dir", dir,
		"--save", "", "--daemonize", "no", "--logfile", filepath.Join(dir, "redis.log"),
		"--enable-debug-command", "yes",
	}, args...)
	t.Cleanup(func() {
		s.Kill()
		_ = os.RemoveAll(dir)
	})
	s.run()
	return s
}

// URL returns the redis:// URL of database 0.
func (s *Server) URL() string { return "redis://" + s.Addr + "/0" }

// Kill sends SIGKILL and waits for the process to be gone.
func (s *Server) Kill() { s.signal(syscall.SIGKILL) }

// Stop sends SIGTERM, so that the server saves what it is told to save, and
// waits for the process to be gone.
func (s *Server) Stop() { s.signal(syscall.SIGTERM) }

// Pause stops the process without ending it, as a frozen machine would.
func (s *Server) Pause() { s.raw(syscall.SIGSTOP) }

// Resume continues a paused process.
func (s *Server) Resume() { s.raw(syscall.SIGCONT) }

// Restart starts the server again, on the same address and directory, after
// Kill or Stop.
func (s *Server) Restart() {
	s.t.Helper()
	s.run()
}

// Do sends one inline command over a fresh connection and returns the first
// line of the answer. It is for set-up and faults, where using the library
// under test would prove nothing.
func (s *Server) Do(words ...string) string {
	s.t.Helper()
	conn, err := net.DialTimeout("tcp", s.Addr, 2*time.Second)
	if err != nil {
		s.t.Fatalf("redistest: %v", err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	if _, err := conn.Write([]byte(b.String())); err != nil {
		s.t.Fatalf("redistest: %v", err)
	}
	r := bufio.NewReader(conn)
	line, err := r.ReadString('\n')
	if err != nil {
		s.t.Fatalf("redistest: %s: %v", words[0], err)
	}
	line = strings.TrimRight(line, "\r\n")
	if strings.HasPrefix(line, "$") && line != "$-1" {
		var n int
		fmt.Sscanf(line, "$%d", &n)
		body := make([]byte, n)
		for read := 0; read < n; {
			k, err := r.Read(body[read:])
			if err != nil {
				s.t.Fatalf("redistest: %s: %v", words[0], err)
			}
			read += k
		}
		return string(body)
	}
	return line
}

func (s *Server) run() {
	s.t.Helper()
	cmd := exec.Command(s.args[0], s.args[1:]...)
	// The server dies with the test process, even when that is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		s.t.Fatalf("redistest: %v", err)
	}
	s.mu.Lock()
	s.cmd = cmd
	s.mu.Unlock()
	deadline := time.Now().Add(20 * time.Second)
	for !s.answers() {
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(filepath.Join(s.Dir, "redis.log"))
			s.t.Fatalf("redistest: no answer from %s: %s", s.Addr, log)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func (s *Server) answers() bool {
	conn, err := net.DialTimeout("tcp", s.Addr, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	// A server with a password answers NOAUTH: it is up all the same.
	return err == nil && (strings.HasPrefix(line, "+PONG") || strings.HasPrefix(line, "-NOAUTH"))
}

func (s *Server) signal(sig syscall.Signal) {
	s.mu.Lock()
	cmd := s.cmd
	s.cmd = nil
	s.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Signal(syscall.SIGCONT)
	_ = cmd.Process.Signal(sig)
	_ = cmd.Wait()
}

func (s *Server) raw(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil {
		_ = s.cmd.Process.Signal(sig)
	}
}

func freeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
