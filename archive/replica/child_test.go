package replica

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// childEnv names the directory of the node that a re-executed test binary runs.
const childEnv = "EVTLOG_TEST_NODE_DIR"

// childConfig is what a node in a process of its own is told.
type childConfig struct {
	ID, Raft, HTTP string
	Peers          []string
	Bootstrap      bool
	// Disk, in bytes, puts the node on a small disk of its own, or with LogOnly
	// its raft.db.
	Disk    int64
	LogOnly bool
	// Reserve is Config.ReserveBytes.
	Reserve uint64
}

// runChild runs one node until its standard input ends; a test kills it sooner.
func runChild(dir string) {
	if err := serveChild(dir); err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		os.Exit(1)
	}
}

func serveChild(dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, "child.json"))
	if err != nil {
		return err
	}
	var cc childConfig
	if err := json.Unmarshal(b, &cc); err != nil {
		return err
	}
	if cc.Disk > 0 {
		if err := smallDisk(dir, cc); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	n, err := Start(ctx, Config{
		Dir: filepath.Join(dir, "node"), ID: cc.ID, Cluster: "procs", RaftListen: cc.Raft, HTTPListen: cc.HTTP,
		Peers: cc.Peers, Bootstrap: cc.Bootstrap, TrailingLogs: 256, SnapshotThreshold: 64, SnapshotInterval: time.Second,
		CompareEvery: time.Second, ReserveBytes: cc.Reserve, Logger: testLogger(),
	})
	if err != nil {
		return err
	}
	fmt.Println("ready", n.Address())
	go func() {
		// The end of the parent is the end of the node.
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		_ = n.Stop(context.Background())
	}()
	<-n.Done()
	return n.Err()
}

// smallDisk mounts what the node is to run short of.
func smallDisk(dir string, cc childConfig) error {
	node := filepath.Join(dir, "node")
	if !cc.LogOnly {
		return mountSmallDisk(node, cc.Disk)
	}
	if err := mountSmallDisk(filepath.Join(dir, "small"), cc.Disk); err != nil {
		return err
	}
	if err := os.MkdirAll(node, 0o700); err != nil {
		return err
	}
	return os.Symlink(filepath.Join(dir, "small", raftFile), filepath.Join(node, raftFile))
}

// child is a node in a process of its own.
type child struct {
	t    *testing.T
	dir  string
	cmd  *exec.Cmd
	addr string
	cfg  childConfig
}

func newChild(t *testing.T, cfg childConfig) *child {
	t.Helper()
	c := &child{t: t, dir: t.TempDir(), cfg: cfg}
	c.start()
	t.Cleanup(c.kill)
	return c
}

// start starts the process and waits until the node says that it runs.
func (c *child) start() {
	c.t.Helper()
	b, err := json.Marshal(c.cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.dir, "child.json"), b, 0o600); err != nil {
		c.t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	c.cmd = exec.Command(exe)
	c.cmd.Env = append(os.Environ(), childEnv+"="+c.dir)
	c.cmd.Stderr = os.Stderr
	if c.cfg.Disk > 0 {
		c.cmd.SysProcAttr = ownMounts()
	}
	if _, err := c.cmd.StdinPipe(); err != nil {
		c.t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	if err != nil || !ok {
		c.t.Fatalf("node %s did not start: %q, %v", c.cfg.ID, line, err)
	}
	c.addr = addr
	c.cfg.Raft, c.cfg.HTTP, _ = strings.Cut(addr, ",")
}

// kill ends the process with SIGKILL.
func (c *child) kill() {
	if c.cmd == nil {
		return
	}
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
	c.cmd = nil
}
