package runtime_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/streamconsumer"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/archivetest"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/redislog"
	"github.com/evtlog/evtlog/runtime"
)

// wroteAndStopped leaves a server with n records, the newest five of them live and
// all archived, and nobody who would write the floor again.
func wroteAndStopped(t *testing.T, n int) (*redistest.Server, *archivetest.Memory, []evtid.ID) {
	t.Helper()
	srv, arch := redistest.Start(t), archivetest.NewMemory()
	rt := start(t, runtime.Config{
		Redis: redislog.Config{URL: srv.URL()},
		Streams: []runtime.Stream{{
			Queue: "q", Name: "s", Archive: arch, Durability: runtime.Commit, Retention: evtlog.Keep{Last: 5, Exact: true},
		}},
	})
	log, err := rt.Stream("q", "s")
	if err != nil {
		t.Fatal(err)
	}
	ids := appendN(t, log, n)
	if err := log.Sweep(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if err := rt.Stop(bounded(t)); err != nil {
		t.Fatal(err)
	}
	return srv, arch, ids
}

// consumes starts a runtime that has one member, and waits until it is done.
func consumes(t *testing.T, srv *redistest.Server, arch *archivetest.Memory, l *ledger, n int) *runtime.Runtime {
	t.Helper()
	rt := start(t, runtime.Config{
		Redis: redislog.Config{URL: srv.URL()},
		Consumers: []runtime.Consumer{{
			Queue: "q", Stream: "s", Group: "g", Name: "m", Start: streamconsumer.FromHead, Handler: l.handle,
			Block: 50 * time.Millisecond, Archive: arch,
		}},
	})
	await(t, "all are handled", func() bool { return l.count() == n })
	if err := rt.Drain(bounded(t)); err != nil {
		t.Fatal(err)
	}
	return rt
}

func TestSeekToTheHeadAfterTheFloorIsGone(t *testing.T) {
	srv, arch, _ := wroteAndStopped(t, 20)
	var l ledger
	rt := consumes(t, srv, arch, &l, 20)
	srv.Do("DEL", "emq:{q}:stream:s:floor")
	r, err := rt.Seek(bounded(t), sq, "g", runtime.Position{}, false)
	if err != nil || r.RepeatedRecords != 20 || !r.Exact {
		t.Fatalf("Seek: %+v, %v; want 20 repeated", r, err)
	}
	await(t, "all are handled again", func() bool { return l.count() == 40 })
}

func TestSeekToTheHeadAfterAFlush(t *testing.T) {
	srv, arch, ids := wroteAndStopped(t, 20)
	log := liveLog(t, srv)
	srv.Do("FLUSHALL")
	if _, err := log.CreateGroup(bounded(t), "g", redislog.New().Behind(reach{arch})); err != nil {
		t.Fatal(err)
	}
	r, err := runtime.SeekGroup(bounded(t), log, arch, "g", runtime.Position{}, false)
	if err != nil || r.RepeatedRecords != 20 || r.At != ids[19] || !r.Exact {
		t.Fatalf("Seek: %+v, %v; want 20 repeated", r, err)
	}
	var l ledger
	consumes(t, srv, arch, &l, 20)
	for i, id := range ids {
		if l.times[id] != 1 {
			t.Errorf("record %d was handled %d times", i, l.times[id])
		}
	}
}

// The members of a group that is gone are told that its lag is not known.
func TestLagOfAGroupThatIsGone(t *testing.T) {
	srv, arch, _ := wroteAndStopped(t, 3)
	var l ledger
	rt := consumes(t, srv, arch, &l, 3)
	if err := rt.Pause(bounded(t), sq, "g"); err != nil {
		t.Fatal(err)
	}
	srv.Do("FLUSHALL")
	lags, err := rt.Lag(bounded(t))
	if err != nil || len(lags) != 1 || lags[0].Known || lags[0].OldestKnown || !strings.Contains(lags[0].Why, "no such group") {
		t.Errorf("%+v, %v", lags, err)
	}
}

// liveLog is the stream q/s without a runtime.
func liveLog(t *testing.T, srv *redistest.Server) *redislog.Log {
	t.Helper()
	client, err := redislog.Open(bounded(t), redislog.Config{URL: srv.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	key, err := keyspace.NewStream("q", "s")
	if err != nil {
		t.Fatal(err)
	}
	return client.Log(key)
}

func TestLagCountsWhatOnlyTheArchiveHas(t *testing.T) {
	srv, arch, ids := wroteAndStopped(t, 20)
	ctx := bounded(t)
	log := liveLog(t, srv)
	key := log.Stream()
	lagOf := func(what string, arch archive.Archive) runtime.Lag {
		t.Helper()
		lags, err := runtime.GroupLags(ctx, log, arch)
		if err != nil || len(lags) != 1 {
			t.Fatalf("%s: %+v, %v", what, lags, err)
		}
		return lags[0]
	}
	// A foreign program made the group, so nothing is recorded for it.
	srv.Do("XGROUP", "CREATE", key.Key(), "foreign", "0")
	srv.Do("DEL", key.Floor())
	if lag := lagOf("no floor", arch); !lag.Known || lag.Entries != 20 || lag.Oldest != ids[0] {
		t.Errorf("without the floor: %+v", lag)
	}
	if lag := lagOf("no floor, no archive", nil); lag.Known || lag.OldestKnown || lag.Why == "" {
		t.Errorf("without floor and archive: %+v", lag)
	}
	srv.Do("FLUSHALL")
	if _, err := log.CreateGroup(ctx, "late", redislog.Head().Behind(reach{arch})); err != nil {
		t.Fatal(err)
	}
	if lag := lagOf("flushed", arch); !lag.Known || lag.Entries != 20 || lag.Oldest != ids[0] || lag.Top != ids[19] {
		t.Errorf("after a flush: %+v", lag)
	}
	down := errors.New("no node answers")
	arch.SetHook(func(context.Context, archivetest.Step) error { return down })
	if lag := lagOf("no answer", arch); lag.Known || lag.OldestKnown || !strings.Contains(lag.Why, down.Error()) {
		t.Errorf("with an archive that does not answer: %+v", lag)
	}
}

// reach is the archive of the stream sq.
type reach struct{ *archivetest.Memory }

func (r reach) Watermark(ctx context.Context) (evtid.ID, error) { return r.Memory.Watermark(ctx, sq) }

// Without the archive a group can be moved all the same: what is counted is what
// can be read, and it is said that this is not all.
func TestSeekToTheHeadWithoutTheArchive(t *testing.T) {
	srv, arch, _ := wroteAndStopped(t, 20)
	var l ledger
	rt := consumes(t, srv, arch, &l, 20)
	log := liveLog(t, srv)
	for _, dry := range []bool{true, false} {
		r, err := runtime.SeekGroup(bounded(t), log, nil, "g", runtime.Position{}, dry)
		if err != nil || r.RepeatedRecords != 5 || r.Exact || r.Done == dry {
			t.Errorf("dry %v: %+v, %v; want 5 repeated or more", dry, r, err)
		}
	}
	await(t, "all are handled again", func() bool { return l.count() == 40 })
	if err := rt.Drain(bounded(t)); err != nil {
		t.Error(err)
	}
}

// What a trim has taken from a group is skipped as well, and without an archive
// nobody can count it.
func TestSeekOverWhatWasTrimmed(t *testing.T) {
	srv := redistest.Start(t)
	rt := start(t, runtime.Config{
		Redis: redislog.Config{URL: srv.URL()}, Streams: []runtime.Stream{{Queue: "q", Name: "s", Retention: evtlog.Keep{Last: 5, Exact: true}}},
	})
	if _, err := liveLog(t, srv).CreateGroup(bounded(t), "late", redislog.Head()); err != nil {
		t.Fatal(err)
	}
	log, err := rt.Stream("q", "s")
	if err != nil {
		t.Fatal(err)
	}
	appendN(t, log, 20)
	if err := log.Sweep(bounded(t)); err != nil {
		t.Fatal(err)
	}
	r, err := rt.Seek(bounded(t), sq, "late", runtime.After(evtid.Max), true)
	if err != nil || r.SkippedRecords != 5 || r.Exact {
		t.Errorf("to the end: %+v, %v; want 5 skipped or more", r, err)
	}
}

// The archive of a stream is known when any consumer was given it, whichever comes
// first.
func TestArchiveOfTheSecondConsumer(t *testing.T) {
	srv, arch, _ := wroteAndStopped(t, 20)
	member := func(group string, a archive.Archive) runtime.Consumer {
		return runtime.Consumer{
			Queue: "q", Stream: "s", Group: group, Name: "m", Start: streamconsumer.FromNew, Archive: a,
			Handler: func(context.Context, evtlog.Delivery) error { return nil },
		}
	}
	rt := start(t, runtime.Config{
		Redis: redislog.Config{URL: srv.URL()}, Consumers: []runtime.Consumer{member("a", nil), member("b", arch)},
	})
	lags, err := rt.Lag(bounded(t))
	if err != nil || len(lags) != 2 || !lags[0].Recoverable || !lags[1].Recoverable {
		t.Errorf("lags %+v, %v", lags, err)
	}
	if r, err := rt.Seek(bounded(t), sq, "b", runtime.Position{}, true); err != nil || r.RepeatedRecords != 20 || !r.Exact {
		t.Errorf("to the head: %+v, %v; want 20 repeated", r, err)
	}
}
