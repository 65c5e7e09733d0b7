package redislog

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

func TestSeek(t *testing.T) {
	_, l := realLog(t)
	fill(t, l, 1, 10)
	createGroup(t, l, "g", Head())
	reader := readerOf(t, l, "g", "m")
	if entries, err := reader.ReadNew(8, 0); err != nil || len(entries) != 8 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	reader.Ack(ats(1, 2, 3, 4, 5, 6, 7)...)
	if err := reader.FlushAcks(); err != nil {
		t.Fatal(err)
	}
	dry, err := l.PlanSeek(t.Context(), "g", at(4))
	if err != nil {
		t.Fatal(err)
	}
	if groups, _ := l.Groups(t.Context()); groups[0].LastDelivered != at(8) {
		t.Errorf("the dry run moved the group to %v", groups[0].LastDelivered)
	}
	done, err := l.Seek(t.Context(), "g", at(4))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(done.Repeated, dry.Repeated) || done.At != dry.At || done.Pending != 1 || !slices.Equal(dry.Repeated, spans(4, 8)) {
		t.Errorf("dry %+v, done %+v", dry, done)
	}
	if err := l.CheckSeek(t.Context(), done); err != nil {
		t.Error(err)
	}
	entries, err := reader.ReadNew(10, 0)
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, idsOf(entries), 5, 6, 7, 8, 9, 10)
	if err := l.CheckSeek(t.Context(), done); err != nil {
		t.Errorf("after the members went on: %v", err)
	}
	if _, err := l.Seek(t.Context(), "g", at(99)); err != nil {
		t.Fatal(err)
	}
	fill(t, l, 11, 11)
	if entries, err = reader.ReadNew(10, 0); err != nil {
		t.Fatal(err)
	}
	wantIDs(t, idsOf(entries), 11)
	if _, err := l.Seek(t.Context(), "g", at(3)); err != nil {
		t.Fatal(err)
	}
	if err := l.CheckSeek(t.Context(), SeekPlan{Group: "g", At: at(9)}); err == nil {
		t.Error("a group that stands below the plan passes the check")
	}
}

