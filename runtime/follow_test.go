package runtime_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/streamconsumer"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/archivetest"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/faultproxy"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/redislog"
	"github.com/evtlog/evtlog/runtime"
)

// TestFollow reads a backlog from archive and live stream, the signal, and what
// is appended after it, announced or not, while the subscription is cut.
func TestFollow(t *testing.T) {
	srv := redistest.Start(t)
	rt := start(t, runtime.Config{
		Redis: redislog.Config{URL: srv.URL()},
		Streams: []runtime.Stream{{
			Queue: "q", Name: "s", Retention: evtlog.KeepLast(5), Durability: runtime.Commit, Archive: archivetest.NewMemory(),
		}},
	})
	ctx := bounded(t)
	log, err := rt.Stream("q", "s")
	if err != nil {
		t.Fatal(err)
	}
	var want []evtid.ID
	appendOne := func() {
		var id evtid.ID
		if len(want)%2 == 0 {
			id, err = log.Append(ctx, evtlog.F("n", fmt.Sprint(len(want))))
		} else {
			id, err = log.Announce(ctx, "e", job, evtlog.F("n", fmt.Sprint(len(want))))
		}
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, id)
	}
	for range 20 {
		appendOne()
	}
	if err := log.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	const skip, live = 3, 10
	next, caughtUp := skip, 0
	for u, err := range rt.Follow(ctx, "q", "s", want[skip-1]) {
		if err != nil {
			t.Fatal(err)
		}
		if u.CaughtUp {
			caughtUp = next
			appendOne()
			continue
		}
		if u.ID != want[next] {
			t.Fatalf("update %d is %s, want %s", next, u.ID, want[next])
		}
		if n, _ := u.Get("n"); n != fmt.Sprint(next) {
			t.Errorf("update %d holds %q", next, n)
		}
		next++
		if caughtUp == 0 {
			continue
		}
		if next == 20+live {
			break
		}
		if next%4 == 0 {
			srv.Do("CLIENT", "KILL", "TYPE", "pubsub")
		}
		appendOne()
	}
	if caughtUp != 20 {
		t.Errorf("the signal came before record %d, want 20", caughtUp)
	}
}

// keepsThree is a stream that keeps three records and has no archive.
func keepsThree(t *testing.T) (*runtime.Runtime, *runtime.Log) {
	t.Helper()
	rt := start(t, runtime.Config{
		Redis:   redislog.Config{URL: redistest.Start(t).URL()},
		Streams: []runtime.Stream{{Queue: "q", Name: "s", Retention: evtlog.Keep{Last: 3, Exact: true}}},
	})
	log, err := rt.Stream("q", "s")
	if err != nil {
		t.Fatal(err)
	}
	return rt, log
}

