package publisher_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/publisher"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/faultproxy"
	"github.com/evtlog/evtlog/internal/redistest"
)

// Under load, a replica that lacks the tail is promoted again and again. Every
// committed record is in the stream once, or in the range of a reported loss, and
// nothing that stands in the stream is called lost.
func TestFailoverToAReplicaThatLacksTheTail(t *testing.T) {
	const callers, failovers = 16, 3
	primary, replica := redistest.Start(t, "--repl-diskless-sync-delay", "0"), redistest.Start(t, "--repl-diskless-sync-delay", "0")
	proxy := faultproxy.Start(t, primary.Addr)
	b := start(t, proxy.URL(), publisher.Config{}, nil)
	var l ledger
	var done atomic.Bool
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for n := 0; !done.Load(); n++ {
				l.append(t, b, fmt.Sprintf("%d.%d", c, n))
			}
		})
	}
	appendMore := func() {
		before := b.Stats().Appended
		await(t, "appends go on", func() bool { return b.Stats().Appended > before+300 })
	}
	for range failovers {
		host, port, _ := strings.Cut(primary.Addr, ":")
		replica.Do("REPLICAOF", host, port)
		await(t, "the replica follows", func() bool { return strings.Contains(replica.Do("INFO", "replication"), "master_link_status:up") })
		appendMore()
		replica.Do("REPLICAOF", "NO", "ONE")
		appendMore()
		proxy.Retarget(replica.Addr)
		proxy.CutAll()
		primary, replica = replica, primary
		appendMore()
	}
	done.Store(true)
	wg.Wait()
	b.stop(t)
	found := map[evtid.ID]string{}
	for _, r := range stored(t, client(t, primary.URL()).Log(feedStream(t))) {
		found[r.ID], _ = r.Get("k")
		if l.committed[found[r.ID]] != r.ID {
			t.Errorf("the stream has %s under %s; its caller was told %s", found[r.ID], r.ID, l.committed[found[r.ID]])
		}
	}
	losses := seen[evtlog.Lost](&b.journal)
	if len(losses) != failovers {
		t.Errorf("%d losses were reported, want one for each failover: %+v", len(losses), losses)
	}
	lost := 0
	for key, id := range l.committed {
		gone := false
		for _, r := range losses {
			gone = gone || r.After.Less(id) && !r.To.Less(id)
		}
		if gone {
			lost++
		}
		if _, live := found[id]; live == gone {
			t.Errorf("%s under %s: in the stream is %v, reported as lost is %v", key, id, live, gone)
		}
	}
	if lost == 0 {
		t.Error("nothing was lost: the replicas did not lag")
	}
}
