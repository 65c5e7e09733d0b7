package integration

import (
	"context"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/runtime"
)

// TestFlushedStreamIsHandledFromTheArchive empties the server under a consumer
// that is behind, when everything is archived: what it had not been given, and
// what a group that is made only now has never seen, comes from the archive.
func TestFlushedStreamIsHandledFromTheArchive(t *testing.T) {
	srv := redistest.Start(t)
	store := openVolume(t)
	_, log := oneStream(t, srv, runtime.Stream{Durability: runtime.Commit, Archive: store})
	ids := appendN(t, log, 60)
	eventually(t, 10*time.Second, "everything archived", func() bool {
		w, err := log.Watermark(testContext(t))
		return err == nil && w == ids[59]
	})
	var slow, late deliveries
	follow := func(group, member string, got *deliveries, pause time.Duration) {
		cfg := consumerConfig(srv, member, func(ctx context.Context, d evtlog.Delivery) error {
			<-time.After(pause)
			return got.handle(ctx, d)
		})
		cfg.Consumers[0].Group, cfg.Consumers[0].Archive, cfg.Consumers[0].Count = group, store, 5
		start(t, cfg)
	}
	follow("slow", "m1", &slow, 5*time.Millisecond)
	eventually(t, 10*time.Second, "the first deliveries", func() bool { return len(slow.ids()) > 5 })
	srv.Do("FLUSHALL")
	follow("late", "m2", &late, 0)
	newest := appendN(t, log, 1)[0]
	for group, got := range map[string]*deliveries{"slow": &slow, "late": &late} {
		eventually(t, 20*time.Second, "all records in group "+group, func() bool {
			seen := map[evtid.ID]bool{}
			for _, id := range got.ids() {
				seen[id] = true
			}
			return len(seen) == 61 && seen[newest]
		})
	}
}
