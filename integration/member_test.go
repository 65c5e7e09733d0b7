package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/streamconsumer"
	archiveclient "github.com/evtlog/evtlog/archive/replica/client"
	"github.com/evtlog/evtlog/redislog"
	"github.com/evtlog/evtlog/runtime"
)

// memberEnv holds the memberConfig of a re-executed test binary, which then is
// a program with consumers and not a test.
const memberEnv = "EVTLOG_TEST_MEMBER"

// memberConfig is what a member process is told.
type memberConfig struct {
	URL    string
	Name   string
	Node   int
	Groups []string
	// Archive are the addresses of the archive's nodes; none means no archive.
	Archive []string
	MinIdle time.Duration
	Block   time.Duration
	Count   int
	// Idle makes the process measure itself for so long instead of reporting.
	Idle time.Duration
}

// The fields that tell a member's handler what to do with a record.
const (
	// fieldWork is how long the handler takes.
	fieldWork = "work"
	// fieldDeaf is set when it does not obey its context.
	fieldDeaf = "deaf"
)

// What a member process says on its standard output, one line each.
const (
	sayReady = "ready"
	// sayBegin GROUP ID NANOS SOURCE, before a handler that takes its time.
	sayBegin = "begin"
	// sayEnd GROUP ID BEGIN END SOURCE: handled; the handler returns nil next.
	sayEnd = "end"
	// sayCut GROUP ID BEGIN END SOURCE: the handler obeyed its context.
	sayCut = "cut"
	// sayLost GROUP AFTER TO, an evtlog.Lost.
	sayLost = "lost"
	// sayAlive NANOS comes on a beat, from which the parent sees whether the
	// process was given the processor.
	sayAlive = "alive"
	// sayUsed CPU WALL, in nanoseconds, is what idling took.
	sayUsed = "used"
)

// runMember is the body of a member process.
func runMember(text string) {
	if err := serveMember(text); err != nil {
		fmt.Fprintln(os.Stderr, "member:", err)
		os.Exit(1)
	}
}

func serveMember(text string) error {
	var cfg memberConfig
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		return err
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	m := &memberProgram{cfg: cfg}
	rc, closeArchive, err := m.runtimeConfig()
	if err != nil {
		return err
	}
	defer closeArchive()
	rt, err := runtime.Start(ctx, rc)
	if err != nil {
		return err
	}
	m.say(sayReady)
	if cfg.Idle > 0 {
		m.measure(ctx)
	} else {
		m.beat(ctx)
	}
	stopCtx, stopped := context.WithTimeout(context.Background(), 20*time.Second)
	defer stopped()
	return rt.Stop(stopCtx)
}

type memberProgram struct {
	cfg memberConfig
	mu  sync.Mutex
}

func (m *memberProgram) runtimeConfig() (runtime.Config, func(), error) {
	rc := runtime.Config{Redis: redislog.Config{URL: m.cfg.URL}, Node: m.cfg.Node, Observer: m.observe}
	closeArchive := func() {}
	c := runtime.Consumer{
		Queue: queue, Stream: name, Name: m.cfg.Name, Start: streamconsumer.FromHead, Handler: m.handle,
		MinIdle: m.cfg.MinIdle, Block: m.cfg.Block, Count: m.cfg.Count, MaxDeliveries: -1,
		RetryMin: 10 * time.Millisecond, RetryMax: 50 * time.Millisecond,
	}
	if len(m.cfg.Archive) > 0 {
		arch, err := archiveclient.New(archiveclient.Config{Addresses: m.cfg.Archive})
		if err != nil {
			return rc, closeArchive, err
		}
		c.Archive = arch
		closeArchive = func() { _ = arch.Close() }
	}
	for _, g := range m.cfg.Groups {
		c.Group = g
		rc.Consumers = append(rc.Consumers, c)
	}
	return rc, closeArchive, nil
}

// say writes one line with one system call: what was said before a SIGKILL
// reaches the parent.
func (m *memberProgram) say(words ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, _ = os.Stdout.WriteString(fmt.Sprintln(words...))
}

