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
	"strconv"
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
	proc *process // nil while the server is down
}

// process is one run of the server.
type process struct {
	cmd *exec.Cmd
	// ended is closed when it is gone.
	ended chan struct{}
}

// Start starts a server with the given extra arguments, such as "--appendonly",
// "yes". It waits until the server serves. Without redis-server on PATH the
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
	s := &Server{Dir: dir, t: t}
	t.Cleanup(func() {
		s.Kill()
		_ = os.RemoveAll(dir)
	})
	// Between the choice of a port and its use another process can take it.
	for try := 0; ; try++ {
		s.Addr = FreeAddr(t)
		_, port, _ := net.SplitHostPort(s.Addr)
		s.args = append([]string{
			path, "--port", port, "--bind", "127.0.0.1", "--dir", dir,
			"--save", "", "--daemonize", "no", "--logfile", s.logFile(),
			"--enable-debug-command", "yes",
		}, args...)
		err := s.run()
		if err == nil {
			return s
		}
		if try == 5 {
			t.Fatal(err)
		}
	}
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
	if err := s.run(); err != nil {
		s.t.Fatal(err)
	}
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
		n, err := strconv.Atoi(line[1:])
		if err != nil {
			s.t.Fatalf("redistest: %s: %v", words[0], err)
		}
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

func (s *Server) logFile() string { return filepath.Join(s.Dir, "redis.log") }

// run starts the process and waits until it says that it serves. It does not ask
// over the network: whoever took the port instead would answer as well.
func (s *Server) run() error {
	_ = os.Remove(s.logFile())
	cmd := exec.Command(s.args[0], s.args[1:]...)
	// The server dies with the test process, even when that is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	p := &process{cmd: cmd, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		_ = cmd.Wait()
	}()
	s.mu.Lock()
	s.proc = p
	s.mu.Unlock()
	limit := time.After(20 * time.Second)
	for {
		log, _ := os.ReadFile(s.logFile())
		if strings.Contains(string(log), "Ready to accept connections") {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("redistest: the server on %s ended: %s", s.Addr, log)
		case <-limit:
			return fmt.Errorf("redistest: the server on %s did not get ready: %s", s.Addr, log)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func (s *Server) signal(sig syscall.Signal) {
	s.mu.Lock()
	p := s.proc
	s.proc = nil
	s.mu.Unlock()
	if p == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	_ = p.cmd.Process.Signal(sig)
	<-p.ended
}

func (s *Server) raw(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		_ = s.proc.cmd.Process.Signal(sig)
	}
}

// FreeAddr returns a loopback address that nobody listens on at the moment.
func FreeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
