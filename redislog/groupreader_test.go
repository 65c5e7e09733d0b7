package redislog

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

func TestReadNewAndAcks(t *testing.T) {
	srv, l := realLog(t)
	fill(t, l, 1, 10)
	createGroup(t, l, "g", Head())
	g := readerOf(t, l, "g", "c")
	entries, err := g.ReadNew(3, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, idsOf(entries), 1, 2, 3)
	if v, _ := entries[2].Get("n"); v != "3" || entries[2].Unbranded || entries[2].Missing || entries[2].Raw != "" {
		t.Fatalf("%#v", entries[2])
	}
	// Queued acknowledgements ride with the next read, one of them for nothing.
	g.Ack(ats(1, 2)...)
	g.Ack(at(9))
	if g.Acked() != 0 {
		t.Fatal("acknowledged before anything was sent")
	}
	entries, err = g.ReadNew(2, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, idsOf(entries), 4, 5)
	if g.Acked() != 2 || g.LostAcks() != 1 {
		t.Fatalf("acked %d, lost %d", g.Acked(), g.LostAcks())
	}
	g.Ack(at(3))
	g.AckRaw(at(4).Entry())
	if err := g.FlushAcks(); err != nil {
		t.Fatal(err)
	}
	if err := g.FlushAcks(); err != nil {
		t.Fatal("nothing queued:", err)
	}
	if n, low, _, err := l.PendingSummary(t.Context(), "g"); err != nil || n != 1 || low != at(5) || g.Acked() != 4 {
		t.Fatalf("%d pending from %v, %v; acked %d", n, low, err, g.Acked())
	}
	// One connection serves all of it.
	if got := srv.Do("CLIENT", "LIST", "ID", fmt.Sprint(g.ClientID())); !strings.Contains(got, "reader:cm/feed:g/c") {
		t.Fatalf("the reader's connection: %s", got)
	}
	for _, err := range []error{func() error { _, err := g.ReadNew(0, 0); return err }(), func() error { _, err := g.ReadPending(evtid.ID{}, 0); return err }(), func() error { _, err := l.ClaimIdle(t.Context(), "g", "c", 0, "", 0); return err }()} {
		if Classify(err) != Caller {
			t.Errorf("got %v", err)
		}
	}
}

func TestReadNewWaits(t *testing.T) {
	srv, _ := realLog(t)
	// A block much longer than the limit for commands.
	l := openAt(t, Config{URL: srv.URL(), CommandTimeout: 400 * time.Millisecond}).Log(feed(t))
	createGroup(t, l, "g", Head())
	g := readerOf(t, l, "g", "c")
	began := time.Now()
	entries, err := g.ReadNew(10, 800*time.Millisecond)
	if err != nil || entries != nil || time.Since(began) < 800*time.Millisecond {
		t.Fatalf("%v, %v after %s", entries, err, time.Since(began))
	}
	if entries, err := g.ReadNew(10, 0); err != nil || entries != nil {
		t.Fatalf("without waiting: %v, %v", entries, err)
	}
	if entries, err := g.ReadNew(10, time.Microsecond); err != nil || entries != nil {
		t.Fatalf("below a millisecond: %v, %v", entries, err)
	}
	later(t, 50*time.Millisecond, func() { srv.Do("XADD", l.stream.Key(), at(1).Entry(), "k", "v") })
	entries, err = g.ReadNew(10, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, idsOf(entries), 1)
}

func TestReadPending(t *testing.T) {
	srv, l := realLog(t)
	fill(t, l, 1, 5)
	createGroup(t, l, "g", Head())
	g := readerOf(t, l, "g", "c")
	if entries, err := g.ReadPending(evtid.ID{}, 10); err != nil || len(entries) != 0 {
		t.Fatalf("nothing pending: %v, %v", entries, err)
	}
	if _, err := g.ReadNew(10, 0); err != nil {
		t.Fatal(err)
	}
	srv.Do("XTRIM", l.stream.Key(), "MINID", at(3).Entry())
	var got []evtid.ID
	for after := (evtid.ID{}); ; {
		page, err := g.ReadPending(after, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			if e.Missing != e.ID.Less(at(3)) || e.Missing != (e.Fields == nil) {
				t.Errorf("%#v", e)
			}
		}
		got = append(got, idsOf(page)...)
		after = page[len(page)-1].ID
	}
	wantIDs(t, got, 1, 2, 3, 4, 5)
	// Acknowledgements ride here too.
	g.Ack(ats(1, 2, 3)...)
	page, err := g.ReadPending(evtid.ID{}, 10)
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, idsOf(page), 4, 5)
}

// TestForeignEntriesInAGroup are given with what is known of them, and can be
// acknowledged.
func TestForeignEntriesInAGroup(t *testing.T) {
	srv, l := realLog(t)
	srv.Do("XADD", l.stream.Key(), "5-5", "k", "v")
	fill(t, l, 1, 1)
	createGroup(t, l, "g", Head())
	g := readerOf(t, l, "g", "c")
	entries, err := g.ReadNew(10, 0)
	if err != nil || len(entries) != 2 || entries[0].Raw != "5-5" || !entries[0].ID.IsZero() || entries[1].ID != at(1) {
		t.Fatalf("%+v, %v", entries, err)
	}
	if v, _ := entries[0].Get("k"); v != "v" {
		t.Fatalf("%+v", entries[0])
	}
	srv.Do("XTRIM", l.stream.Key(), "MINID", at(1).Entry())
	step, err := l.ClaimIdle(t.Context(), "g", "c", 0, "", 10)
	if err != nil || len(step.Trimmed) != 1 || len(step.Claimed) != 1 || step.Trimmed[0].Raw != "5-5" || step.Claimed[0].ID != at(1) {
		t.Fatalf("%+v, %v", step, err)
	}
}

