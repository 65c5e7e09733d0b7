package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive/archivetest"
	"github.com/evtlog/evtlog/archive/replica/client"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/redistest"
)

// servedNode is a node that "archive serve" runs in this process.
type servedNode struct {
	id, dir, raft, http string
	stop                func() (code int, stderr string)
}

// lockedBuffer is written by the node while the test reads it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// serveNode starts a node and waits until it says that it serves.
func serveNode(t *testing.T, verb []string, n servedNode, more ...string) servedNode {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var out, errOut lockedBuffer
	code := make(chan int, 1)
	args := append(append([]string{}, verb...), "--dir", n.dir, "--id", n.id, "--cluster", "c", "--raft", n.raft, "--http", n.http)
	go func() { code <- run(ctx, append(args, more...), strings.NewReader(""), &out, &errOut) }()
	n.stop = sync.OnceValues(func() (int, string) {
		cancel()
		return <-code, errOut.String()
	})
	t.Cleanup(func() { n.stop() })
	deadline := time.Now().Add(30 * time.Second)
	for !strings.Contains(out.String(), "serves at") {
		select {
		case c := <-code:
			code <- c
			t.Fatalf("node %s ended with %d: %s", n.id, c, errOut.String())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("node %s does not serve: %s", n.id, errOut.String())
		}
	}
	return n
}

func newNode(t *testing.T, id string) servedNode {
	return servedNode{id: id, dir: t.TempDir(), raft: redistest.FreeAddr(t), http: redistest.FreeAddr(t)}
}

// decode runs a command line with -o json and decodes its answer.
func decode(t *testing.T, into any, args ...string) {
	t.Helper()
	code, out, stderr := cli(t, "", append(args, "-o", "json")...)
	if code != exitOK {
		t.Fatalf("%v: exit %d: %s", args, code, stderr)
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		t.Fatalf("%v: %v: %s", args, err, out)
	}
}

