package publisher_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/publisher"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/actors/supervise/supervisetest"
	"github.com/evtlog/evtlog/feed"
	"github.com/evtlog/evtlog/internal/faultproxy"
	"github.com/evtlog/evtlog/internal/redistest"
)

const job = "JOB0KHTOWnGLuC"

func TestStress(t *testing.T) {
	c := client(t, redistest.Start(t).URL())
	supervisetest.StressRunner(t, func() supervise.Spec {
		p, err := publisher.New(publisher.Config{Stream: feedStream(t)}, c.Log(feedStream(t)), nil)
		if err != nil {
			t.Fatal(err)
		}
		return p.Spec()
	})
}

// Appends before the start wait for it; those after the stop are refused.
func TestAppendBeforeStartAndAfterStop(t *testing.T) {
	server := redistest.Start(t)
	p, err := publisher.New(publisher.Config{Stream: feedStream(t)}, client(t, server.URL()).Log(feedStream(t)), nil)
	if err != nil {
		t.Fatal(err)
	}
	early := make(chan error, 1)
	go func() {
		_, err := p.Append(within(t), evtlog.F("k", "early"))
		early <- err
	}()
	await(t, "it waits", func() bool { return p.Stats().Queued == 1 })
	system := supervise.NewSystem(supervise.Config{})
	if _, err := system.Branch(within(t), "b", p.Spec()); err != nil {
		t.Fatal(err)
	}
	if err := <-early; err != nil {
		t.Errorf("the early append: %v", err)
	}
	if err := system.Stop(within(t)); err != nil {
		t.Error(err)
	}
	if _, err := p.Append(within(t), evtlog.F("k", "late")); !errors.Is(err, evtlog.ErrStopped) {
		t.Errorf("the late append: %v", err)
	}
}

// The same publisher runs again after a stop, any number of times.
func TestStartAgain(t *testing.T) {
	server := redistest.Start(t)
	p, err := publisher.New(publisher.Config{Stream: feedStream(t)}, client(t, server.URL()).Log(feedStream(t)), nil)
	if err != nil {
		t.Fatal(err)
	}
	system := supervise.NewSystem(supervise.Config{})
	for range 30 {
		branch, err := system.Branch(within(t), "b", p.Spec())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Append(within(t), evtlog.F("k", "v")); err != nil {
			t.Fatalf("append: %v", err)
		}
		if err := branch.Stop(within(t)); err != nil {
			t.Errorf("stop: %v", err)
		}
	}
	if err := system.Stop(within(t)); err != nil {
		t.Error(err)
	}
}

// There never was a server: the publisher is degraded, callers wait as long as
// they like, and the stop is quick and clean.
func TestStopBeforeTheServerWasReached(t *testing.T) {
	server := redistest.Start(t)
	p, err := publisher.New(publisher.Config{Stream: feedStream(t)}, client(t, server.URL()).Log(feedStream(t)), nil)
	if err != nil {
		t.Fatal(err)
	}
	server.Kill()
	var j journal
	system := supervise.NewSystem(supervise.Config{Observer: j.observe})
	started := make(chan error, 1)
	go func() {
		_, err := system.Branch(within(t), "b", p.Spec())
		started <- err
	}()
	await(t, "it is degraded", func() bool {
		tree := system.Tree()
		return len(tree) == 2 && tree[1].State == evtlog.Degraded && errors.Is(tree[1].Err, evtlog.ErrUnavailable)
	})
	waiting := make(chan error, 1)
	go func() {
		_, err := p.Append(within(t), evtlog.F("k", "v"))
		waiting <- err
	}()
	await(t, "it waits", func() bool { return p.Stats().Queued == 1 })
	begin := time.Now()
	if err := system.Stop(within(t)); err != nil || time.Since(begin) > 5*time.Second {
		t.Errorf("the stop took %s: %v", time.Since(begin), err)
	}
	for _, err := range []error{<-started, <-waiting} {
		if !errors.Is(err, evtlog.ErrStopped) {
			t.Errorf("got %v", err)
		}
	}
}

