package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/streamconsumer"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/faultproxy"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/redislog"
	"github.com/evtlog/evtlog/runtime"
)

// failover is a primary and its replica behind one address, and a runtime that
// writes and consumes there.
type failover struct {
	t                *testing.T
	primary, replica *redistest.Server
	proxy            *faultproxy.Proxy
	log              *runtime.Log

	mu      sync.Mutex
	handled map[evtid.ID]int
	lost    []evtlog.Lost
}

func newFailover(t *testing.T, s runtime.Stream) *failover {
	t.Helper()
	f := &failover{t: t, primary: redistest.Start(t), replica: redistest.Start(t), handled: map[evtid.ID]int{}}
	host, port, _ := strings.Cut(f.primary.Addr, ":")
	f.replica.Do("REPLICAOF", host, port)
	eventually(t, 30*time.Second, "the replica follows", func() bool {
		return strings.Contains(f.replica.Do("INFO", "replication"), "master_link_status:up")
	})
	f.proxy = faultproxy.Start(t, f.primary.Addr)
	s.Queue, s.Name = queue, name
	rt := start(t, runtime.Config{
		Redis: redislog.Config{URL: f.proxy.URL()}, Node: 1, Streams: []runtime.Stream{s},
		Consumers: []runtime.Consumer{{
			Queue: queue, Stream: name, Group: "g", Name: "m", Start: streamconsumer.FromHead,
			Handler: func(_ context.Context, d evtlog.Delivery) error {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.handled[d.ID]++
				return nil
			},
		}},
		Observer: func(e evtlog.Event) {
			if l, ok := e.(evtlog.Lost); ok {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.lost = append(f.lost, l)
			}
		},
	})
	var err error
	if f.log, err = rt.Stream(queue, name); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *failover) append(n int) (ids []evtid.ID) {
	f.t.Helper()
	for i := range n {
		id, err := f.log.Append(testContext(f.t), evtlog.F("v", fmt.Sprint(i)))
		if err != nil {
			f.t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// replicated waits until the replica has everything.
func (f *failover) replicated(last evtid.ID) {
	f.t.Helper()
	eventually(f.t, 30*time.Second, "the replica has caught up", func() bool {
		return f.replica.Do("XRANGE", key, last.Entry(), last.Entry()) == "*1"
	})
}

// part takes the replica off the primary, which goes on alone.
func (f *failover) part() { f.replica.Do("REPLICAOF", "NO", "ONE") }

// promote lets clients find the replica where the primary was.
func (f *failover) promote() {
	f.proxy.Retarget(f.replica.Addr)
	f.proxy.CutAll()
}

func (f *failover) handledAll(ids []evtid.ID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !slices.ContainsFunc(ids, func(id evtid.ID) bool { return f.handled[id] == 0 })
}

// TestFailoverThrowsRecordsAway: the old primary acknowledges records that the
// new one never had. They are reported as lost, in one range that holds them and
// nothing else, and what is appended next goes above them and reaches the group.
func TestFailoverThrowsRecordsAway(t *testing.T) {
	f := newFailover(t, runtime.Stream{})
	kept := f.append(50)
	f.replicated(kept[49])
	f.part()
	thrown := f.append(20)
	f.promote()
	next := f.append(30)
	if !thrown[19].Less(next[0]) {
		t.Errorf("%s is not above the lost %s", next[0], thrown[19])
	}
	eventually(t, 30*time.Second, "the rest is handled", func() bool { return f.handledAll(kept) && f.handledAll(next) })
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.lost) != 1 || f.lost[0].Group != "" || f.lost[0].After != kept[49] || f.lost[0].To != thrown[19] {
		t.Errorf("reported as lost: %+v; want (%s, %s]", f.lost, kept[49], thrown[19])
	}
}

// TestFailoverWithReplicas: a writer that waits for a replica is not told that a
// record is committed which only the old primary has.
func TestFailoverWithReplicas(t *testing.T) {
	f := newFailover(t, runtime.Stream{Replicas: 1})
	kept := f.append(10)
	f.part()
	ctx, cancel := context.WithTimeout(testContext(t), 2*time.Second)
	defer cancel()
	id, err := f.log.Append(ctx, evtlog.F("v", "alone"))
	var few *evtlog.NotReplicatedError
	if !errors.As(err, &few) || few.Want != 1 || few.Got != 0 || few.ID != id {
		t.Errorf("appended without a replica: %s, %v", id, err)
	}
	for _, id := range kept {
		if f.replica.Do("XRANGE", key, id.Entry(), id.Entry()) != "*1" {
			t.Errorf("%s was committed and is not on the replica", id)
		}
	}
}
