package streamconsumer

import (
	"errors"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// What the server counts as a delivery is what Attempts is built on.
func TestServerCountsReadsAndNothingElse(t *testing.T) {
	w := newWorld(t)
	ids := w.append(2)
	w.abandon("a", 2)
	reader, err := w.log.NewGroupReader(t.Context(), testGroup, "a")
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	peer, err := w.log.NewGroupReader(t.Context(), testGroup, "b")
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	count := func() int { return w.pending()[1].Attempts }
	for _, step := range []struct {
		name string
		do   func() error
		want int
	}{
		{"a read of new entries", func() error { return nil }, 1},
		{"listing the pending entries", func() error { _, err := w.log.Pending(t.Context(), testGroup, evtid.ID{}, 9, "a", 0); return err }, 1},
		{"reading the own pending entries", func() error { _, err := reader.ReadPending(evtid.ID{}, 9); return err }, 2},
		{"reading others of them", func() error { _, err := reader.ReadPending(evtid.ID{}, 1); return err }, 2},
		{"renewal", func() error { _, err := w.log.Renew(t.Context(), testGroup, "a", ids, time.Minute); return err }, 2},
		{"a claim of idle entries", func() error { _, err := w.log.ClaimIdle(t.Context(), testGroup, "b", 0, "", 9); return err }, 2},
		{"reading them as the new owner", func() error { _, err := peer.ReadPending(ids[0], 1); return err }, 3},
		{"reading a trimmed one", func() error {
			w.trimForeign(ids[1])
			entries, err := peer.ReadPending(ids[0], 1)
			if err == nil && (len(entries) != 1 || !entries[0].Missing) {
				return errors.New("the trimmed entry is not shown as missing")
			}
			return err
		}, 3},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if got := count(); got != step.want {
			t.Errorf("after %s the count is %d, want %d", step.name, got, step.want)
		}
	}
	// XAUTOCLAIM drops trimmed entries, whoever has them and however fresh they
	// are; its answer is the last one that names them. So it is not used.
	w.server.Do("XAUTOCLAIM", w.stream.Key(), testGroup, "a", "3600000", "0")
	if left := w.pending(); len(left) != 0 {
		t.Errorf("pending after that: %v", left)
	}
}

// The server answers later than the reader waits: the entry it then hands out is
// pending for a connection that is gone, and is found there.
func TestReplyLaterThanTheDeadline(t *testing.T) {
	w := newWorld(t)
	client := w.open(redislog.Config{URL: w.server.URL(), CommandTimeout: 300 * time.Millisecond})
	var j journal
	m := w.startOn(client.Log(w.stream), "a", j.handle, with(func(c *Config) {
		c.Block, c.MinIdle, c.ClaimEvery = 500*time.Millisecond, time.Hour, time.Hour
	}))
	until(t, "it is parked", m.parked)
	asleep := make(chan string, 1)
	go func() { asleep <- w.server.Do("DEBUG", "SLEEP", "2") }()
	until(t, "it has given up waiting", func() bool { return m.Stats().Reconnects > 0 })
	ids := w.append(3) // answered when the server is awake again
	<-asleep
	until(t, "all are handled", func() bool { return w.allDone(ids[2]) })
	equalIDs(t, "handled, each once", j.ids(), ids)
}

func TestWrongPasswordEndsTheConsumer(t *testing.T) {
	w := newWorld(t)
	m := w.start("a", (&journal{}).handle)
	<-m.ready
	until(t, "it is parked", m.parked)
	ids := w.readerIDs()
	w.server.Do("CONFIG", "SET", "requirepass", "secret")
	m.killAs("secret", ids[0])
	if err := m.waitEnd(); !supervise.IsTerminal(err) || !errors.Is(err, evtlog.ErrDenied) {
		t.Errorf("Run = %v, want a terminal ErrDenied", err)
	}
}

// killAs ends a connection of a server that wants a password.
func (m *member) killAs(password, id string) {
	m.t.Helper()
	client := m.world.open(redislog.Config{URL: "redis://:" + password + "@" + m.world.server.Addr})
	var n int64
	for _, c := range id {
		n = n*10 + int64(c-'0')
	}
	if err := client.Log(m.world.stream).KillClient(m.t.Context(), n); err != nil {
		m.t.Fatal(err)
	}
}
