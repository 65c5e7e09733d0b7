package replica

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/replica/client"
	"github.com/evtlog/evtlog/evtid"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		runChild(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

var scores = evtlog.StreamName{Queue: "cm", Name: "scores"}

// testCluster is a number of nodes inside the test process, each with its own
// directory and ports, which it keeps when it is started again.
type testCluster struct {
	t     *testing.T
	nodes map[string]*Node
	cfgs  map[string]Config
	tune  func(id string, c *Config)
}

func testLogger() *slog.Logger {
	if os.Getenv("EVTLOG_TEST_LOG") == "" {
		return nil
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// newCluster starts nodes a, b, … that form one cluster and waits until all of
// them vote. tune, which may be nil, changes a node's Config before its start.
func newCluster(t *testing.T, size int, tune func(id string, c *Config)) *testCluster {
	t.Helper()
	c := &testCluster{t: t, nodes: map[string]*Node{}, cfgs: map[string]Config{}, tune: tune}
	t.Cleanup(c.stopAll)
	c.add("a", func(cfg *Config) { cfg.Bootstrap = true })
	for i := 1; i < size; i++ {
		c.add(string(rune('a'+i)), nil)
	}
	for _, n := range c.nodes {
		c.waitVoters(n, size)
	}
	return c
}

// add starts a new node that joins through the others.
func (c *testCluster) add(id string, change func(*Config)) *Node {
	c.t.Helper()
	c.configure(id, change)
	return c.start(id)
}

// addWithin is add for a node that has much to pull.
func (c *testCluster) addWithin(id string, within time.Duration) *Node {
	c.t.Helper()
	c.configure(id, nil)
	return c.startWithin(id, within)
}

// configure makes up the Config of a new node.
func (c *testCluster) configure(id string, change func(*Config)) {
	c.t.Helper()
	cfg := Config{
		Dir: filepath.Join(c.t.TempDir(), id), ID: id, Cluster: "test",
		RaftListen: "127.0.0.1:0", HTTPListen: "127.0.0.1:0",
		Peers:        c.httpAddresses(),
		CompareEvery: 300 * time.Millisecond, ReserveBytes: 1 << 20, Logger: testLogger(),
	}
	if cfg.Logger != nil {
		cfg.Logger = cfg.Logger.With("node", id)
	}
	if c.tune != nil {
		c.tune(id, &cfg)
	}
	if change != nil {
		change(&cfg)
	}
	c.cfgs[id] = cfg
}

// start starts a node of the cluster with the Config it had.
func (c *testCluster) start(id string) *Node {
	c.t.Helper()
	return c.startWithin(id, 30*time.Second)
}

func (c *testCluster) startWithin(id string, within time.Duration) *Node {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	n, err := Start(ctx, c.cfgs[id])
	if err != nil {
		c.t.Fatalf("start %s: %v", id, err)
	}
	cfg := c.cfgs[id]
	cfg.RaftListen, cfg.HTTPListen = n.Address().Raft, n.Address().HTTP
	c.cfgs[id] = cfg
	c.nodes[id] = n
	return n
}

func (c *testCluster) stop(id string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := c.nodes[id].Stop(ctx); err != nil {
		c.t.Errorf("stop %s: %v", id, err)
	}
	delete(c.nodes, id)
}

func (c *testCluster) stopAll() {
	for id := range c.nodes {
		c.stop(id)
	}
}

func (c *testCluster) httpAddresses() []string {
	var out []string
	for _, n := range c.nodes {
		out = append(out, n.Address().HTTP)
	}
	return out
}

// leader waits for a node that leads.
func (c *testCluster) leader() *Node {
	c.t.Helper()
	var lead *Node
	eventually(c.t, 15*time.Second, "a leader", func() bool {
		for _, n := range c.nodes {
			if n.notLeading() == nil {
				lead = n
				return true
			}
		}
		return false
	})
	return lead
}

// lastIndex is the furthest end of a log among the running nodes. A node that was
// stopped just before cannot have got further: what it had was the leader's, and
// entries that no fold brought about, such as digests, are counted too.
func (c *testCluster) lastIndex() (last uint64) {
	for _, n := range c.nodes {
		last = max(last, n.engine().raft.Load().LastIndex())
	}
	return last
}

func (c *testCluster) follower() *Node {
	c.t.Helper()
	lead := c.leader()
	for _, n := range c.nodes {
		if n != lead {
			return n
		}
	}
	c.t.Fatal("no follower")
	return nil
}

func (c *testCluster) waitVoters(n *Node, want int) {
	c.t.Helper()
	eventually(c.t, 60*time.Second, fmt.Sprintf("%d voters at %s", want, n.ID()), func() bool {
		voters := 0
		for _, s := range n.Status().Servers {
			if s.Voter {
				voters++
			}
		}
		return voters == want
	})
}

// waitEqual waits until all nodes hold the same chain of the stream, and checks
// it on each.
func (c *testCluster) waitEqual(stream evtlog.StreamName, lsn uint64) {
	c.t.Helper()
	eventually(c.t, 60*time.Second, fmt.Sprintf("equal chains at LSN %d", lsn), func() bool {
		var chain [32]byte
		for i, n := range c.list() {
			h := headOn(n, stream)
			if h.LSN < lsn || i > 0 && h.Chain != chain {
				return false
			}
			chain = h.Chain
		}
		return true
	})
	for _, n := range c.nodes {
		findings, err := n.verify(context.Background(), evtlog.StreamName{})
		if err != nil {
			c.t.Fatalf("verify %s: %v", n.ID(), err)
		}
		for _, f := range findings {
			if !f.Ok {
				c.t.Errorf("%s: %s: %s", n.ID(), f.What, f.Detail)
			}
		}
	}
}

func (c *testCluster) list() []*Node {
	var out []*Node
	for _, n := range c.nodes {
		out = append(out, n)
	}
	return out
}

type headInfo struct {
	LSN    uint64
	Chain  [32]byte
	Parked string
}

func headOn(n *Node, stream evtlog.StreamName) headInfo {
	for _, v := range n.Status().Volumes {
		if v.Stream == stream {
			return headInfo{LSN: v.LSN, Chain: v.Chain, Parked: v.Parked}
		}
	}
	return headInfo{}
}

// client returns a client of all nodes.
func (c *testCluster) client() *client.Client {
	c.t.Helper()
	cl, err := client.New(client.Config{Addresses: c.httpAddresses(), Cluster: "test", Token: c.anyConfig().Token})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = cl.Close() })
	return cl
}

func (c *testCluster) anyConfig() Config {
	for _, cfg := range c.cfgs {
		return cfg
	}
	return Config{}
}

func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(within)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("no %s within %s", what, within)
		}
		<-tick.C
	}
}

