package redislog

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

// The stand-in serves demonstrations. What is tested here is that everything
// works on it, and where it knows less the answer says so.

func miniLog(t *testing.T) *Log {
	t.Helper()
	m := miniredis.RunT(t)
	return openAt(t, Config{URL: "redis://" + m.Addr()}).Log(feed(t))
}

func TestMiniredisStream(t *testing.T) {
	l := miniLog(t)
	if last, err := l.Last(t.Context()); err != nil || !last.IsZero() {
		t.Fatalf("%v, %v", last, err)
	}
	if info, err := l.Info(t.Context()); err != nil || info.Exists {
		t.Fatalf("%+v, %v", info, err)
	}
	fill(t, l, 1, 9)
	if last, err := l.Last(t.Context()); err != nil || last != at(9) {
		t.Fatalf("%v, %v", last, err)
	}
	if info, err := l.Info(t.Context()); err != nil || info.Length != 9 || info.First != at(1) || info.Newest != at(9) || info.Last != at(9) {
		t.Fatalf("%+v, %v", info, err)
	}
	page, floor, err := l.Page(t.Context(), at(2), at(5), 10)
	if err != nil || !floor.IsZero() {
		t.Fatalf("%v, %v", floor, err)
	}
	wantIDs(t, recordIDs(page), 3, 4, 5)
	page, err = l.PageBefore(t.Context(), evtid.ID{}, evtid.Max, 2)
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, recordIDs(page), 9, 8)
	found, err := l.Lookup(t.Context(), at(4))
	if err != nil || !found.Found || found.Top != at(9) {
		t.Fatalf("%+v, %v", found, err)
	}
	w := writerOf(t, l)
	if err := appendOne(w, 9); !errors.Is(err, evtlog.ErrNonMonotonic) {
		t.Fatalf("again: %v", err)
	}
	if w.ClientID() != 0 {
		t.Fatalf("client id %d", w.ClientID())
	}
	if info, err := l.c.Server(t.Context()); err != nil || info.Version != "" || len(info.Warnings) != 1 {
		t.Fatalf("%+v, %v", info, err)
	}
	if names, err := l.c.Streams(t.Context(), "cm"); err != nil || fmt.Sprint(names) != "[feed]" {
		t.Fatalf("%v, %v", names, err)
	}
	if n, err := l.Trim(t.Context(), TrimPolicy{MaxLen: 4, Exact: true}); err != nil || n != 5 {
		t.Fatalf("%d, %v", n, err)
	}
	if _, found, err := l.FirstForeign(t.Context()); err != nil || found {
		t.Fatalf("%v, %v", found, err)
	}
}

// TestMiniredisTrimThrough: a group's position cannot be moved there, so each
// trim records what it takes itself, and nothing twice.
func TestMiniredisTrimThrough(t *testing.T) {
	l := miniLog(t)
	fill(t, l, 1, 9)
	createGroup(t, l, "stalled", Head())
	createGroup(t, l, "half", Head())
	half := readerOf(t, l, "half", "c")
	if _, err := half.ReadNew(4, 0); err != nil {
		t.Fatal(err)
	}
	half.Ack(ats(1, 3)...)
	if err := half.FlushAcks(); err != nil {
		t.Fatal(err)
	}
	if err := l.Seal(t.Context(), at(7)); err != nil {
		t.Fatal(err)
	}
	if err := l.Seal(t.Context(), at(6)); err != nil {
		t.Fatal("lower:", err)
	}
	if _, floor, err := l.Page(t.Context(), at(9), evtid.Max, 1); err != nil || floor != at(7) {
		t.Fatalf("floor %v, %v", floor, err)
	}
	for _, step := range []struct{ through, removed int }{{3, 3}, {3, 0}, {5, 2}, {6, 1}} {
		res, err := l.TrimThrough(t.Context(), at(step.through))
		if err != nil || res.Removed != int64(step.removed) {
			t.Fatalf("through %d: %+v, %v", step.through, res, err)
		}
	}
	for group, want := range map[string][]SkippedRange{
		"stalled": {{at(1).Prev(), at(3)}, {at(4).Prev(), at(5)}, {at(6).Prev(), at(6)}},
		"half":    {{at(2).Prev(), at(2)}, {at(4).Prev(), at(4)}, span(4, 5), {at(6).Prev(), at(6)}},
	} {
		if got, err := l.SkippedRanges(t.Context(), group); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, %v; want %v", group, got, err, want)
		}
	}
	entries, err := readerOf(t, l, "stalled", "c").ReadNew(10, 0)
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, idsOf(entries), 7, 8, 9)
	createGroup(t, l, "late", Head())
	if got, err := l.SkippedRanges(t.Context(), "late"); err != nil || fmt.Sprint(got) != fmt.Sprint([]SkippedRange{span(-1, 7)}) {
		t.Fatalf("%v, %v", got, err)
	}
}

