package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/redislog"
	"github.com/evtlog/evtlog/runtime"
)

// TestRewoundGroupIsGivenEverythingAgain: a server that comes back with an older
// state of a group, as after a failover, or an operator, sets its position back.
// Everything above it is delivered again, in order and under the same ids, and
// nothing is skipped.
func TestRewoundGroupIsGivenEverythingAgain(t *testing.T) {
	srv := redistest.Start(t)
	_, log := oneStream(t, srv, runtime.Stream{})
	ids := appendN(t, log, 50)
	var got deliveries
	start(t, consumerConfig(srv, "m1", got.handle))
	finished(t, srv, "g")
	srv.Do("XGROUP", "SETID", key, "g", ids[9].Entry())
	eventually(t, 10*time.Second, "the rest is delivered again", func() bool { return len(got.ids()) == 90 })
	ids = append(ids, appendN(t, log, 5)...)
	eventually(t, 10*time.Second, "and what is new", func() bool { return len(got.ids()) == 95 })
	finished(t, srv, "g")
	want := slices.Concat(ids[:50], ids[10:50], ids[50:])
	if !slices.Equal(got.ids(), want) {
		t.Errorf("delivered %v", got.ids())
	}
}

// TestTrimmedStreamSurvivesReloads: after hard trims, and with a stream that was
// trimmed to nothing, a snapshot and a rewritten append-only file are loaded
// again, and every record, the group and the order of ids are as they were.
func TestTrimmedStreamSurvivesReloads(t *testing.T) {
	for how, reload := range map[string]func(srv *redistest.Server){
		"snapshot": func(srv *redistest.Server) { srv.Do("DEBUG", "RELOAD") },
		"append-only file": func(srv *redistest.Server) {
			srv.Do("BGREWRITEAOF")
			eventually(t, 10*time.Second, "the file is rewritten", func() bool { return !rewriting(srv) })
			srv.Kill()
			srv.Restart()
		},
	} {
		for kept, retention := range map[string]evtlog.Keep{"some": evtlog.KeepLast(10), "nothing": evtlog.KeepFor(time.Millisecond)} {
			t.Run(how+", kept "+kept, func(t *testing.T) {
				srv := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
				store := openVolume(t)
				declared := runtime.Stream{Queue: queue, Name: name, Retention: retention, Durability: runtime.Commit, Archive: store}
				cfg := runtime.Config{Redis: redislog.Config{URL: srv.URL()}, Node: 1, Streams: []runtime.Stream{declared}}
				var ids []evtid.ID
				for round := range 3 {
					rt, err := runtime.Start(testContext(t), cfg)
					if err != nil {
						t.Fatal(err)
					}
					log, err := rt.Stream(queue, name)
					if err != nil {
						t.Fatal(err)
					}
					more := appendN(t, log, 40)
					if round > 0 && !ids[len(ids)-1].Less(more[0]) {
						t.Errorf("%s was appended behind %s", more[0], ids[len(ids)-1])
					}
					ids = append(ids, more...)
					if round == 0 {
						srv.Do("XGROUP", "CREATE", key, "late", "0")
					}
					<-time.After(2 * time.Millisecond) // older than KeepFor
					if err := log.Sweep(testContext(t)); err != nil {
						t.Fatal(err)
					}
					if n, want := srv.Do("XLEN", key), fmt.Sprintf(":%d", retention.Last); n != want {
						t.Fatalf("%s entries are live, want %s", n, want)
					}
					stop(t, rt)
					reload(srv)
				}
				_, log := oneStream(t, srv, declared)
				records := collect(t, log, evtlog.Window{})
				if len(records) != len(ids) {
					t.Errorf("%d records are readable of %d", len(records), len(ids))
				}
				l := newLedger()
				member(t, srv, "late", store, time.Second, l, func(evtlog.Delivery) {})
				finished(t, srv, "late")
				l.check(t, ids)
			})
		}
	}
}

// rewriting reports whether the server is writing its append-only file anew, or
// is about to.
func rewriting(srv *redistest.Server) bool {
	info := srv.Do("INFO", "persistence")
	return !strings.Contains(info, "aof_rewrite_in_progress:0") || !strings.Contains(info, "aof_rewrite_scheduled:0")
}
