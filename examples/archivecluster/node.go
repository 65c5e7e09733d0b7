package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/evtlog/evtlog/archive/replica"
	"github.com/evtlog/evtlog/internal/devredis"
)

// nodeVerb as first argument makes this program a node.
const nodeVerb = "node"

// clusterID names the cluster of the example.
const clusterID = "example"

// runNode is the body of a node process.
func runNode(ctx context.Context, args []string) error {
	var cfg replica.Config
	flags := flag.NewFlagSet(nodeVerb, flag.ContinueOnError)
	flags.StringVar(&cfg.Dir, "dir", "", "directory")
	flags.StringVar(&cfg.ID, "id", "", "node id")
	flags.StringVar(&cfg.RaftListen, "raft", "", "raft address")
	flags.StringVar(&cfg.HTTPListen, "http", "", "HTTP address")
	flags.BoolVar(&cfg.Bootstrap, "bootstrap", false, "first node")
	peers := flags.String("peers", "", "HTTP addresses of other nodes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	cfg.Cluster = clusterID
	// A short log, so that a node that was away for a second already lacks more
	// than the others' logs hold, as after hours with the defaults.
	cfg.TrailingLogs, cfg.SnapshotThreshold, cfg.SnapshotInterval = 128, 64, time.Second
	cfg.Peers = strings.FieldsFunc(*peers, func(r rune) bool { return r == ',' })
	node, err := replica.Start(ctx, cfg)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-node.Done():
	}
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return errors.Join(node.Err(), node.Stop(stopCtx))
}

// member is one node process, running or not.
type member struct {
	id, dir, raft, http string
	bootstrap           bool
	cmd                 *exec.Cmd
	ended               chan struct{}
}

// newMember picks addresses and a directory for a node.
func newMember(dir, id string) (*member, error) {
	m := &member{id: id, dir: filepath.Join(dir, id), bootstrap: id == "a"}
	for _, addr := range []*string{&m.raft, &m.http} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		*addr = l.Addr().String()
		_ = l.Close()
	}
	return m, os.MkdirAll(m.dir, 0o700)
}

// start starts the process. peers are HTTP addresses of other nodes.
func (m *member) start(peers []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{nodeVerb, "-dir", m.dir, "-id", m.id, "-raft", m.raft, "-http", m.http, "-peers", strings.Join(peers, ",")}
	if m.bootstrap {
		args = append(args, "-bootstrap")
	}
	m.cmd = exec.Command(self, args...)
	m.cmd.Stderr = os.Stderr
	m.cmd.SysProcAttr = devredis.DiesWithParent()
	if err := m.cmd.Start(); err != nil {
		return fmt.Errorf("start node %s: %w", m.id, err)
	}
	m.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) {
		_ = cmd.Wait()
		close(ended)
	}(m.cmd, m.ended)
	return nil
}

func (m *member) kill() {
	_ = m.cmd.Process.Kill()
	<-m.ended
}

// stop asks the process to end, and kills it when it does not.
func (m *member) stop() {
	_ = m.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-m.ended:
	case <-time.After(15 * time.Second):
		m.kill()
	}
}