func TestReadNoGroup(t *testing.T) {
	srv, l := realLog(t)
	g := readerOf(t, l, "g", "c")
	for range 2 {
		if _, err := g.ReadNew(1, 0); !errors.Is(err, evtlog.ErrNoGroup) || isConnError(err) || Classify(err) != Topology {
			t.Fatalf("got %v", err)
		}
	}
	if _, err := l.ClaimIdle(t.Context(), "g", "c", 0, "", 1); !errors.Is(err, evtlog.ErrNoGroup) {
		t.Fatalf("claim: %v", err)
	}
	fill(t, l, 1, 1)
	createGroup(t, l, "g", Head())
	// The same connection goes on.
	if entries, err := g.ReadNew(1, 0); err != nil || len(entries) != 1 {
		t.Fatalf("%v, %v", entries, err)
	}
	// The stream is deleted under a parked read.
	later(t, 50*time.Millisecond, func() { srv.Do("DEL", l.stream.Key()) })
	if _, err := g.ReadNew(1, 20*time.Second); !errors.Is(err, evtlog.ErrNoGroup) || isConnError(err) {
		t.Fatalf("deleted: %v", err)
	}
	// Acknowledgements of entries that the group has forgotten are counted.
	createGroup(t, l, "g", New())
	g.Ack(at(1))
	if _, err := g.ReadNew(1, 0); err != nil || g.LostAcks() != 1 {
		t.Fatalf("%v, lost %d", err, g.LostAcks())
	}
}

// TestRefusedAckEndsTheReader: what the read behind it was given is pending, and
// only a new reader looks there.
func TestRefusedAckEndsTheReader(t *testing.T) {
	srv, _ := realLog(t)
	srv.Do("ACL", "SETUSER", "app", "on", ">pw", "~*", "&*", "+@all", "-xack")
	l := openAt(t, Config{URL: "redis://app:pw@" + srv.Addr}).Log(feed(t))
	fill(t, l, 1, 2)
	createGroup(t, l, "g", Head())
	g := readerOf(t, l, "g", "c")
	if _, err := g.ReadNew(1, 0); err != nil {
		t.Fatal(err)
	}
	g.Ack(at(1))
	if _, err := g.ReadNew(1, 0); !isConnError(err) || !errors.Is(err, evtlog.ErrDenied) || Classify(err) != Terminal {
		t.Fatalf("got %v", err)
	}
	if _, err := g.ReadNew(1, 0); !isConnError(err) {
		t.Fatalf("after it: %v", err)
	}
}

func TestCloseUnblocksAParkedRead(t *testing.T) {
	_, l := realLog(t)
	createGroup(t, l, "g", Head())
	for range 20 {
		g := readerOf(t, l, "g", "c")
		done := make(chan error)
		go func() {
			_, err := g.ReadNew(1, time.Minute)
			done <- err
		}()
		<-time.After(5 * time.Millisecond)
		began := time.Now()
		_ = g.Close()
		err := <-done
		if took := time.Since(began); took > 500*time.Millisecond {
			t.Fatalf("it took %s", took)
		}
		if !isConnError(err) || !errors.Is(err, net.ErrClosed) {
			t.Fatalf("got %v", err)
		}
	}
}

// TestGroupReaderRefusesNonsense: an answer of another shape ends the reader and
// never panics.
func TestGroupReaderRefusesNonsense(t *testing.T) {
	whole := "*1\r\n*2\r\n$1\r\nk\r\n*1\r\n" + wireEntry(at(1).Entry(), "k", "v")
	for name, answer := range map[string]string{
		"status": "+OK\r\n", "number": ":1\r\n", "two streams": "*2\r\n" + whole[4:], "no pair": "*1\r\n:1\r\n",
		"no entries": "*1\r\n*2\r\n$1\r\nk\r\n:1\r\n", "odd entry": strings.Replace(whole, "*2\r\n$1\r\nk\r\n$1\r\nv", "*1\r\n$1\r\nk\r\n$1\r\nv", 1),
		"junk": "junk\r\n",
	} {
		addr := fakeServer(t, admitting("7.0.15", func([]string) string { return answer }))
		l := openAt(t, Config{URL: "redis://" + addr}).Log(feed(t))
		g := readerOf(t, l, "g", "c")
		_, err := g.ReadNew(1, 0)
		if !isConnError(err) || !strings.Contains(err.Error(), "protocol error") {
			t.Errorf("%s: %v", name, err)
		}
	}
	addr := fakeServer(t, admitting("7.0.15", func([]string) string { return "*-1\r\n" }))
	g := readerOf(t, openAt(t, Config{URL: "redis://" + addr}).Log(feed(t)), "g", "c")
	if entries, err := g.ReadNew(1, 0); err != nil || entries != nil {
		t.Fatalf("a nil answer: %v, %v", entries, err)
	}
}
