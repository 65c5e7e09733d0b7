package replica

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/archive/replica/client"
	pb "github.com/evtlog/evtlog/archive/replica/replicapb"
	"github.com/evtlog/evtlog/evtid"
)

// soakTime is short unless EVTLOG_SOAK says otherwise, such as "10m".
func soakTime(t *testing.T) time.Duration {
	s := os.Getenv("EVTLOG_SOAK")
	if s == "" {
		return 15 * time.Second
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatalf("EVTLOG_SOAK: %v", err)
	}
	return d
}

func soakSeed(t *testing.T) uint64 {
	seed := rand.Uint64()
	if s := os.Getenv("EVTLOG_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("EVTLOG_SEED: %v", err)
		}
	}
	t.Logf("seed %d (repeat with EVTLOG_SEED)", seed)
	return seed
}

// TestSIGKILL kills the leader and followers of a cluster of processes in random
// order while clients fold, and then compares every node with what was
// acknowledged.
func TestSIGKILL(t *testing.T) {
	t.Parallel()
	seed := soakSeed(t)
	rnd := rand.New(rand.NewPCG(seed, 1))
	nodes, addrs := processCluster(t)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	writers := make([]*soakWriter, 3)
	for i := range writers {
		w := newSoakWriter(t, addrs, i, rand.New(rand.NewPCG(seed, uint64(i)+2)))
		writers[i] = w
		wg.Go(func() { w.run(ctx) })
	}
	kills, leaderKills := 0, 0
	end := time.Now().Add(soakTime(t))
	for time.Now().Before(end) {
		victim := nodes[rnd.IntN(len(nodes))]
		if rnd.IntN(2) == 0 {
			victim = leaderOf(t, nodes, victim)
			leaderKills++
		}
		victim.kill()
		kills++
		pauseFor(time.Duration(rnd.IntN(900)) * time.Millisecond)
		victim.start()
		pauseFor(time.Duration(300+rnd.IntN(900)) * time.Millisecond)
	}
	cancel()
	wg.Wait()
	acked, uncertain := 0, 0
	var worst time.Duration
	for _, w := range writers {
		acked += w.folds
		uncertain += w.uncertain
		worst = max(worst, w.worst)
	}
	t.Logf("%d kills (%d of the leader), %d folds acknowledged, %d uncertain and settled, longest fold %s", kills, leaderKills, acked, uncertain, worst)
	if acked == 0 {
		t.Fatal("nothing was acknowledged")
	}
	for _, w := range writers {
		for _, n := range nodes {
			w.checkNode(t, n)
		}
	}
	checkChainsEqual(t, addrs, writers)
}

// processCluster starts three nodes in processes of their own and waits until all
// of them vote.
func processCluster(t *testing.T) (nodes []*child, addrs []string) {
	t.Helper()
	first := newChild(t, childConfig{ID: "a", Raft: "127.0.0.1:0", HTTP: "127.0.0.1:0", Bootstrap: true})
	nodes = []*child{first}
	for _, id := range []string{"b", "c"} {
		nodes = append(nodes, newChild(t, childConfig{ID: id, Raft: "127.0.0.1:0", HTTP: "127.0.0.1:0", Peers: []string{first.cfg.HTTP}}))
	}
	for _, n := range nodes {
		addrs = append(addrs, n.cfg.HTTP)
	}
	for _, n := range nodes {
		n.cfg.Peers = addrs
	}
	waitProcessVoters(t, addrs, 3)
	return nodes, addrs
}

// pauseFor is the rhythm of the test, not a wait for something.
func pauseFor(d time.Duration) { <-time.After(d) }

// soakWriter folds into one stream through the client and keeps the history.
type soakWriter struct {
	w         writer
	c         *client.Client
	rnd       *rand.Rand
	t         *testing.T
	folds     int
	uncertain int
	worst     time.Duration
	seen      evtid.ID
}

