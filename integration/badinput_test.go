package integration

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/redislog"
	"github.com/evtlog/evtlog/runtime"
)

// TestRefusedInput gives a running stream input that must be refused: each gets
// its typed error, which names the value, and nothing is written.
func TestRefusedInput(t *testing.T) {
	srv := redistest.Start(t)
	_, log := oneStream(t, srv, runtime.Stream{})
	ctx := testContext(t)
	day := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	read := func(w evtlog.Window) error {
		for _, err := range log.Read(ctx, w) {
			return err
		}
		return nil
	}
	window := func(from, to time.Time) error {
		for _, err := range log.Window(ctx, from, to) {
			return err
		}
		return nil
	}
	appendErr := func(fields ...evtlog.Field) error { _, err := log.Append(ctx, fields...); return err }
	announceErr := func(job string) error { _, err := log.Announce(ctx, "scored", job); return err }
	for _, c := range []struct {
		what, names string
		err         error
		is          error
	}{
		{"reserved name", `"id"`, appendErr(evtlog.F("a", "1"), evtlog.F("id", "x")), evtlog.ErrBadField},
		{"too large", "1048577", appendErr(evtlog.F("a", strings.Repeat("x", 1<<20))), evtlog.ErrTooLarge},
		{"malformed job", "nonsense", announceErr("nonsense"), evtid.ErrMalformed},
		{"job out of range", "JOBzzzzzzzzzzz", announceErr("JOBzzzzzzzzzzz"), evtid.ErrOverflow},
		{"negative limit", "-1", read(evtlog.Window{Limit: -1}), evtlog.ErrBadWindow},
		{"inverted window", "2026-01-01", window(day, day.Add(-time.Hour)), evtlog.ErrBadWindow},
		{"before 1970", "1969", window(time.Date(1969, 12, 31, 0, 0, 0, 0, time.UTC), day), evtid.ErrBeforeUnixEpoch},
	} {
		if !errors.Is(c.err, c.is) || !strings.Contains(c.err.Error(), c.names) {
			t.Errorf("%s: error %v; want %v, naming %s", c.what, c.err, c.is, c.names)
		}
	}
	if got := srv.Do("EXISTS", key); got != ":0" {
		t.Errorf("something was written: EXISTS answers %s", got)
	}
}

// TestRefusedStart gives Start what it must refuse, with the field or the server
// named.
func TestRefusedStart(t *testing.T) {
	srv := redistest.Start(t)
	locked := redistest.Start(t, "--requirepass", "right")
	foreign := redistest.Start(t)
	foreign.Do("SET", keyspace.VersionKey, "echomq:9.9.9")
	wrongType := redistest.Start(t)
	wrongType.Do("SET", key, "a string")
	stream := func(queue, name string) []runtime.Stream { return []runtime.Stream{{Queue: queue, Name: name}} }
	at := func(url string) redislog.Config { return redislog.Config{URL: url} }
	_, nobody, _ := strings.Cut(srv.URL(), "redis://")
	srv.Kill()

	for _, c := range []struct {
		what, names string
		cfg         runtime.Config
		is          error
	}{
		{"absent server", strings.TrimSuffix(nobody, "/0"), runtime.Config{Redis: at(srv.URL()), Streams: stream(queue, name)}, evtlog.ErrUnavailable},
		{"no password", locked.Addr, runtime.Config{Redis: at(locked.URL()), Streams: stream(queue, name)}, evtlog.ErrDenied},
		{"wrong password", locked.Addr, runtime.Config{Redis: at("redis://:wrong@" + locked.Addr), Streams: stream(queue, name)}, evtlog.ErrDenied},
		{"foreign format", "echomq:9.9.9", runtime.Config{Redis: at(foreign.URL()), Streams: stream(queue, name)}, evtlog.ErrForeignFormat},
		{"key of another type", "q/s", runtime.Config{Redis: at(wrongType.URL()), Streams: stream(queue, name)}, evtlog.ErrWrongType},
		{"bad node", "1024", runtime.Config{Node: 1024}, nil},
		{"bad queue", "Streams[0]", runtime.Config{Streams: stream("a{b}", name)}, nil},
		{"bad stream", "Streams[0]", runtime.Config{Streams: stream(queue, "a:b")}, nil},
		{"duplicate writer", "Streams[1]", runtime.Config{Streams: append(stream(queue, name), stream(queue, name)...)}, nil},
		{"dial without archive", "Streams[0].Archive", runtime.Config{Streams: []runtime.Stream{{Queue: queue, Name: name, Durability: runtime.Commit}}}, nil},
	} {
		t.Run(c.what, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			rt, err := runtime.Start(ctx, c.cfg)
			if err == nil {
				stop(t, rt)
				t.Fatal("it started")
			}
			if c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.names) {
				t.Errorf("error %v; want %v, naming %s", err, c.is, c.names)
			}
			var refused *runtime.ConfigError
			if c.is == nil && !errors.As(err, &refused) {
				t.Errorf("error %v is not a *runtime.ConfigError", err)
			}
			if strings.Contains(err.Error(), "wrong@") {
				t.Errorf("the password is in the error: %v", err)
			}
		})
	}
}
