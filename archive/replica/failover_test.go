package replica

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive/replica/client"
)

// soaking reports whether the long tests were asked for. Without EVTLOG_SOAK each
// of them runs in a small version.
func soaking() bool { return os.Getenv("EVTLOG_SOAK") != "" }

// TestFailover measures the time from SIGKILL of the leader to the first fold that
// is acknowledged after it, with default settings of nodes and client. 20 kills:
//
//	EVTLOG_SOAK=60s go test -run '^TestFailover$' -v ./archive/replica
func TestFailover(t *testing.T) {
	t.Parallel()
	kills, limit := 3, 15*time.Second
	if soaking() {
		kills, limit = 20, 2*time.Second
	}
	nodes, addrs := processCluster(t)
	cl, err := client.New(client.Config{Addresses: addrs, Logger: testLogger()})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	f := &ticker{w: writer{stream: evtlog.StreamName{Queue: "soak", Name: "failover"}, arch: cl, size: 200}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.run(ctx) }()
	var took []time.Duration
	for range kills {
		f.await(t, time.Now())
		victim := leaderOf(t, nodes, nodes[0])
		at := time.Now()
		victim.kill()
		took = append(took, f.await(t, at).Sub(at))
		victim.start()
		waitProcessVoters(t, addrs, 3)
		pauseFor(500 * time.Millisecond)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	slices.Sort(took)
	p50, worst := took[len(took)/2], took[len(took)-1]
	t.Logf("%d kills of the leader: p50 %s, max %s; all %v", kills, p50, worst, took)
	if worst > limit {
		t.Errorf("the archive took no fold for %s; the limit is %s", worst, limit)
	}
	f.w.check(t, cl)
}

// ticker folds one record after the other and keeps when each was acknowledged.
type ticker struct {
	w  writer
	mu sync.Mutex
	// begun and acked are the times of the last acknowledged fold.
	begun, acked time.Time
}

func (f *ticker) run(ctx context.Context) error {
	for ctx.Err() == nil {
		begun := time.Now()
		fold, cancel := context.WithTimeout(context.WithoutCancel(ctx), 60*time.Second)
		err := f.w.fold(fold, 1)
		cancel()
		if err != nil {
			return err
		}
		f.mu.Lock()
		f.begun, f.acked = begun, time.Now()
		f.mu.Unlock()
		pauseFor(2 * time.Millisecond)
	}
	return nil
}

// await waits for a fold that was begun after a time, or that was in hand then
// and took so long that it cannot have been answered by the node that was killed.
func (f *ticker) await(t *testing.T, at time.Time) (acked time.Time) {
	t.Helper()
	eventually(t, 60*time.Second, "fold", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		acked = f.acked
		return f.begun.After(at) || f.acked.Sub(at) > 100*time.Millisecond
	})
	return acked
}
