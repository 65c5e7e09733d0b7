package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/evtlog/evtlog/archive/replica"
	"github.com/evtlog/evtlog/internal/devredis"
)

// verbs as first argument make this program a part of a measurement, in a
// process of its own that can be killed.
func verbs() map[string]func(ctx context.Context, args []string, out io.Writer) error {
	return map[string]func(ctx context.Context, args []string, out io.Writer) error{
		"node": runNode,
		"hog":  runHog,
	}
}

// runNode is the body of a process that is one node of a replicated archive,
// with default settings.
func runNode(ctx context.Context, args []string, _ io.Writer) error {
	cfg := replica.Config{Cluster: clusterID}
	flags := flag.NewFlagSet("node", flag.ContinueOnError)
	flags.StringVar(&cfg.Dir, "dir", "", "directory")
	flags.StringVar(&cfg.ID, "id", "", "node id")
	flags.StringVar(&cfg.RaftListen, "raft", "", "raft address")
	flags.StringVar(&cfg.HTTPListen, "http", "", "HTTP address")
	flags.BoolVar(&cfg.Bootstrap, "bootstrap", false, "first node")
	peers := flags.String("peers", "", "HTTP addresses of other nodes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	cfg.Peers = strings.FieldsFunc(*peers, func(r rune) bool { return r == ',' })
	node, err := replica.Start(ctx, cfg)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-node.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return errors.Join(node.Err(), node.Stop(stop))
}

// runHog is the body of a process that uses a core until it is killed.
func runHog(ctx context.Context, _ []string, _ io.Writer) error {
	for n := 0; ; n++ {
		if n%(1<<24) == 0 && ctx.Err() != nil {
			return nil
		}
	}
}

// process is a verb in a process of its own.
type process struct{ cmd *exec.Cmd }

func startProcess(args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, args...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = devredis.DiesWithParent()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", args[0], err)
	}
	return &process{cmd}, nil
}

// kill ends the process with SIGKILL and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// member is one node of a cluster of processes.
type member struct {
	id, dir, raft, http string
	bootstrap           bool
	running             *process
}

func (m *member) start(peers []string) (err error) {
	args := []string{"node", "-dir", m.dir, "-id", m.id, "-raft", m.raft, "-http", m.http, "-peers", strings.Join(peers, ",")}
	if m.bootstrap {
		args = append(args, "-bootstrap")
	}
	m.running, err = startProcess(args...)
	return err
}

func (m *member) kill() {
	if m.running != nil {
		m.running.kill()
	}
	m.running = nil
}