func appendN(t *testing.T, log *runtime.Log, n int) (ids []evtid.ID) {
	t.Helper()
	for range n {
		id, err := log.Append(bounded(t))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

func TestFollowTellsOfAGap(t *testing.T) {
	rt, log := keepsThree(t)
	ctx := bounded(t)
	ids := appendN(t, log, 10)
	var gap *archive.GapError
	seen, trimmed := 0, false
	for u, err := range rt.Follow(ctx, "q", "s", evtid.ID{}) {
		if err != nil {
			if !errors.As(err, &gap) {
				t.Fatal(err)
			}
			continue
		}
		if u.CaughtUp {
			break
		}
		if seen++; seen == 1 && !trimmed {
			trimmed = true
			if err := log.Sweep(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	if seen < 3 {
		t.Errorf("only %d records were seen", seen)
	}
	// From the first record on, which is gone now.
	for _, err := range rt.Follow(ctx, "q", "s", ids[0]) {
		if !errors.As(err, &gap) || gap.After != ids[0] || gap.To.Less(ids[6]) {
			t.Errorf("after %s and a trim to %s, the follower is told %v", ids[0], ids[6], err)
		}
		break
	}
}

func TestFollowEnds(t *testing.T) {
	srv := redistest.Start(t)
	rt := start(t, runtime.Config{Redis: redislog.Config{URL: srv.URL()}})
	for _, err := range rt.Follow(bounded(t), "a b", "s", evtid.ID{}) {
		var name *keyspace.NameError
		if !errors.As(err, &name) {
			t.Errorf("a bad name: %v", err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	for u, err := range rt.Follow(ctx, "q", "absent", evtid.ID{}) {
		if err != nil || !u.CaughtUp {
			t.Errorf("an empty stream yields %+v, %v", u, err)
		}
	}
}

// TestFollowOverAnOutage kills the server under a follower.
func TestFollowOverAnOutage(t *testing.T) {
	srv := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	rt := start(t, runtime.Config{
		Redis: redislog.Config{URL: srv.URL()}, Streams: []runtime.Stream{{Queue: "q", Name: "s"}},
	})
	ctx := bounded(t)
	log, err := rt.Stream("q", "s")
	if err != nil {
		t.Fatal(err)
	}
	var want []evtid.ID
	add := func() {
		id, err := log.Append(ctx)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, id)
	}
	add()
	next, outages := 0, 0
	for u, err := range rt.Follow(ctx, "q", "s", evtid.ID{}) {
		switch {
		case errors.Is(err, evtlog.ErrUnavailable):
			outages++
			if outages == 1 {
				srv.Restart()
				add()
			}
		case err != nil:
			t.Fatal(err)
		case u.CaughtUp:
			srv.Kill()
		default:
			if u.ID != want[next] {
				t.Fatalf("update %d is %s, want %s", next, u.ID, want[next])
			}
			next++
		}
		if outages > 0 && next == 2 {
			break
		}
	}
}

// TestFollowWithAConsumersArchive follows a stream that another process writes:
// the archive is the one that a consumer here was given for it.
func TestFollowWithAConsumersArchive(t *testing.T) {
	srv := redistest.Start(t)
	arch := archivetest.NewMemory()
	writer := start(t, runtime.Config{
		Redis: redislog.Config{URL: srv.URL()},
		Streams: []runtime.Stream{{
			Queue: "q", Name: "s", Retention: evtlog.KeepLast(2), Durability: runtime.Commit, Archive: arch,
		}},
	})
	ctx := bounded(t)
	log, err := writer.Stream("q", "s")
	if err != nil {
		t.Fatal(err)
	}
	appendN(t, log, 10)
	if err := log.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	reader := start(t, runtime.Config{
		Redis: redislog.Config{URL: srv.URL()}, Node: 1,
		Consumers: []runtime.Consumer{{
			Queue: "q", Stream: "s", Group: "g", Name: "m", Start: streamconsumer.FromNew, Archive: arch,
			Handler: func(context.Context, evtlog.Delivery) error { return nil },
		}},
	})
	seen := 0
	for u, err := range reader.Follow(ctx, "q", "s", evtid.ID{}) {
		if err != nil {
			t.Fatal(err)
		}
		if u.CaughtUp {
			break
		}
		seen++
	}
	if seen != 10 {
		t.Errorf("%d of 10 records were followed", seen)
	}
}

// TestFollowTellsOfAGapBetweenReads trims what is appended while the receiver
// holds the newest record in hand, so that the next read begins above a gap.
func TestFollowTellsOfAGapBetweenReads(t *testing.T) {
	rt, log := keepsThree(t)
	ctx := bounded(t)
	ids := appendN(t, log, 1)
	var gap *archive.GapError
	var got []evtid.ID
	for u, err := range rt.Follow(ctx, "q", "s", evtid.ID{}) {
		switch {
		case errors.As(err, &gap):
			continue
		case err != nil:
			t.Fatal(err)
		case u.CaughtUp:
			continue
		}
		got = append(got, u.ID)
		if len(got) == 1 {
			ids = append(ids, appendN(t, log, 10)...)
			if err := log.Sweep(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if u.ID == ids[len(ids)-1] {
			break
		}
	}
	if len(got) != 4 {
		t.Errorf("%d records were followed, 4 were never trimmed", len(got))
	}
	if gap == nil || gap.After != ids[0] || gap.To.Less(ids[7]) || !gap.To.Less(ids[8]) {
		t.Errorf("records %s to %s were trimmed; the follower is told of %v", ids[1], ids[7], gap)
	}
}

// TestFollowAcrossAnExactTrim trims everything that the receiver was given from a
// stream whose floor says so: nothing is missing, so nothing is told.
func TestFollowAcrossAnExactTrim(t *testing.T) {
	srv := redistest.Start(t)
	arch := archivetest.NewMemory()
	writer := start(t, runtime.Config{
		Redis: redislog.Config{URL: srv.URL()},
		Streams: []runtime.Stream{{
			Queue: "q", Name: "s", Retention: evtlog.KeepLast(1), Durability: runtime.Window(1000), Archive: arch,
		}},
	})
	reader := start(t, runtime.Config{Redis: redislog.Config{URL: srv.URL()}, Node: 1})
	ctx := bounded(t)
	log, err := writer.Stream("q", "s")
	if err != nil {
		t.Fatal(err)
	}
	const records = 5
	add := func() {
		if _, err := log.Announce(ctx, "e", job); err != nil {
			t.Fatal(err)
		}
	}
	add()
	seen := 0
	for u, err := range reader.Follow(ctx, "q", "s", evtid.ID{}) {
		if err != nil {
			t.Fatal(err)
		}
		if u.CaughtUp {
			continue
		}
		if seen++; seen == records {
			break
		}
		if err := log.Sweep(ctx); err != nil { // archives what was yielded, and no more
			t.Fatal(err)
		}
		add()
		srv.Do("XTRIM", "emq:{q}:stream:s", "MAXLEN", "=", "1")
	}
}

// TestFollowDoesNotHammer cuts every subscription as soon as it stands. Each new
// one comes after a longer pause than the one before it, although the server
// confirmed them all.
func TestFollowDoesNotHammer(t *testing.T) {
	srv := redistest.Start(t)
	proxy := faultproxy.Start(t, srv.Addr)
	rt := start(t, runtime.Config{Redis: redislog.Config{URL: proxy.URL()}})
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	subscribed := make(chan struct{}, 1000)
	proxy.Drop(func(answer []byte) bool {
		if bytes.HasPrefix(answer, []byte("*3\r\n$9\r\nsubscribe\r\n")) {
			subscribed <- struct{}{}
		}
		return false
	})
	cuts := 0
	var cutting sync.WaitGroup
	cutting.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-subscribed:
				cuts++
				for srv.Do("CLIENT", "KILL", "TYPE", "pubsub") == ":0" && ctx.Err() == nil {
				}
			}
		}
	})
	for _, err := range rt.Follow(ctx, "q", "s", evtid.ID{}) {
		if err != nil {
			t.Error(err)
		}
	}
	cutting.Wait()
	if cuts < 2 || cuts > 18 {
		t.Errorf("%d subscriptions in two seconds", cuts)
	}
}