func newSoakWriter(t *testing.T, addrs []string, i int, rnd *rand.Rand) *soakWriter {
	c, err := client.New(client.Config{Addresses: addrs, CallTimeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	stream := evtlog.StreamName{Queue: "soak", Name: fmt.Sprint("s", i)}
	return &soakWriter{w: writer{stream: stream, arch: c, size: 200}, c: c, rnd: rnd, t: t}
}

func (s *soakWriter) run(ctx context.Context) {
	for ctx.Err() == nil {
		recs := s.w.records(1 + s.rnd.IntN(50))
		began := time.Now()
		if !s.settle(recs) {
			return
		}
		s.worst = max(s.worst, time.Since(began))
		s.folds++
		for _, r := range recs {
			s.w.acked = append(s.w.acked, r.ID)
		}
		s.w.w = recs[len(recs)-1].ID
		if s.rnd.IntN(20) == 0 {
			s.watermark()
		}
	}
}

// settle folds until the outcome is certain, and it can only be success: nobody
// else folds into the stream.
func (s *soakWriter) settle(recs []evtlog.Record) bool {
	for range 100 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(50+s.rnd.IntN(3000))*time.Millisecond)
		_, err := s.c.Fold(ctx, s.w.stream, s.w.w, recs)
		cancel()
		switch {
		case err == nil:
			return true
		case errors.Is(err, api.ErrUncertain):
			s.uncertain++
		case errors.Is(err, api.ErrNoLeader):
		default:
			s.t.Errorf("fold into %s: %v", s.w.stream, err)
			return false
		}
	}
	s.t.Errorf("fold into %s was never settled", s.w.stream)
	return false
}

// watermark checks that what a client is told never goes back.
func (s *soakWriter) watermark() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	w, err := s.c.Watermark(ctx, s.w.stream)
	if err != nil {
		return
	}
	if w != s.w.w || w.Less(s.seen) {
		s.t.Errorf("watermark of %s is %s; acknowledged was %s, seen before %s", s.w.stream, w, s.w.w, s.seen)
	}
	s.seen = w
}

func (s *soakWriter) checkNode(t *testing.T, n *child) {
	t.Helper()
	c, err := client.New(client.Config{Addresses: []string{n.cfg.HTTP}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s.w.check(t, c)
}

func statusOf(addr string) *pb.StatusResponse {
	c := pb.NewArchiveServiceClient(httpForTests, "http://"+addr)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	res, err := c.Status(ctx, connect.NewRequest(&pb.StatusRequest{}))
	if err != nil {
		return &pb.StatusResponse{}
	}
	return res.Msg
}

func waitProcessVoters(t *testing.T, addrs []string, want int) {
	t.Helper()
	eventually(t, 30*time.Second, "voters", func() bool {
		for _, a := range addrs {
			voters := 0
			for _, s := range statusOf(a).GetServers() {
				if s.GetVoter() {
					voters++
				}
			}
			if voters != want {
				return false
			}
		}
		return true
	})
}

// leaderOf returns the node that leads now, or otherwise when there is none.
func leaderOf(t *testing.T, nodes []*child, otherwise *child) *child {
	t.Helper()
	for _, n := range nodes {
		if statusOf(n.cfg.HTTP).GetState() == stateLeader {
			return n
		}
	}
	return otherwise
}

func checkChainsEqual(t *testing.T, addrs []string, writers []*soakWriter) {
	t.Helper()
	for _, w := range writers {
		var chain []byte
		for i, a := range addrs {
			for _, h := range statusOf(a).GetHeads() {
				if api.StreamFromWire(h.GetStream()) != w.w.stream {
					continue
				}
				if i > 0 && string(h.GetChain()) != string(chain) {
					t.Errorf("chain of %s on %s differs", w.w.stream, a)
				}
				chain = h.GetChain()
				if h.GetCount() != uint64(len(w.w.acked)) {
					t.Errorf("%s on %s has %d records, %d were acknowledged", w.w.stream, a, h.GetCount(), len(w.w.acked))
				}
			}
		}
	}
}

var _ archive.Archive = (*client.Client)(nil)
