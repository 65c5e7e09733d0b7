package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive/replica"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/redislog"
	"github.com/evtlog/evtlog/runtime"
)

const (
	// lateRate is how many records per second are appended, hotWindow how many
	// stay live.
	lateRate  = 5000
	hotWindow = 1000
	// lateIdle is how long a silent member keeps its entries.
	lateIdle = time.Second
)

var lateGroups = []string{"g1", "g2"}

// TestLateGroupsReadTheArchive kills three processes, each a member of two
// groups, at random moments, while the archiver keeps only a thousand records
// live: less than what comes while a member starts. Each group handles every
// record all the same, nothing stays pending, and no record is handled by two
// live members at a time.
func TestLateGroupsReadTheArchive(t *testing.T) {
	node := startNode(t)
	d := newDrill(t, runtime.Stream{
		Retention: evtlog.KeepLast(hotWindow), Durability: runtime.Window(100), Archive: node.Archive(),
	}, node.Address().HTTP)
	d.run()
	for _, g := range lateGroups {
		f := d.history.check(t, g, d.appended, false)
		t.Logf("group %s: %d calls, %d again, %d records from the archive, overlaps: %d, %d at a frozen process",
			g, f.runs, f.again, f.recovered, f.overlaps, f.froze)
		if f.recovered == 0 {
			t.Errorf("group %s was never late; the test has shown nothing", g)
		}
	}
}

// TestLateGroupsLoseWhatTheyAreTold does the same without an archive. What a
// group did not handle is exactly what its members and the trimmer reported.
func TestLateGroupsLoseWhatTheyAreTold(t *testing.T) {
	d := newDrill(t, runtime.Stream{Retention: evtlog.Keep{Last: hotWindow, Exact: true}})
	d.run()
	for _, g := range lateGroups {
		f := d.history.check(t, g, d.appended, true)
		t.Logf("group %s: %d calls, %d again, %d records lost, %d reported as lost that had been handled by a process that was killed then, overlaps: %d, %d at a frozen process",
			g, f.runs, f.again, f.lost, f.lostAndHandled, f.overlaps, f.froze)
		if f.lost == 0 {
			t.Errorf("group %s lost nothing; the test has shown nothing", g)
		}
		// What a process had handled and not acknowledged when it was killed is
		// reported if it is trimmed then: three batches at most. What a live member has
		// in hand is not.
		if most := 3 * lateCount * d.kills; f.lostAndHandled > most {
			t.Errorf("group %s: %d records were reported as lost and handled, more than the %d that %d kills explain", g, f.lostAndHandled, most, d.kills)
		}
	}
}