func (m *memberProgram) observe(e evtlog.Event) {
	if e, ok := e.(evtlog.Lost); ok {
		m.say(sayLost, e.Group, e.After.Entry(), e.To.Entry())
	}
}

func (m *memberProgram) handle(ctx context.Context, d evtlog.Delivery) error {
	began := time.Now().UnixNano()
	if text, slow := d.Get(fieldWork); slow {
		work, err := time.ParseDuration(text)
		if err != nil {
			return err
		}
		_, deaf := d.Get(fieldDeaf)
		m.say(sayBegin, d.Group, d.ID, began, d.Source)
		done := ctx.Done()
		if deaf {
			done = nil
		}
		select {
		case <-done:
			m.say(sayCut, d.Group, d.ID, began, time.Now().UnixNano(), d.Source)
			return context.Cause(ctx)
		case <-time.After(work):
		}
	}
	m.say(sayEnd, d.Group, d.ID, began, time.Now().UnixNano(), d.Source)
	return nil
}

// beat shows that the process lives until it is told to stop.
func (m *memberProgram) beat(ctx context.Context) {
	tick := time.NewTicker(m.cfg.MinIdle / 20)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			m.say(sayAlive, time.Now().UnixNano())
		}
	}
}

// measure tells how much processor time the process takes while nothing is to
// be done.
func (m *memberProgram) measure(ctx context.Context) {
	<-time.After(time.Second) // the start is not part of idling
	began, used := time.Now(), cpuTime()
	select {
	case <-ctx.Done():
	case <-time.After(m.cfg.Idle):
	}
	m.say(sayUsed, int64(cpuTime()-used), int64(time.Since(began)))
	<-ctx.Done()
}

// cpuTime is the processor time of this process so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// memberProcess is one run of a member process.
type memberProcess struct {
	t     *testing.T
	cfg   memberConfig
	cmd   *exec.Cmd
	ready chan struct{}
	ended chan struct{}
	err   error // why it ended, once ended is closed
	// killed is when SIGKILL was about to be sent, in Unix nanoseconds.
	killed int64
}

// startMember starts a member process and passes each of its lines to tell,
// called from one goroutine. It does not wait for it to be ready.
func startMember(t *testing.T, cfg memberConfig, tell func(p *memberProcess, words []string)) *memberProcess {
	t.Helper()
	text, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &memberProcess{t: t, cfg: cfg, cmd: exec.Command(self), ready: make(chan struct{}), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), memberEnv+"="+string(text))
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			words := strings.Fields(scan.Text())
			if len(words) > 0 && words[0] == sayReady {
				close(p.ready)
			}
			tell(p, words)
		}
		p.err = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
	})
	return p
}

func (p *memberProcess) awaitReady() {
	p.t.Helper()
	select {
	case <-p.ready:
	case <-p.ended:
		p.t.Fatalf("member %s ended before it was ready: %v", p.cfg.Name, p.err)
	case <-time.After(60 * time.Second):
		p.t.Fatalf("member %s is not ready", p.cfg.Name)
	}
}

// kill sends SIGKILL and waits until everything the process said was heard.
func (p *memberProcess) kill() {
	p.killed = time.Now().UnixNano()
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// terminate sends SIGTERM and waits for the end, which must be a clean one.
func (p *memberProcess) terminate() {
	p.t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		if p.err != nil {
			p.t.Errorf("member %s: %v", p.cfg.Name, p.err)
		}
	case <-time.After(30 * time.Second):
		p.t.Errorf("member %s does not stop", p.cfg.Name)
		p.kill()
	}
}

// soak is how long a random test goes on: d, or what EVTLOG_SOAK says, such as
// "60s".
func soak(t *testing.T, d time.Duration) (limit time.Duration, long bool) {
	t.Helper()
	text := os.Getenv("EVTLOG_SOAK")
	if text == "" {
		return d, false
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("EVTLOG_SOAK: %v", err)
	}
	return d, true
}