func TestMiniredisGroups(t *testing.T) {
	l := miniLog(t)
	fill(t, l, 1, 6)
	createGroup(t, l, "g", Head())
	createGroup(t, l, "new", New())
	if created, err := l.CreateGroup(t.Context(), "g", Head()); err != nil || created {
		t.Fatalf("%v, %v", created, err)
	}
	g := readerOf(t, l, "g", "a")
	entries, err := g.ReadNew(4, 10*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, idsOf(entries), 1, 2, 3, 4)
	g.Ack(ats(1, 2)...)
	pending, err := g.ReadPending(evtid.ID{}, 10)
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, idsOf(pending), 3, 4)
	if still, err := l.Renew(t.Context(), "g", "a", ats(2, 3), time.Minute); err != nil || len(still) != 1 || still[0] != at(3) {
		t.Fatalf("%v, %v", still, err)
	}
	if step, err := l.ClaimIdle(t.Context(), "g", "b", 0, "", 10); err != nil || len(step.Claimed) != 2 {
		t.Fatalf("%+v, %v", step, err)
	}
	if n, low, high, err := l.PendingSummary(t.Context(), "g"); err != nil || n != 2 || low != at(3) || high != at(4) {
		t.Fatalf("%d %v %v %v", n, low, high, err)
	}
	if list, err := l.Pending(t.Context(), "g", at(3), 10, "b", 0); err != nil || len(list) != 1 || list[0].ID != at(4) {
		t.Fatalf("%+v, %v", list, err)
	}
	groups, err := l.Groups(t.Context())
	if err != nil || len(groups) != 2 || groups[0].EntriesRead != -1 {
		t.Fatalf("%+v, %v", groups, err)
	}
	if members, err := l.Members(t.Context(), "g"); err != nil || len(members) != 2 {
		t.Fatalf("%+v, %v", members, err)
	}
	if entries, err := g.ReadNew(10, 20*time.Millisecond); err != nil || len(entries) != 2 {
		t.Fatalf("%v, %v", entries, err)
	}
	if entries, err := g.ReadNew(10, 20*time.Millisecond); err != nil || entries != nil {
		t.Fatalf("%v, %v", entries, err)
	}
	if err := l.DeleteMember(t.Context(), "g", "b"); err == nil {
		t.Fatal("a member with pending entries was removed")
	}
	if ok, err := l.AcquireLease(t.Context(), "x", "a", time.Minute); err != nil || !ok {
		t.Fatalf("%v, %v", ok, err)
	}
	if ok, err := l.AcquireLease(t.Context(), "x", "b", time.Minute); err != nil || ok {
		t.Fatalf("%v, %v", ok, err)
	}
	if err := l.DestroyGroup(t.Context(), "new"); err != nil {
		t.Fatal(err)
	}
	if _, err := readerOf(t, l, "gone", "a").ReadNew(1, 0); !errors.Is(err, evtlog.ErrNoGroup) {
		t.Fatalf("no group: %v", err)
	}
}

func TestMiniredisAnnouncements(t *testing.T) {
	l := miniLog(t)
	s := subscribe(t, l.c)
	s.every = 100 * time.Millisecond
	if _, err := s.Receive(within(t, 350*time.Millisecond)); isConnError(err) {
		t.Fatalf("silence: %v", err)
	}
	w := writerOf(t, l)
	w.Append(at(1), nil)
	w.Publish([]byte("hello"))
	w.Wait(0, time.Millisecond)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := w.ReceiveAppend(at(1)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int64{1, 0} {
		if n, err := w.ReceiveInt(); err != nil || n != want {
			t.Fatalf("%d, %v", n, err)
		}
	}
	if got, err := s.Receive(t.Context()); err != nil || string(got) != "hello" {
		t.Fatalf("%q, %v", got, err)
	}
}

func TestMiniredisMadeButNeverWritten(t *testing.T) {
	l := miniLog(t)
	if _, err := l.CreateGroup(t.Context(), "g", Head()); err != nil {
		t.Fatal(err)
	}
	if last, err := l.Last(t.Context()); err != nil || !last.IsZero() {
		t.Fatalf("%v, %v", last, err)
	}
	if info, err := l.Info(t.Context()); err != nil || !info.Exists || info.Length != 0 {
		t.Fatalf("%+v, %v", info, err)
	}
}
