package runtime

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive/archivetest"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/redislog"
)

func TestBeyondEnd(t *testing.T) {
	for _, c := range []struct {
		what                    string
		cursor, last, watermark uint64
		want                    bool
	}{
		{what: "from the beginning of nothing"},
		{what: "at the top", cursor: 5, last: 5},
		{what: "below the top", cursor: 3, last: 5},
		{what: "the stream is gone, archived", cursor: 5, watermark: 5},
		{what: "the stream is gone, archived in part", cursor: 5, watermark: 4, want: true},
		{what: "the stream is gone", cursor: 5, want: true},
		{what: "made anew and archived", cursor: 5, last: 2, watermark: 7},
		{what: "made anew", cursor: 5, last: 2, want: true},
		{what: "made anew above it", cursor: 5, last: 9},
	} {
		if got := beyondEnd(at(c.cursor), at(c.last), at(c.watermark)); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

// withStream starts a runtime with one stream, with or without an archive.
func withStream(t *testing.T, s Stream) (*redistest.Server, *Runtime, *Log) {
	t.Helper()
	srv := redistest.Start(t)
	s.Queue, s.Name = "q", "s"
	rt, err := Start(t.Context(), Config{Redis: redislog.Config{URL: srv.URL()}, Streams: []Stream{s}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Stop(context.Background()) })
	log, err := rt.Stream("q", "s")
	if err != nil {
		t.Fatal(err)
	}
	return srv, rt, log
}

func appended(t *testing.T, log *Log) evtid.ID {
	t.Helper()
	id, err := log.Append(t.Context(), evtlog.F("n", "1"))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// The stream was deleted: a follower that comes back with its cursor is told, once,
// and ranging on is given what is appended from then on.
func TestFollowBeyondTheEnd(t *testing.T) {
	srv, rt, log := withStream(t, Stream{})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	appended(t, log)
	cursor := appended(t, log)
	srv.Do("DEL", "emq:{q}:stream:s")
	told, caughtUp := 0, false
	var next evtid.ID
	for u, err := range rt.Follow(ctx, "q", "s", cursor) {
		var beyond *BeyondEndError
		switch {
		case errors.As(err, &beyond):
			if told++; beyond.Cursor != cursor || !beyond.Last.IsZero() || !errors.Is(err, ErrBeyondEnd) || !strings.Contains(err.Error(), cursor.String()) {
				t.Errorf("told %v", err)
			}
			continue
		case err != nil:
			t.Fatal(err)
		case u.CaughtUp:
			caughtUp = true
			next = appended(t, log)
			continue
		}
		if u.ID != next {
			t.Errorf("given %s, want %s", u.ID, next)
		}
		break
	}
	if told != 1 || !caughtUp || next.IsZero() {
		t.Errorf("told %d times, caught up %v, appended %v", told, caughtUp, next)
	}
}

// Records with lower ids in a stream that was made anew are not waited for in
// vain: the error names both ends.
func TestFollowNamesTheNewEnd(t *testing.T) {
	_, rt, log := withStream(t, Stream{})
	last := appended(t, log)
	cursor, err := evtid.Make(last.Time().Add(time.Hour).UnixMilli(), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range rt.Follow(t.Context(), "q", "s", cursor) {
		var beyond *BeyondEndError
		if !errors.As(err, &beyond) || beyond.Last != last || beyond.End() != last {
			t.Errorf("told %v", err)
		}
		break
	}
}

// The stream was deleted, but everything up to the cursor is archived.
func TestFollowFromAnArchivedCursor(t *testing.T) {
	srv, rt, log := withStream(t, Stream{Durability: Commit, Archive: archivetest.NewMemory()})
	appended(t, log)
	cursor := appended(t, log)
	if err := log.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	srv.Do("FLUSHALL")
	for u, err := range rt.Follow(t.Context(), "q", "s", cursor) {
		if err != nil || !u.CaughtUp {
			t.Errorf("%+v, %v; want the signal", u, err)
		}
		break
	}
}

// The cursor of a record that another process has just appended is not beyond the
// end, however soon it is followed.
func TestFollowRightBehindAnAppend(t *testing.T) {
	srv, _, log := withStream(t, Stream{})
	other, err := Start(t.Context(), Config{Redis: redislog.Config{URL: srv.URL()}, Node: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Stop(context.Background())
	for range 200 {
		for u, err := range other.Follow(t.Context(), "q", "s", appended(t, log)) {
			if err != nil || !u.CaughtUp {
				t.Fatalf("%+v, %v; want the signal", u, err)
			}
			break
		}
	}
}

// The runtime ends under a follower that is reading: the sequence ends without the
// error that this gives.
func TestFollowEndsQuietlyWithTheRuntime(t *testing.T) {
	store := archivetest.NewMemory()
	_, rt, log := withStream(t, Stream{Durability: Commit, Archive: store})
	appended(t, log)
	if err := log.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	store.SetHook(func(_ context.Context, step archivetest.Step) error {
		if step != archivetest.BeforeRead {
			return nil
		}
		rt.end()
		return errors.New("the connection was closed")
	})
	for u, err := range rt.Follow(t.Context(), "q", "s", evtid.ID{}) {
		t.Errorf("%+v, %v", u, err)
		break
	}
}