// What was queued before the stop is written, and its announcements are out.
func TestStopFlushes(t *testing.T) {
	const calls = 200
	server := redistest.Start(t)
	b := running(t, server, publisher.Config{MaxBatch: 8})
	sub, err := client(t, server.URL()).Subscribe(within(t), "cm")
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	var wg sync.WaitGroup
	var mu sync.Mutex
	committed := map[string]bool{}
	server.Pause()
	for i := range calls {
		wg.Go(func() {
			id, err := b.Announce(within(t), "scored", job, evtlog.F("n", fmt.Sprint(i)))
			if err != nil {
				t.Errorf("announce: %v", err)
				return
			}
			mu.Lock()
			committed[id.String()] = true
			mu.Unlock()
		})
	}
	charged := 0
	for i := range calls {
		fields := []evtlog.Field{evtlog.F("event", "scored"), evtlog.F("job", job), evtlog.F("n", fmt.Sprint(i))}
		charged += evtlog.Size(fields) + publisher.RecordOverhead + 3*publisher.FieldOverhead
	}
	await(t, "all are queued or sent", func() bool { return b.Stats().QueuedBytes == charged })
	stopped := make(chan error, 1)
	go func() { stopped <- b.system.Stop(within(t)) }()
	await(t, "new appends are refused", func() bool {
		// Withdrawn, as long as it is admitted: the pump waits for the server.
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := b.Append(ctx, evtlog.F("k", "v"))
		return errors.Is(err, evtlog.ErrStopped)
	})
	server.Resume()
	if err := <-stopped; err != nil {
		t.Errorf("stop: %v", err)
	}
	wg.Wait()
	var before string
	for range calls {
		payload, err := sub.Receive(within(t))
		if err != nil {
			t.Fatal(err)
		}
		a, err := feed.Decode(payload)
		if err != nil || !committed[a.ID.String()] || a.Event != "scored" || a.Job != job || a.Prev.String() != before {
			t.Fatalf("%s: %v; the one before was %q", payload, err, before)
		}
		before = a.ID.String()
		delete(committed, before)
	}
	if len(committed) != 0 {
		t.Errorf("%d records were not announced", len(committed))
	}
	if s := b.Stats(); s.Announced != calls {
		t.Errorf("stats %+v", s)
	}
}

// The server is gone when the stop comes: it ends in time, says how much is
// uncertain, and every caller gets a typed answer.
func TestStopWithoutServer(t *testing.T) {
	server := redistest.Start(t)
	b := running(t, server, publisher.Config{MaxBatch: 1})
	server.Pause()
	const calls = 6
	errs := make([]error, calls)
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() { _, errs[i] = b.Append(within(t), evtlog.F("k", "v")) })
	}
	await(t, "some are sent and the others wait", func() bool {
		s := b.Stats()
		return s.Batches > 0 && int(s.Batches)+s.Queued == calls
	})
	begin := time.Now()
	err := b.system.Stop(within(t))
	if err == nil || time.Since(begin) > 10*time.Second {
		t.Errorf("the stop took %s and said %v; want it to name the uncertain appends", time.Since(begin), err)
	}
	server.Kill()
	wg.Wait()
	uncertain := 0
	for _, err := range errs {
		var doubt *evtlog.UncertainError
		switch {
		case errors.As(err, &doubt):
			uncertain++
		case !errors.Is(err, evtlog.ErrStopped):
			t.Errorf("got %v", err)
		}
	}
	if s := b.Stats(); uncertain < 1 || uint64(uncertain) != s.Uncertain || uncertain+int(s.Rejected) != calls {
		t.Errorf("%d of %d uncertain, counted are %+v", uncertain, calls, s)
	}
}

