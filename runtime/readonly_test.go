package runtime_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/publisher"
	"github.com/evtlog/evtlog/actors/streamconsumer"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/feed"
	"github.com/evtlog/evtlog/redislog"
	"github.com/evtlog/evtlog/runtime"
)

// A process that neither writes nor consumes reads and follows a stream from its
// first archived record on, and can neither append to it nor trim it.
func TestReadOnlyStream(t *testing.T) {
	srv, arch, ids := wroteAndStopped(t, 20)
	reader := start(t, runtime.Config{
		Redis: redislog.Config{URL: srv.URL()}, Streams: []runtime.Stream{{Queue: "q", Name: "s", ReadOnly: true, Archive: arch}},
	})
	ctx := bounded(t)
	log, err := reader.Stream("q", "s")
	if err != nil {
		t.Fatal(err)
	}
	var read []evtid.ID
	for rec, err := range log.Read(ctx, evtlog.Window{}) {
		if err != nil {
			t.Fatal(err)
		}
		read = append(read, rec.ID)
	}
	if !slices.Equal(read, ids) {
		t.Errorf("read %d of %d records", len(read), len(ids))
	}
	n := 0
	for u, err := range reader.Follow(ctx, "q", "s", evtid.ID{}) {
		if err != nil {
			t.Fatal(err)
		}
		if u.CaughtUp {
			break
		}
		n++
	}
	if n != 20 {
		t.Errorf("followed %d of 20 records", n)
	}
	before := srv.Do("XINFO", "STREAM", "emq:{q}:stream:s")
	_, errAppend := log.Append(ctx)
	_, errBatch := log.AppendBatch(ctx, [][]evtlog.Field{{}})
	_, errAnnounce := log.Announce(ctx, "e", job)
	for what, err := range map[string]error{
		"Append": errAppend, "AppendBatch": errBatch, "Announce": errAnnounce,
		"Resolve": log.Resolve(ctx, ids[0]), "Sweep": log.Sweep(ctx),
	} {
		if !errors.Is(err, runtime.ErrReadOnlyStream) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if after := srv.Do("XINFO", "STREAM", "emq:{q}:stream:s"); after != before {
		t.Errorf("the stream was %s and is %s", before, after)
	}
	if w, err := log.Watermark(ctx); err != nil || w != ids[19] {
		t.Errorf("watermark %s, %v", w, err)
	}
	if s := log.Stats(); s != (publisher.Stats{}) {
		t.Errorf("it counts %+v", s)
	}
	if lags, err := reader.Lag(ctx); err != nil || len(lags) != 0 {
		t.Errorf("lag %+v, %v", lags, err)
	}
	if !reader.Health().OK() {
		t.Errorf("health %+v", reader.Health())
	}
}

// A member of a group on a stream that is only read here gets what was trimmed from
// the stream's archive.
func TestReadOnlyStreamLendsItsArchive(t *testing.T) {
	srv, arch, _ := wroteAndStopped(t, 20)
	var l ledger
	start(t, runtime.Config{
		Redis: redislog.Config{URL: srv.URL()}, Streams: []runtime.Stream{{Queue: "q", Name: "s", ReadOnly: true, Archive: arch}},
		Consumers: []runtime.Consumer{{
			Queue: "q", Stream: "s", Group: "g", Name: "m", Start: streamconsumer.FromHead, Handler: l.handle,
		}},
	})
	await(t, "all are handled", func() bool { return l.count() == 20 })
}

// drained ranges over a sequence and returns its error.
func drained[T any](seq iter.Seq2[T, error]) (err error) {
	for _, err = range seq {
		if err != nil {
			return err
		}
	}
	return err
}

// Whatever is asked of a runtime that was stopped, the answer says so.
func TestStoppedIsSaid(t *testing.T) {
	rt, log, ids := archived(t, 3, func(context.Context, evtlog.Delivery) error { return nil })
	ctx := bounded(t)
	if err := rt.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	_, errAppend := log.Append(ctx)
	_, errBatch := log.AppendBatch(ctx, [][]evtlog.Field{{}})
	_, errAnnounce := log.Announce(ctx, "e", job)
	_, errInfo := log.Info(ctx)
	_, errMark := log.Watermark(ctx)
	_, errLag := rt.Lag(ctx)
	_, errSeek := rt.Seek(ctx, sq, "g", runtime.Position{}, true)
	_, errSubscribe := rt.Subscribe(ctx, "q")
	_, errPublish := rt.Publish(ctx, "q", feed.Announcement{Event: "e", Job: job})
	for what, err := range map[string]error{
		"Append": errAppend, "AppendBatch": errBatch, "Announce": errAnnounce, "Info": errInfo, "Watermark": errMark,
		"Lag": errLag, "Seek": errSeek, "Subscribe": errSubscribe, "Publish": errPublish,
		"Resolve": log.Resolve(ctx, ids[0]), "Sweep": log.Sweep(ctx), "Drain": rt.Drain(ctx), "Pause": rt.Pause(ctx, sq, "g"),
		"Read":   drained(log.Read(ctx, evtlog.Window{})),
		"Since":  drained(log.Since(ctx, time.Now().Add(-time.Hour))),
		"Window": drained(log.Window(ctx, time.Now().Add(-time.Hour), time.Now())),
		"Follow": drained(rt.Follow(ctx, "q", "s", evtid.ID{})),
	} {
		if !errors.Is(err, evtlog.ErrStopped) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestResolveOfNothing(t *testing.T) {
	_, log, _ := archived(t, 1, func(context.Context, evtlog.Delivery) error { return nil })
	var refused *evtid.ParseError
	if err := log.Resolve(bounded(t), evtid.ID{}); !errors.As(err, &refused) || !errors.Is(err, evtid.ErrMalformed) {
		t.Errorf("Resolve of the zero id: %v", err)
	}
}
