package streamconsumer

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

func newHand(ids ...evtid.ID) *hand {
	h := &hand{base: context.Background()}
	h.take(entriesOf(ids...), at(0))
	return h
}

func entriesOf(ids ...evtid.ID) (entries []redislog.Entry) {
	for _, id := range ids {
		entries = append(entries, redislog.Entry{Record: evtlog.Record{ID: id}})
	}
	return entries
}

func TestHandHoldsBatchAndRetries(t *testing.T) {
	h := newHand(append(tids(3, 1), evtid.ID{})...)
	h.postpone(tid(2), at(0), at(9))
	h.postpone(tid(1), at(0), at(9))
	equalIDs(t, "held: each once, in order, foreign ones not", h.held().ids, tids(1, 2, 3))
	var s Stats
	h.describe(&s)
	if s.InHand != 3 || s.Waiting != 2 || !s.Handling.IsZero() {
		t.Errorf("described as %+v", s)
	}
	h.offered()
	h.offered()
	h.settled(2)
	equalIDs(t, "held after two were settled", h.held().ids, tids(1, 2))
	h.rest()
	h.forget(tid(1))
	equalIDs(t, "held after the batch was dropped", h.held().ids, tids(2))
}

func TestHandLosesWhatIsNotRenewed(t *testing.T) {
	h := newHand(tids(1, 2, 3)...)
	h.postpone(tid(7), at(0), at(9))
	ctx, ok := h.begin(tid(1), false)
	if !ok {
		t.Fatal("a held entry cannot be begun")
	}
	asked := h.held()
	if lost := h.renewed(asked, tids(3)); lost != 3 {
		t.Errorf("%d lost, want 1, 2 and the waiting 7", lost)
	}
	if !errors.Is(context.Cause(ctx), ErrNotOwner) {
		t.Errorf("cause = %v", context.Cause(ctx))
	}
	if h.end() {
		t.Error("a lost entry is still owned at its end")
	}
	h.offered()
	if _, ok := h.begin(tid(2), false); ok {
		t.Error("a lost entry is begun")
	}
	h.offered()
	ctx, ok = h.begin(tid(3), false)
	if !ok || ctx.Err() != nil {
		t.Errorf("the next entry: %v, %v", ok, ctx.Err())
	}
	if !h.end() {
		t.Error("a renewed entry is not owned")
	}
	equalIDs(t, "held", h.held().ids, tids(3))
	// Taken again, it is owned again.
	h.take(entriesOf(tid(2)), at(6))
	if _, ok := h.begin(tid(2), false); !ok {
		t.Error("an entry that came back cannot be begun")
	}
}

// An acknowledgement can overtake a renewal: then nothing was lost.
func TestHandAcknowledgedIsNotLost(t *testing.T) {
	h := newHand(tids(1, 2)...)
	asked := h.held()
	h.offered()
	h.settled(1)
	if lost := h.renewed(asked, tids(2)); lost != 0 {
		t.Errorf("%d lost", lost)
	}
	asked = h.held()
	h.offered() // and the acknowledgement of 2 is on its way
	if lost := h.renewed(asked, nil); lost != 0 {
		t.Errorf("%d lost after all were offered", lost)
	}
}

// A proof of ownership is not one for what was taken after it was asked for.
func TestHandProofIsOnlyForWhatItWasAskedAbout(t *testing.T) {
	h := newHand(tids(1)...)
	asked := h.held()
	h.take(entriesOf(tid(2)), at(0))
	h.renewed(asked, tids(1))
	if since := h.unprovedFor(at(50)); since != 50*time.Second {
		t.Errorf("unproved for %s, want 50s", since)
	}
	asked = h.held()
	h.renewed(asked, tids(1, 2))
	if since := h.unprovedFor(asked.at); since != 0 {
		t.Errorf("unproved for %s after a renewal of everything", since)
	}
}

func TestHandCancelsOnlyTheRunningDelivery(t *testing.T) {
	h := newHand(tids(1, 2)...)
	if h.abort(tid(1), nil) {
		t.Error("aborted before it ran")
	}
	first, _ := h.begin(tid(1), false)
	if h.abort(tid(2), nil) || !h.abort(tid(1), nil) {
		t.Error("the wrong delivery was aborted")
	}
	if !errors.Is(context.Cause(first), context.Canceled) {
		t.Errorf("cause without one = %v", context.Cause(first))
	}
	if !h.end() {
		t.Error("a cancelled delivery is still owned")
	}
	second, _ := h.begin(tid(2), false)
	if second.Err() != nil {
		t.Error("the next delivery is cancelled with it")
	}
	if h.abort(tid(1), nil) {
		t.Error("aborted after its end")
	}
}

func TestHandSharesOneContextInABatch(t *testing.T) {
	h := newHand(tids(1, 2)...)
	first, _ := h.begin(tid(1), false)
	h.end()
	second, _ := h.begin(tid(2), false)
	h.end()
	if first != second {
		t.Error("each delivery has a context of its own")
	}
	h.take(entriesOf(tid(3)), at(1))
	third, _ := h.begin(tid(3), false)
	if first.Err() == nil || third.Err() != nil {
		t.Error("a batch's context does not end with it")
	}
}

func TestHandDisownsOnlyLeasedWork(t *testing.T) {
	h := newHand(tids(1)...)
	ctx, _ := h.begin(tid(1), false)
	h.disown()
	if ctx.Err() != nil || !h.end() {
		t.Error("a pending entry was disowned with the lease")
	}
	ctx, _ = h.begin(tid(9), true)
	h.disown()
	if !errors.Is(context.Cause(ctx), ErrNotOwner) || h.end() {
		t.Error("a leased record was not disowned")
	}
}

func TestHandDropNamesWhatIsOwed(t *testing.T) {
	h := newHand(append(tids(4, 5, 6), evtid.ID{})...)
	h.offered()
	h.postpone(tid(2), at(0), at(9))
	if low, high := h.drop(); low != tid(2) || high != tid(6) {
		t.Errorf("owed from %s to %s", low, high)
	}
	if low, high := h.drop(); !low.IsZero() || !high.IsZero() || len(h.held().ids) != 0 {
		t.Errorf("owed after that: from %s to %s, %v", low, high, h.held().ids)
	}
}

func TestAcksAreOwedAgainAfterABrokenConnection(t *testing.T) {
	a := acks{owed: tids(1), owedRaw: []string{"1-1"}, lost: 4}
	if f := a.take(2); f.offered != 2 {
		t.Errorf("the first flight: %+v", f)
	}
	a.owed = append(a.owed, tids(2)...)
	if f := a.take(5); f.offered != 3 {
		t.Errorf("the second flight: %+v", f)
	}
	a.owed, a.owedRaw = append(a.owed, tids(3)...), append(a.owedRaw, "5-0")
	a.again()
	equalIDs(t, "owed", a.owed, tids(1, 2, 3))
	if a.pending() != 5 || len(a.sent) != 0 || a.lost != 0 {
		t.Errorf("after again: %+v", a)
	}
	a.clear()
	if a.pending() != 0 {
		t.Errorf("after clear: %+v", a)
	}
}