// An announcement goes out at once after its record's verdict, also when nothing
// follows, and never for a record that was refused.
func TestAnnounce(t *testing.T) {
	server := redistest.Start(t)
	b := running(t, server, publisher.Config{})
	sub, err := client(t, server.URL()).Subscribe(within(t), "cm")
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	first, err := b.Append(within(t), evtlog.F("k", "v"))
	if err != nil {
		t.Fatal(err)
	}
	server.Do("CONFIG", "SET", "maxmemory", "1")
	if _, err := b.Announce(within(t), "refused", job); !errors.Is(err, evtlog.ErrOutOfMemory) {
		t.Errorf("announce at the memory limit: %v", err)
	}
	server.Do("CONFIG", "SET", "maxmemory", "0")
	id, err := b.Announce(within(t), "scored", job, evtlog.F("pct", "83"), evtlog.F("pct", "84"))
	if err != nil {
		t.Fatal(err)
	}
	payload, err := sub.Receive(within(t))
	want := fmt.Sprintf(`{"event":"scored","job":%q,"evt":%q,"prev":%q,"pct":"83","pct":"84"}`, job, id, first)
	if err != nil || string(payload) != want {
		t.Errorf("got %s, %v\nwant %s", payload, err, want)
	}
	got := stored(t, b.log)
	if len(got) != 2 || fmt.Sprint(got[1].Fields) != "[{event scored} {job "+job+"} {pct 83} {pct 84}]" {
		t.Errorf("stored %#v", got)
	}
}

// A connection lost between verdict and announcement: the record is committed,
// and what the subscriber misses it sees as a hole in the prev ids.
func TestAnnouncementsAcrossALostConnection(t *testing.T) {
	server := redistest.Start(t)
	proxy := faultproxy.Start(t, server.Addr)
	b := start(t, proxy.URL(), publisher.Config{}, nil)
	sub, err := client(t, server.URL()).Subscribe(within(t), "cm")
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	var last string
	for i := range 20 {
		if i%5 == 4 {
			proxy.CutAll()
		}
		id, err := b.Announce(within(t), "scored", job)
		if err != nil {
			t.Fatal(err)
		}
		last = id.String()
	}
	heard, holes := 0, 0
	for before := ""; before != last; heard++ {
		payload, err := sub.Receive(within(t))
		if err != nil {
			t.Fatal(err)
		}
		a, err := feed.Decode(payload)
		if err != nil || a.ID.String() <= before {
			t.Fatalf("%s after %s: %v", payload, before, err)
		}
		if a.Prev.String() != before {
			holes++
		}
		before = a.ID.String()
	}
	if missing := 20 - heard; missing > 0 && holes == 0 {
		t.Errorf("%d announcements are missing and no hole shows", missing)
	}
}

func TestReplicas(t *testing.T) {
	primary, replica := redistest.Start(t), redistest.Start(t)
	proxy := faultproxy.Start(t, primary.Addr)
	b := start(t, proxy.URL(), publisher.Config{Replicas: 1, ReplicaTimeout: 100 * time.Millisecond}, nil)
	lonely, err := b.Append(within(t), evtlog.F("k", "1"))
	var few *evtlog.NotReplicatedError
	if !errors.As(err, &few) || few.ID != lonely || lonely.IsZero() || few.Want != 1 || few.Got != 0 {
		t.Errorf("append without a replica: %s, %v", lonely, err)
	}
	host, port, err := net.SplitHostPort(primary.Addr)
	if err != nil {
		t.Fatal(err)
	}
	replica.Do("REPLICAOF", host, port)
	await(t, "the replica follows", func() bool {
		_, err := b.Append(within(t), evtlog.F("k", "2"))
		return err == nil
	})
	receipts, err := b.AppendBatch(within(t), [][]evtlog.Field{{evtlog.F("k", "3")}, {evtlog.F("k", "4")}})
	if err != nil || len(receipts) != 2 {
		t.Errorf("batch with a replica: %v, %v", receipts, err)
	}
	// The answers to the append pass, the one to WAIT is lost: the record is
	// found again, and how many replicas have it is unknown.
	proxy.Swallow(1, 1)
	if id, err := b.Append(within(t), evtlog.F("k", "5")); !errors.As(err, &few) || few.Got != -1 || few.ID != id {
		t.Errorf("append whose WAIT was lost: %s, %v", id, err)
	}
	if records := stored(t, b.log); records[0].ID != lonely {
		t.Errorf("the under-replicated record is not in the stream: %#v", records[0])
	}
}
