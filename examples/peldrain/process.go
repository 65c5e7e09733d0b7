package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/devredis"
)

const (
	// patience bounds each wait for something to happen.
	patience = 15 * time.Second
	// stopTime is what a member is given to stop.
	stopTime = 5 * time.Second
)

// member is one process of a member, and what it said.
type member struct {
	name  string
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // why it ended

	mu   sync.Mutex
	said []saying
}

// saying is one line of a member.
type saying struct {
	what  string
	count int // deliveries of id, or entries
	id    evtid.ID
}

// startMember starts a process and waits until it serves. Each line is passed to
// tell.
func startMember(ctx context.Context, url, queue, name string, tell func(m *member, s saying)) (*member, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot find this program to start a member: %w", err)
	}
	m := &member{name: name, cmd: exec.Command(self, memberVerb, queue, name), ended: make(chan struct{})}
	m.cmd.Env = append(os.Environ(), urlVariable+"="+url)
	m.cmd.Stderr = os.Stderr
	m.cmd.SysProcAttr = devredis.DiesWithParent()
	lines, err := m.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := m.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start member %s: %w", name, err)
	}
	go func() {
		defer close(m.ended)
		m.listen(lines, tell)
		m.err = m.cmd.Wait()
	}()
	if err := m.await(ctx, "to be ready", func() bool { return m.has(sayReady) > 0 }); err != nil {
		m.kill()
		return nil, err
	}
	return m, nil
}

// listen reads what the member says until its end.
func (m *member) listen(lines io.Reader, tell func(*member, saying)) {
	for scan := bufio.NewScanner(lines); scan.Scan(); {
		words := strings.Fields(scan.Text() + " 0 -")
		s := saying{what: words[0]}
		_, _ = fmt.Sscan(words[1], &s.count)
		s.id, _ = evtid.Parse(words[2])
		m.mu.Lock()
		m.said = append(m.said, s)
		m.mu.Unlock()
		tell(m, s)
	}
}

// saidSoFar returns everything of one kind, in order.
func (m *member) saidSoFar(what string) (out []saying) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.said {
		if s.what == what {
			out = append(out, s)
		}
	}
	return out
}

func (m *member) has(what string) int { return len(m.saidSoFar(what)) }

// sum adds up the counts of one kind.
func (m *member) sum(what string) (n int) {
	for _, s := range m.saidSoFar(what) {
		n += s.count
	}
	return n
}

// holds reports whether id was taken and not finished: the member is at it.
func (m *member) holds(id evtid.ID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := len(m.said) - 1
	return last >= 0 && m.said[last].what == sayTaken && m.said[last].id == id
}

// await waits for something that the member does.
func (m *member) await(ctx context.Context, what string, done func() bool) error {
	return until(ctx, "member "+m.name+" "+what, func() (bool, error) {
		select {
		case <-m.ended:
			return false, fmt.Errorf("member %s ended by itself: %w", m.name, m.err)
		default:
			return done(), nil
		}
	})
}

// kill ends the process with SIGKILL.
func (m *member) kill() {
	_ = m.cmd.Process.Kill()
	<-m.ended
}

// stop asks the process to end, and kills it when it does not.
func (m *member) stop() error {
	_ = m.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-m.ended:
		return m.err
	case <-time.After(2 * stopTime):
		m.kill()
		return errors.New("member " + m.name + " did not stop when asked to")
	}
}

// until waits for a condition.
func until(ctx context.Context, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}