// startNode starts an archive of one node, which processes can share.
func startNode(t *testing.T) *replica.Node {
	t.Helper()
	node, err := replica.Start(testContext(t), replica.Config{
		Dir: filepath.Join(t.TempDir(), "node"), ID: "a", Cluster: "late", Bootstrap: true,
		RaftListen: "127.0.0.1:0", HTTPListen: "127.0.0.1:0",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := node.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return node
}

// lateCount is how many entries a member reads at once.
const lateCount = 100

// drill is one run of three member processes under fire.
type drill struct {
	t       *testing.T
	rnd     *rand.Rand
	history *history
	log     *runtime.Log
	live    *redislog.Log
	members [3]*memberProcess
	kills   int

	appended []evtid.ID
}

func newDrill(t *testing.T, s runtime.Stream, archiveAt ...string) *drill {
	t.Helper()
	d := &drill{t: t, rnd: random(t), history: newHistory(lateIdle, lateGroups...)}
	srv := redistest.Start(t)
	s.Queue, s.Name = queue, name
	rt := start(t, runtime.Config{
		Redis: redislog.Config{URL: srv.URL()}, Node: 1, Streams: []runtime.Stream{s}, Observer: d.history.trimmed,
	})
	var err error
	if d.log, err = rt.Stream(queue, name); err != nil {
		t.Fatal(err)
	}
	d.live = client(t, srv)
	for i := range d.members {
		d.members[i] = startMember(t, memberConfig{
			URL: srv.URL(), Name: fmt.Sprintf("m%d", i), Node: 10 + i, Groups: lateGroups, Archive: archiveAt,
			MinIdle: lateIdle, Block: 100 * time.Millisecond, Count: lateCount,
		}, d.history.hear)
	}
	for _, m := range d.members {
		m.awaitReady()
	}
	return d
}

// run appends, trims and kills for a while, and then waits until both groups are
// done.
func (d *drill) run() {
	limit, _ := soak(d.t, 8*time.Second)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.sweep(ctx)
	}()
	appending := make(chan struct{})
	go func() {
		defer close(appending)
		d.append(ctx)
	}()
	began := time.Now()
	d.killSome(ctx)
	<-appending
	<-done
	d.t.Logf("%d records appended, %.0f per second, %d kills", len(d.appended), float64(len(d.appended))/time.Since(began).Seconds(), d.kills)
	for i := range d.members {
		d.revive(i)
	}
	d.await()
	for _, m := range d.members {
		m.terminate()
	}
	for _, g := range lateGroups {
		n, _, _, err := d.live.PendingSummary(testContext(d.t), g)
		if err != nil || n != 0 {
			d.t.Errorf("group %s: %d entries are pending at the end, %v", g, n, err)
		}
	}
}

// append keeps to the rate, however late it is.
func (d *drill) append(ctx context.Context) {
	began := time.Now()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		owed := int(time.Since(began).Seconds()*lateRate) - len(d.appended)
		batch := make([][]evtlog.Field, min(max(owed, 0), 500))
		for i := range batch {
			batch[i] = lateRecord(len(d.appended) + i)
		}
		receipts, err := d.log.AppendBatch(context.WithoutCancel(ctx), batch)
		if err != nil {
			d.t.Errorf("append: %v", err)
			return
		}
		for _, r := range receipts {
			d.appended = append(d.appended, r.ID)
		}
		<-tick.C
	}
}

// lateRecord is record n: now and then one whose handler takes longer than an
// entry may lie idle.
func lateRecord(n int) []evtlog.Field {
	fields := []evtlog.Field{evtlog.F("v", fmt.Sprint(n))}
	switch {
	case n%5000 == 2500:
		fields = append(fields, evtlog.F(fieldWork, (lateIdle*13/10).String()))
	case n%500 == 250:
		fields = append(fields, evtlog.F(fieldWork, "5ms"))
	}
	return fields
}

// sweep trims more often than the actor's tick does.
func (d *drill) sweep(ctx context.Context) {
	for ctx.Err() == nil {
		if err := d.log.Sweep(ctx); err != nil && ctx.Err() == nil {
			d.t.Errorf("sweep: %v", err)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// killSome kills a member every now and then. Most come back at once, some stay
// away for a while.
func (d *drill) killSome(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(300+d.rnd.IntN(1500)) * time.Millisecond):
		}
		for i := range d.members {
			d.revive(i)
		}
		for range 1 + d.rnd.IntN(3) {
			victim := d.rnd.IntN(len(d.members))
			if d.members[victim].killed == 0 {
				d.members[victim].kill()
				d.kills++
			}
			if d.rnd.IntN(3) > 0 {
				d.revive(victim)
			}
		}
	}
}

// revive starts a killed member under its name.
func (d *drill) revive(i int) {
	if m := d.members[i]; m.killed != 0 {
		d.members[i] = startMember(d.t, m.cfg, d.history.hear)
	}
}

// await waits until each group has finished the stream. That may take long on a
// busy machine; what it may not do is stand still.
func (d *drill) await() {
	d.t.Helper()
	began := time.Now()
	for _, g := range lateGroups {
		handled, at := -1, time.Now()
		for !d.finished(g) {
			if n := d.history.handledBy(g); n != handled {
				handled, at = n, time.Now()
			}
			if time.Since(at) > time.Minute {
				d.t.Fatalf("group %s stands still at %d of %d records", g, handled, len(d.appended))
			}
			<-time.After(20 * time.Millisecond)
		}
	}
	d.t.Logf("both groups had finished %s after the last append", time.Since(began).Round(time.Millisecond))
}

func (d *drill) finished(group string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	done, err := runtime.CaughtUp(ctx, d.live, group)
	return err == nil && done
}
