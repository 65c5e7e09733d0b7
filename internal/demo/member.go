package demo

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

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/streamconsumer"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/examples/gameserver/game"
	"github.com/evtlog/evtlog/internal/devredis"
	"github.com/evtlog/evtlog/redislog"
	"github.com/evtlog/evtlog/runtime"
)

// auditGroup follows the feed in a process of its own, which is killed again
// and again.
const auditGroup = "audit"

// auditPause is the time the audit handler takes: long enough for a kill that
// was triggered by its begin to find the work in hand.
const auditPause = 5 * time.Millisecond

// What the member tells its parent, one line each, on standard output.
const (
	lineReady   = "ready"
	lineTaken   = "taken "
	lineHandled = "handled "
	lineDrained = "drained "
)

// Member runs the audit consumer until ctx ends. It is the body of the process
// that the demonstration kills.
func Member(ctx context.Context, url, queue string, out io.Writer) error {
	var mu sync.Mutex
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(out, format+"\n", args...)
	}
	rt, err := runtime.Start(ctx, runtime.Config{
		Redis: redisConfig(url), Node: memberNode,
		Consumers: []runtime.Consumer{{
			Queue: queue, Stream: game.Feed, Group: auditGroup, Name: "audit-1",
			Start: streamconsumer.FromHead, Block: 200 * time.Millisecond,
			Handler: func(_ context.Context, d evtlog.Delivery) error {
				say(lineTaken+"%s", d.ID)
				time.Sleep(auditPause)
				say(lineHandled+"%s", d.ID)
				return nil
			},
		}},
		Observer: func(e evtlog.Event) {
			if d, ok := e.(evtlog.Drained); ok {
				say(lineDrained+"%d", d.Entries)
			}
		},
	})
	if err != nil {
		return err
	}
	say(lineReady)
	<-ctx.Done()
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return rt.Stop(stopCtx)
}

// memberNode is the node number of the member process; the game's own is 1.
const memberNode = 2

// audit starts the member process, kills it, starts it anew, and keeps what it
// said it had handled.
type audit struct {
	command func() *exec.Cmd

	mu       sync.Mutex
	handled  map[evtid.ID]int
	drained  int
	restarts int
}

// run keeps one member alive and kills it every so often, until ctx ends. Then
// it leaves the last member running and returns it.
func (a *audit) run(ctx context.Context, every time.Duration) (*process, error) {
	p, err := a.start()
	if err != nil {
		return nil, err
	}
	for {
		select {
		case <-ctx.Done():
			return p, nil
		case <-p.ended:
			return nil, fmt.Errorf("the audit member ended by itself: %w", p.err)
		case <-time.After(every):
		}
		p.killAtWork()
		a.mu.Lock()
		a.restarts++
		a.mu.Unlock()
		if p, err = a.start(); err != nil {
			return nil, err
		}
	}
}

// process is one running member.
type process struct {
	cmd *exec.Cmd
	// taken gets a value whenever the handler begins; it holds one.
	taken chan struct{}
	ended chan struct{}
	err   error
}

func (a *audit) start() (*process, error) {
	cmd := a.command()
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = devredis.DiesWithParent()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the audit member: %w", err)
	}
	p := &process{cmd: cmd, taken: make(chan struct{}, 1), ended: make(chan struct{})}
	ready := make(chan struct{})
	go func() {
		defer close(p.ended)
		a.listen(out, ready, p.taken)
		p.err = cmd.Wait()
	}()
	select {
	case <-ready:
		return p, nil
	case <-p.ended:
		return nil, fmt.Errorf("the audit member did not start: %w", p.err)
	}
}

// listen reads what the member says until its end.
func (a *audit) listen(out io.Reader, ready, taken chan struct{}) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		line := lines.Text()
		a.mu.Lock()
		if line == lineReady {
			close(ready)
		} else if strings.HasPrefix(line, lineTaken) {
			select {
			case taken <- struct{}{}:
			default:
			}
		} else if rest, ok := strings.CutPrefix(line, lineHandled); ok {
			if id, err := evtid.Parse(rest); err == nil {
				a.handled[id]++
			}
		} else if rest, ok := strings.CutPrefix(line, lineDrained); ok {
			n := 0
			_, _ = fmt.Sscan(rest, &n)
			a.drained += n
		}
		a.mu.Unlock()
	}
}

// killAtWork kills the member in the middle of its handler, or after a second
// without work.
func (p *process) killAtWork() {
	select {
	case <-p.taken: // an old one
	default:
	}
	select {
	case <-p.taken:
	case <-p.ended:
	case <-time.After(time.Second):
	}
	p.kill()
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// stop asks the member to end and waits for it.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		return p.err
	case <-time.After(15 * time.Second):
		p.kill()
		return errors.New("the audit member did not stop when asked to")
	}
}

// redisConfig names the demonstration's connections.
func redisConfig(url string) redislog.Config {
	return redislog.Config{URL: url, ClientName: "evtlog-demo"}
}