// What lies below the floor becomes a skipped range; ranges below the target go.
func TestSeekBelowTheFloor(t *testing.T) {
	_, l := realLog(t)
	fill(t, l, 1, 10)
	createGroup(t, l, "g", Head())
	if err := l.Seal(t.Context(), at(6)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.TrimThrough(t.Context(), at(6)); err != nil {
		t.Fatal(err)
	}
	plan, err := l.Seek(t.Context(), "g", at(3))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(plan.Skipped, []SkippedRange{{To: at(3)}}) || len(plan.Repeated) != 0 || plan.At != at(6) {
		t.Errorf("plan = %+v", plan)
	}
	ranges, err := l.SkippedRanges(t.Context(), "g")
	if err != nil || !slices.Equal(ranges, spans(3, 6)) {
		t.Errorf("ranges = %v, %v; want (3, 6]", ranges, err)
	}
	if plan, err = l.Seek(t.Context(), "g", evtid.ID{}); err != nil || !slices.Equal(plan.Repeated, []SkippedRange{{To: at(3)}}) {
		t.Errorf("back to the head: %+v, %v", plan, err)
	}
	if plan, err = l.Seek(t.Context(), "g", at(8)); err != nil || len(plan.Ranges) != 0 {
		t.Errorf("forward: %+v, %v", plan, err)
	}
	if ranges, _ = l.SkippedRanges(t.Context(), "g"); len(ranges) != 0 {
		t.Errorf("ranges = %v, want none", ranges)
	}
}

// A trim that runs at the same time does not get between the facts and the move.
func TestSeekBesideTrims(t *testing.T) {
	_, l := realLog(t)
	fill(t, l, 1, 200)
	createGroup(t, l, "g", New())
	if err := l.Seal(t.Context(), at(200)); err != nil {
		t.Fatal(err)
	}
	var trims sync.WaitGroup
	trims.Go(func() {
		for n := 1; n <= 150; n++ {
			if _, err := l.TrimThrough(context.Background(), at(n)); err != nil {
				t.Errorf("trim: %v", err)
				return
			}
		}
	})
	for n := range 20 {
		if _, err := l.Seek(t.Context(), "g", at(1+n)); err != nil {
			t.Fatal(err)
		}
	}
	trims.Wait()
	ranges, err := l.SkippedRanges(t.Context(), "g")
	if err != nil {
		t.Fatal(err)
	}
	groups, err := l.Groups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	owed := normalRanges(append(ranges, SkippedRange{After: groups[0].LastDelivered, To: at(200)}))
	if !slices.Equal(owed, spans(20, 200)) {
		t.Errorf("owed after all: %v, want (20, 200]", owed)
	}
}

func TestSeekWithoutAGroup(t *testing.T) {
	_, l := realLog(t)
	if _, err := l.Seek(t.Context(), "g", at(1)); !errors.Is(err, evtlog.ErrNoGroup) {
		t.Errorf("without a stream: %v", err)
	}
	fill(t, l, 1, 1)
	if _, err := l.PlanSeek(t.Context(), "g", at(1)); !errors.Is(err, evtlog.ErrNoGroup) {
		t.Errorf("without the group: %v", err)
	}
	if _, err := l.PlanSeek(t.Context(), "a b", at(1)); err == nil {
		t.Error("a bad name was sent")
	}
}

func TestYield(t *testing.T) {
	_, l := realLog(t)
	fill(t, l, 1, 4)
	createGroup(t, l, "g", Head())
	mine := readerOf(t, l, "g", "mine")
	if _, err := mine.ReadNew(4, 0); err != nil {
		t.Fatal(err)
	}
	if err := l.Yield(t.Context(), "g", "mine", ats(2, 3, 9), time.Hour); err != nil {
		t.Fatal(err)
	}
	claimed, err := l.ClaimIdle(t.Context(), "g", "peer", time.Minute, "", 10)
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, pendingIDsOf(claimed.Claimed), 2, 3)
	// They are the peer's now, and cannot be yielded any more.
	if err := l.Yield(t.Context(), "g", "mine", ats(2), time.Hour); err != nil {
		t.Fatal(err)
	}
	pending, err := l.Pending(t.Context(), "g", evtid.ID{}, 10, "peer", 0)
	if err != nil || len(pending) != 2 || pending[0].Idle > time.Minute || pending[0].Attempts != 1 {
		t.Errorf("pending = %+v, %v", pending, err)
	}
}

func TestHandOver(t *testing.T) {
	server, l := realLog(t)
	fill(t, l, 1, 6)
	createGroup(t, l, "g", Head())
	gone := readerOf(t, l, "g", "gone")
	if _, err := gone.ReadNew(6, 0); err != nil {
		t.Fatal(err)
	}
	if n, err := l.HandOver(t.Context(), "g", "gone", "peer", time.Hour); n != 0 || err != nil {
		t.Errorf("moved %d of a member at work, %v", n, err)
	}
	server.Do("XTRIM", l.stream.Key(), "MINID", at(3).Entry()) // by a foreign program
	<-time.After(30 * time.Millisecond)
	n, err := l.HandOver(t.Context(), "g", "gone", "peer", 20*time.Millisecond)
	if n != 6 || err != nil {
		t.Fatalf("moved %d, %v; want 6", n, err)
	}
	ranges, err := l.SkippedRanges(t.Context(), "g")
	if err != nil || !slices.Equal(ranges, []SkippedRange{{After: at(1).Prev(), To: at(1)}, {After: at(2).Prev(), To: at(2)}}) {
		t.Errorf("trimmed entries are recorded as %v, %v", ranges, err)
	}
	pending, err := l.Pending(t.Context(), "g", evtid.ID{}, 10, "", 0)
	if err != nil || len(pending) != 4 || pending[0].Consumer != "peer" || pending[0].Attempts != 1 {
		t.Errorf("pending = %+v, %v", pending, err)
	}
	if err := l.DeleteMember(t.Context(), "g", "gone"); err != nil {
		t.Error(err)
	}
	claimed, err := l.ClaimIdle(t.Context(), "g", "peer", 20*time.Millisecond, "", 10)
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, pendingIDsOf(claimed.Claimed), 3, 4, 5, 6)
	if _, err := l.HandOver(t.Context(), "g", "peer", "peer", time.Second); err == nil {
		t.Error("handed over to itself")
	}
}
