package redislog

import (
	"errors"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
)

func TestReadAheadCarriesAcksAndAnswersLater(t *testing.T) {
	_, l := realLog(t)
	fill(t, l, 1, 5)
	createGroup(t, l, "g", Head())
	g := readerOf(t, l, "g", "c")
	if _, err := g.ReadNew(2, 0); err != nil {
		t.Fatal(err)
	}
	g.Ack(ats(1, 2)...)
	if err := g.ReadAhead(2); err != nil {
		t.Fatal(err)
	}
	// The server works on it without anybody taking the answer.
	deadline := time.Now().Add(10 * time.Second)
	for n, low := int64(0), at(1); n != 2 || low != at(3); {
		var err error
		if n, low, _, err = l.PendingSummary(t.Context(), "g"); err != nil || time.Now().After(deadline) {
			t.Fatalf("%d pending from %v, %v", n, low, err)
		}
	}
	entries, err := g.TakeAhead()
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, idsOf(entries), 3, 4)
	if g.Acked() != 2 || g.LostAcks() != 0 {
		t.Errorf("acked %d, lost %d", g.Acked(), g.LostAcks())
	}
	if err := g.ReadAhead(2); err != nil {
		t.Fatal(err)
	}
	if entries, err = g.TakeAhead(); err != nil {
		t.Fatal(err)
	}
	wantIDs(t, idsOf(entries), 5)
	// Nothing new: no wait, no entries, and the reader goes on.
	if err := g.ReadAhead(2); err != nil {
		t.Fatal(err)
	}
	if entries, err = g.TakeAhead(); entries != nil || err != nil {
		t.Errorf("of nothing: %v, %v", entries, err)
	}
	if err := g.ReadAhead(0); Classify(err) != Caller {
		t.Errorf("count 0: %v", err)
	}
}

// The limit for an answer counts from when it is asked for, not from when the
// question was sent: the caller may have been busy for longer than that.
func TestTakeAheadOutlivesTheLimitOfTheSend(t *testing.T) {
	_, l := realLog(t)
	fill(t, l, 1, 2)
	createGroup(t, l, "g", Head())
	g := readerOf(t, l, "g", "c")
	g.w.timeout = 50 * time.Millisecond
	if err := g.ReadAhead(2); err != nil {
		t.Fatal(err)
	}
	<-time.After(120 * time.Millisecond)
	entries, err := g.TakeAhead()
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, idsOf(entries), 1, 2)
}

func TestTakeAheadWithoutGroupOrConnection(t *testing.T) {
	_, l := realLog(t)
	fill(t, l, 1, 1)
	g := readerOf(t, l, "g", "c")
	if err := g.ReadAhead(2); err != nil {
		t.Fatal(err)
	}
	if _, err := g.TakeAhead(); !errors.Is(err, evtlog.ErrNoGroup) {
		t.Errorf("without a group: %v", err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if err := g.ReadAhead(2); !errors.Is(err, evtlog.ErrUnavailable) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := g.TakeAhead(); !errors.Is(err, evtlog.ErrUnavailable) {
		t.Errorf("after Close: %v", err)
	}
}

// Two answers may be outstanding, and are taken in order.
func TestAwaitAheadLetsTheNextReadGo(t *testing.T) {
	_, l := realLog(t)
	fill(t, l, 1, 5)
	createGroup(t, l, "g", Head())
	g := readerOf(t, l, "g", "c")
	if _, err := g.ReadNew(1, 0); err != nil {
		t.Fatal(err)
	}
	g.Ack(at(1))
	if err := g.ReadAhead(2); err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]int{{2, 3}, {4, 5}, nil} {
		if err := g.AwaitAhead(); err != nil {
			t.Fatal(err)
		}
		// The acknowledgements in front of the entries are booked by now.
		if want := int64(i + 1); g.Acked() != want {
			t.Errorf("acked %d, want %d", g.Acked(), want)
		}
		g.Ack(at(i + 2))
		if err := g.ReadAhead(2); err != nil {
			t.Fatal(err)
		}
		entries, err := g.TakeAhead()
		if err != nil {
			t.Fatal(err)
		}
		wantIDs(t, idsOf(entries), want...)
	}
	if entries, err := g.TakeAhead(); err != nil || entries != nil {
		t.Fatalf("%v, %v", entries, err)
	}
	if g.Acked() != 4 || g.LostAcks() != 0 {
		t.Errorf("acked %d, lost %d", g.Acked(), g.LostAcks())
	}
	if err := g.FlushAcks(); err != nil {
		t.Fatal(err)
	}
}