// TestClusterVerbs founds a cluster, lets two nodes join, folds, and goes
// through every verb that looks at it or changes it.
func TestClusterVerbs(t *testing.T) {
	a := serveNode(t, []string{"archive", "serve"}, newNode(t, "a"), "--bootstrap")
	b := serveNode(t, []string{"archive", "serve"}, newNode(t, "b"), "--peers", a.http)
	c := serveNode(t, []string{"raft", "join"}, newNode(t, "c"), "--peers", a.http)
	nodes := []string{"--nodes", strings.Join([]string{a.http, b.http, c.http}, ",")}
	with := func(words ...string) []string { return append(words, nodes...) }

	var peers []peerView
	deadline := time.Now().Add(30 * time.Second)
	for voters := 0; voters < 3; {
		decode(t, &peers, with("raft", "peers")...)
		voters = 0
		for _, p := range peers {
			if p.Voter {
				voters++
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the members are %+v", peers)
		}
	}
	cluster, err := client.New(client.Config{Addresses: []string{a.http, b.http, c.http}})
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	stream := evtlog.StreamName{Queue: "q", Name: "s"}
	w, err := cluster.Fold(ctx, stream, evtid.ID{}, archivetest.Records(1, 50))
	if err != nil {
		t.Fatal(err)
	}

	var volumes []volumeView
	decode(t, &volumes, with("archive", "ls")...)
	if len(volumes) != 1 || volumes[0].Records != 50 || volumes[0].Watermark != w.String() {
		t.Errorf("archive ls: %+v", volumes)
	}
	var findings map[string][]findingView
	decode(t, &findings, with("archive", "verify")...)
	if len(findings) != 3 || len(findings[a.http]) == 0 || !findings[a.http][0].OK {
		t.Errorf("archive verify: %+v", findings)
	}
	var statuses []statusView
	decode(t, &statuses, with("archive", "status")...)
	if len(statuses) != 3 || statuses[0].Status == nil || statuses[0].Status.Node != "a" || statuses[0].Status.Cluster != "c" {
		t.Errorf("archive status: %+v", statuses)
	}
	joined(t, nodes, w)
	for _, verb := range [][]string{{"archive", "status"}, {"archive", "ls"}, {"archive", "verify"}, {"raft", "peers"}} {
		if code, out, stderr := cli(t, "", with(verb...)...); code != exitOK || !strings.Contains(out, "\n") {
			t.Errorf("%v as a table: exit %d: %s%s", verb, code, out, stderr)
		}
	}
	var moved map[string]string
	decode(t, &moved, with("raft", "transfer", "--to", "b")...)
	if moved["leader"] != "b" {
		t.Errorf("raft transfer: %v", moved)
	}
	file := filepath.Join(t.TempDir(), "all.evtlog")
	var summary struct{ Commits, Records uint64 }
	decode(t, &summary, with("archive", "export", "--to", file)...)
	if summary.Records != 50 {
		t.Errorf("archive export: %+v", summary)
	}
	if left, _ := filepath.Glob(file + ".part*"); len(left) > 0 {
		t.Errorf("export left %v", left)
	}
	if code, _, stderr := cli(t, "", with("raft", "remove", "--id", "c")...); code != exitUsage || !strings.Contains(stderr, "--yes") {
		t.Errorf("remove without --yes: exit %d: %s", code, stderr)
	}
	if code, _, stderr := cli(t, "", with("raft", "remove", "--id", "c", "--yes")...); code == exitOK {
		t.Errorf("a removal that leaves two voters was done: %s", stderr)
	}
	decode(t, &moved, with("raft", "remove", "--id", "c", "--yes", "--force")...)

	t.Run("offline", func(t *testing.T) { offline(t, a, b, file) })
}

// joined reads the archived records of a stream that is not in Redis through the
// nodes, and looks at and moves a group of it.
func joined(t *testing.T, nodes []string, w evtid.ID) {
	srv := redistest.Start(t)
	where := append([]string{"--redis", srv.URL(), "--queue", "q", "--stream", "s"}, nodes...)
	code, out, stderr := cli(t, "", append([]string{"replay", "-o", "id"}, where...)...)
	if ids := strings.Fields(out); code != exitOK || len(ids) != 50 || ids[49] != w.String() {
		t.Errorf("replay through the nodes: exit %d, %d records: %s", code, len(ids), stderr)
	}
	srv.Do("XGROUP", "CREATE", "emq:{q}:stream:s", "g", "$", "MKSTREAM")
	var moved seekView
	decode(t, &moved, append([]string{"group", "seek", "--group", "g", "--to", "end", "--dry-run"}, where...)...)
	if moved.To != w || moved.Skipped != 50 || !moved.Exact {
		t.Errorf("group seek through the nodes: %+v", moved)
	}
	var groups []groupView
	decode(t, &groups, append([]string{"group", "info"}, where...)...)
	if len(groups) != 1 || groups[0].Lag.Entries == nil || *groups[0].Lag.Entries != 50 {
		t.Errorf("group info through the nodes: %+v", groups)
	}
	if code, _, stderr := cli(t, "", append([]string{"replay", "--archive", "x"}, where...)...); code != exitUsage || !strings.Contains(stderr, "one of them") {
		t.Errorf("two archives: exit %d: %s", code, stderr)
	}
	if code, _, stderr := cli(t, "", "replay", "--redis", srv.URL(), "--queue", "q", "--stream", "s", "--nodes", redistest.FreeAddr(t), "--archive-timeout", "300ms"); code != exitUnavailable {
		t.Errorf("nobody serves there: exit %d: %s", code, stderr)
	}
}

// offline stops the nodes and works on their directories.
func offline(t *testing.T, a, b servedNode, file string) {
	if code, _, stderr := cli(t, "", "archive", "verify", "--dir", a.dir); code != exitUnavailable {
		t.Errorf("verify of a directory in use: exit %d: %s", code, stderr)
	}
	for _, n := range []servedNode{b, a} {
		if code, stderr := n.stop(); code != exitOK && code != exitInterrupted {
			t.Errorf("node %s ended with %d: %s", n.id, code, stderr)
		}
	}
	if code, _, stderr := cli(t, "", "archive", "ls", "--nodes", a.http, "--timeout", "1s"); code == exitOK {
		t.Errorf("nobody serves, and still: %s", stderr)
	}
	if code, out, stderr := cli(t, "", "archive", "verify", "--dir", a.dir); code != exitOK {
		t.Errorf("verify: exit %d: %s%s", code, out, stderr)
	}
	if code, _, stderr := cli(t, "", "archive", "compact", "--dir", a.dir); code != exitOK {
		t.Errorf("compact: exit %d: %s", code, stderr)
	}
	recovery := []string{"raft", "recover", "--dir", a.dir, "--id", "a", "--cluster", "c", "--raft", a.raft, "--http", a.http}
	if code, out, _ := cli(t, "", append(recovery, "--dry-run")...); code != exitOK || !strings.Contains(out, "nothing was changed") {
		t.Errorf("recover --dry-run: exit %d: %s", code, out)
	}
	if code, _, _ := cli(t, "", recovery...); code != exitUsage {
		t.Errorf("recover without --yes: exit %d", code)
	}
	if code, _, stderr := cli(t, "", append(recovery, "--yes")...); code != exitOK {
		t.Errorf("recover: exit %d: %s", code, stderr)
	}
	alone := serveNode(t, []string{"archive", "serve"}, a)
	var volumes []volumeView
	decode(t, &volumes, "archive", "ls", "--nodes", alone.http)
	if len(volumes) != 1 || volumes[0].Records != 50 {
		t.Errorf("after the recovery: %+v", volumes)
	}

	other := serveNode(t, []string{"archive", "serve"}, newNode(t, "x"), "--bootstrap")
	var summary struct{ Records uint64 }
	decode(t, &summary, "archive", "import", "--from", file, "--dry-run")
	decode(t, &summary, "archive", "import", "--from", file, "--nodes", other.http)
	decode(t, &volumes, "archive", "ls", "--nodes", other.http)
	if summary.Records != 50 || len(volumes) != 1 || volumes[0].Records != 50 {
		t.Errorf("after the import: %+v, %+v", summary, volumes)
	}
	damage(t, file)
	if code, _, _ := cli(t, "", "archive", "import", "--from", file, "--dry-run"); code == exitOK {
		t.Error("a damaged export was accepted")
	}
}

// damage flips a byte in the middle of a file.
func damage(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestClusterUsage(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		want int
		args []string
	}{
		{exitUsage, []string{"raft", "join", "--dir", dir, "--id", "a", "--cluster", "c"}},
		{exitUsage, []string{"archive", "serve", "--dir", dir, "--id", "a b", "--cluster", "c", "--bootstrap"}},
		{exitUsage, []string{"archive", "serve", "--dir", dir, "--id", "a", "--cluster", "c", "--http", "0.0.0.0:0", "--raft", "0.0.0.0:0", "--bootstrap"}},
		{exitUsage, []string{"archive", "ls", "--tls-cert", "x"}},
		{exitUsage, []string{"archive", "export"}},
		{exitUsage, []string{"archive", "import", "--from", filepath.Join(dir, "absent")}},
		{exitUsage, []string{"archive", "compact"}},
		{exitUsage, []string{"raft", "remove", "--yes"}},
	} {
		if code, _, stderr := cli(t, "", c.args...); code != c.want {
			t.Errorf("%v: exit %d, want %d: %s", c.args, code, c.want, stderr)
		}
	}
}