// writer folds made-up records and remembers what was acknowledged.
type writer struct {
	stream evtlog.StreamName
	arch   archive.Archive
	w      evtid.ID
	n      int
	size   int
	acked  []evtid.ID
}

func (w *writer) records(count int) []evtlog.Record {
	out := make([]evtlog.Record, count)
	for i := range out {
		id, err := evtid.Make(evtid.EpochMillis+int64(w.n)+1, 1, 0)
		if err != nil {
			panic(err)
		}
		w.n++
		body := make([]byte, w.size)
		for j := range body {
			body[j] = byte('a' + (w.n+j)%26)
		}
		out[i] = evtlog.Record{ID: id, Fields: []evtlog.Field{evtlog.F("n", fmt.Sprint(w.n)), evtlog.F("body", string(body))}}
	}
	return out
}

// fold folds count records in one commit.
func (w *writer) fold(ctx context.Context, count int) error {
	recs := w.records(count)
	next, err := w.arch.Fold(ctx, w.stream, w.w, recs)
	if err != nil {
		w.n -= count
		return err
	}
	for _, r := range recs {
		w.acked = append(w.acked, r.ID)
	}
	w.w = next
	return nil
}

func (w *writer) mustFold(t *testing.T, commits, count int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	for range commits {
		if err := w.fold(ctx, count); err != nil {
			t.Fatalf("fold: %v", err)
		}
	}
}

// check reads the stream and compares it with what was acknowledged: nothing
// missing, nothing twice, nothing else.
func (w *writer) check(t *testing.T, arch archive.Archive) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	i := 0
	for rec, err := range arch.Read(ctx, w.stream, archive.Range{AtLeast: w.w}) {
		if err != nil {
			t.Fatalf("read after %d records: %v", i, err)
		}
		if i >= len(w.acked) || rec.ID != w.acked[i] {
			t.Fatalf("record %d is %s, which was not acknowledged there", i, rec.ID)
		}
		i++
	}
	if i != len(w.acked) {
		t.Fatalf("read %d records, %d were acknowledged", i, len(w.acked))
	}
}
