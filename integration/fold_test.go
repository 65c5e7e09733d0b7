package integration

import (
	"context"
	"errors"
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/archiver"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/redislog"
	"github.com/evtlog/evtlog/runtime"
)

// TestFoldBeforeTrim stops the archiver dead between each two of its steps,
// while four callers append all the time, and starts it anew. At no moment is an
// acknowledged record unreadable or there twice.
func TestFoldBeforeTrim(t *testing.T) {
	for _, step := range []string{
		"append between read and trim", "after the pages", "after the commit",
		"before the floor", "after the floor", "before the trim", "after the trim",
	} {
		t.Run(step, func(t *testing.T) {
			srv := redistest.Start(t)
			_, log := oneStream(t, srv, runtime.Stream{})
			store := openVolume(t)
			live := client(t, srv)
			reader := archive.NewReader(streamName, live, store)
			stream, err := keyspace.NewStream(queue, name)
			if err != nil {
				t.Fatal(err)
			}
			got := newReceipts()
			for range 8 {
				appendLoop(testContext(t), t, log, 4, 50, got, nil)
				// One incarnation that is stopped at the step, with appends in the
				// middle of each step, and one that goes through.
				between := func() { appendLoop(testContext(t), t, log, 4, 5, got, nil) }
				f := &faulty{Log: live, Archive: store, crashAt: step, between: between}
				foldOnce(t, stream, f, true)
				got.check(t, collect(t, reader, evtlog.Window{}), false)
				f.crashAt = ""
				foldOnce(t, stream, f, false)
				got.check(t, collect(t, reader, evtlog.Window{}), false)
			}
			if n := srv.Do("XLEN", key); n == ":0" {
				t.Error("the trim went beyond what is kept")
			}
			w, err := store.Watermark(testContext(t), streamName)
			if err != nil || w.IsZero() {
				t.Errorf("nothing was archived: %v", err)
			}
		})
	}
}

var errCrash = errors.New("crash")

// foldOnce runs one incarnation of an archiver that keeps 20 records.
func foldOnce(t *testing.T, stream keyspace.Stream, f *faulty, mayCrash bool) {
	t.Helper()
	a, err := archiver.New(archiver.Config{Stream: stream, Keep: evtlog.KeepLast(20)}, f, f)
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.Fold(testContext(t), evtid.ID{})
	if err != nil && !(mayCrash && errors.Is(err, errCrash)) {
		t.Fatal(err)
	}
	if mayCrash && f.crashAt != "append between read and trim" && err == nil {
		t.Fatalf("the crash %q did not happen", f.crashAt)
	}
}

// faulty passes everything on and fails at one step, for good: what comes after
// it does not happen, as after a crash.
type faulty struct {
	*redislog.Log
	archive.Archive
	crashAt string
	between func()
	dead    bool
}

func (f *faulty) at(step string) error {
	f.between()
	if f.dead || f.crashAt == step {
		f.dead = f.crashAt != ""
		return errCrash
	}
	return nil
}

func (f *faulty) Fold(ctx context.Context, s evtlog.StreamName, prev evtid.ID, records []evtlog.Record) (evtid.ID, error) {
	f.dead = f.dead && f.crashAt != ""
	if err := f.at("after the pages"); err != nil {
		return evtid.ID{}, err
	}
	w, err := f.Archive.Fold(ctx, s, prev, records)
	if crash := f.at("after the commit"); crash != nil {
		return evtid.ID{}, crash
	}
	return w, err
}

func (f *faulty) Seal(ctx context.Context, w evtid.ID) error {
	if err := f.at("before the floor"); err != nil {
		return err
	}
	if err := f.Log.Seal(ctx, w); err != nil {
		return err
	}
	return f.at("after the floor")
}

func (f *faulty) TrimThrough(ctx context.Context, through evtid.ID) (redislog.TrimResult, error) {
	if err := f.at("before the trim"); err != nil {
		return redislog.TrimResult{}, err
	}
	res, err := f.Log.TrimThrough(ctx, through)
	if crash := f.at("after the trim"); crash != nil {
		return redislog.TrimResult{}, crash
	}
	return res, err
}
