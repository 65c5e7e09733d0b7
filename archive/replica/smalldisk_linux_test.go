package replica

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive/replica/client"
)

// ownMounts lets a process mount what nobody else sees, and what is gone when it
// ends. Without the rights of root it takes a user namespace of its own.
func ownMounts() *syscall.SysProcAttr {
	if os.Geteuid() == 0 {
		return &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	}
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
}

func mountSmallDisk(dir string, size int64) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		return fmt.Errorf("mount a small disk: %w; the test needs root or user namespaces", err)
	}
	return nil
}

// shortage is one way to run out of space.
type shortage struct {
	reserve uint64
	logOnly bool
	// left is what the ballast leaves free.
	left int64
	// want are parts of the alarm.
	want []string
}

// TestDiskFullForReal fills the disk of one of three nodes: down to the reserve
// that it keeps; with next to no reserve, so that a write meets the error of the
// system; and that of raft.db alone. The others go on; the node is back when
// there is space.
func TestDiskFullForReal(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]shortage{
		"down to the reserve":       {reserve: 16 << 20, left: 8 << 20, want: []string{errDiskFull.Error()}},
		"no space left":             {reserve: 1, left: 64 << 10, want: []string{syscall.ENOSPC.Error()}},
		"no space left for the log": {reserve: 1, logOnly: true, left: 64 << 10, want: []string{syscall.ENOSPC.Error(), "write to " + raftFile}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fillDisk(t, s)
		})
	}
}

func fillDisk(t *testing.T, s shortage) {
	first := newChild(t, childConfig{ID: "a", Raft: "127.0.0.1:0", HTTP: "127.0.0.1:0", Bootstrap: true})
	second := newChild(t, childConfig{ID: "b", Raft: "127.0.0.1:0", HTTP: "127.0.0.1:0", Peers: []string{first.cfg.HTTP}})
	peers := []string{first.cfg.HTTP, second.cfg.HTTP}
	small := newChild(t, childConfig{ID: "c", Raft: "127.0.0.1:0", HTTP: "127.0.0.1:0", Peers: peers, Disk: 96 << 20, LogOnly: s.logOnly, Reserve: s.reserve})
	addrs := append(peers, small.cfg.HTTP)
	waitProcessVoters(t, addrs, 3)
	cl, err := client.New(client.Config{Addresses: addrs})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	w := &writer{stream: evtlog.StreamName{Queue: "cm", Name: "full"}, arch: cl, size: 4000}
	w.mustFold(t, 20, 10)

	// The directory as the process sees it.
	dir := filepath.Join("/proc", fmt.Sprint(small.cmd.Process.Pid), "root", small.dir, "node")
	if s.logOnly {
		dir = filepath.Join(filepath.Dir(dir), "small")
	}
	ballast := filepath.Join(dir, "ballast")
	fillUp(t, ballast, s.left)
	aside := ""
	eventually(t, 60*time.Second, "node that stepped aside", func() bool {
		// The others take every fold.
		w.mustFold(t, 1, 10)
		for _, a := range statusOf(small.cfg.HTTP).GetAlarms() {
			if strings.Contains(a, " "+kindDisk+": ") {
				aside = a
			}
		}
		return aside != ""
	})
	t.Log(aside)
	for _, want := range s.want {
		if !strings.Contains(aside, want) {
			t.Errorf("it stepped aside for %q, not for %q", aside, want)
		}
	}
	w.mustFold(t, 50, 10)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	eventually(t, 60*time.Second, "node that is back and has everything", func() bool {
		st := statusOf(small.cfg.HTTP)
		return st.GetLeaderId() != "" && len(st.GetHeads()) == 1 && st.GetHeads()[0].GetCount() == uint64(len(w.acked))
	})
	own, err := client.New(client.Config{Addresses: []string{small.cfg.HTTP}})
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	w.check(t, own)
}

// fillUp writes a file that leaves so many bytes of its disk.
func fillUp(t *testing.T, path string, left int64) {
	t.Helper()
	var st syscall.Statfs_t
	if err := syscall.Statfs(filepath.Dir(path), &st); err != nil {
		t.Fatal(err)
	}
	free := int64(st.Bavail) * st.Bsize
	if free <= left {
		t.Fatalf("only %d bytes are free on the small disk", free)
	}
	// The node writes as well meanwhile: then it is full a little sooner.
	if err := os.WriteFile(path, make([]byte, free-left), 0o600); err != nil && !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}
