package redislog

import (
	"slices"
	"testing"
	"time"

	"github.com/evtlog/evtlog/evtid"
)

// pendingOwners lists what is pending and for whom.
func pendingOwners(t *testing.T, l *Log) map[evtid.ID]string {
	t.Helper()
	entries, err := l.Pending(t.Context(), "g", evtid.ID{}, 100, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	owners := map[evtid.ID]string{}
	for _, p := range entries {
		owners[p.ID] = p.Consumer
	}
	return owners
}

func wantRanges(t *testing.T, l *Log, want ...SkippedRange) {
	t.Helper()
	ranges, err := l.SkippedRanges(t.Context(), "g")
	if err != nil || !slices.Equal(ranges, want) {
		t.Errorf("recorded %v, %v; want %v", ranges, err, want)
	}
}

func noneKept(evtid.ID) bool { return false }

// TestClaimIdle takes over without counting a delivery, and records what was
// trimmed.
func TestClaimIdle(t *testing.T) {
	srv, l := realLog(t)
	fill(t, l, 1, 3)
	srv.Do("XADD", l.stream.Key(), "1746090000003-9999999", "k", "v")
	fill(t, l, 4, 5)
	createGroup(t, l, "g", Head())
	if _, err := readerOf(t, l, "g", "dead").ReadNew(10, 0); err != nil {
		t.Fatal(err)
	}
	srv.Do("XTRIM", l.stream.Key(), "MINID", at(2).Entry())
	srv.Do("XDEL", l.stream.Key(), at(5).Entry())
	step, err := l.ClaimIdle(t.Context(), "g", "live", 0, "", 10)
	if err != nil || step.Cursor != "" || len(step.Claimed) != 4 {
		t.Fatalf("%+v, %v", step, err)
	}
	wantIDs(t, pendingIDsOf(step.Trimmed), 1)
	wantIDs(t, pendingIDsOf(step.Dropped), 5)
	wantRanges(t, l, SkippedRange{After: at(1).Prev(), To: at(1)})
	if step.Claimed[0].ID != at(2) || step.Claimed[2].Raw != "1746090000003-9999999" || !step.Claimed[2].ID.IsZero() {
		t.Fatalf("%+v", step.Claimed)
	}
	entries, err := l.Pending(t.Context(), "g", evtid.ID{}, 10, "", 0)
	if err != nil || len(entries) != 4 || entries[0].Attempts != 1 || entries[0].Consumer != "live" {
		t.Fatalf("%+v, %v", entries, err)
	}
}

// TestClaimIdleGoesOnWhereItStopped: a step is bounded by what it takes and by
// what it looks at.
func TestClaimIdleGoesOnWhereItStopped(t *testing.T) {
	_, l := realLog(t)
	fill(t, l, 1, 60)
	createGroup(t, l, "g", Head())
	if _, err := readerOf(t, l, "g", "dead").ReadNew(60, 0); err != nil {
		t.Fatal(err)
	}
	claimed, cursor, steps := 0, "", 0
	for ; steps == 0 || cursor != ""; steps++ {
		step, err := l.ClaimIdle(t.Context(), "g", "live", 0, cursor, 4)
		if err != nil || len(step.Claimed) > 4 {
			t.Fatalf("%+v, %v", step, err)
		}
		claimed, cursor = claimed+len(step.Claimed), step.Cursor
		if steps > 40 {
			t.Fatal("the sweep does not end")
		}
	}
	if claimed < 60 || len(pendingOwners(t, l)) != 60 {
		t.Errorf("%d claimed in %d steps", claimed, steps)
	}
	// Nothing is idle: a step looks at no more than it has to.
	step, err := l.ClaimIdle(t.Context(), "g", "other", time.Hour, "", 4)
	if err != nil || len(step.Claimed) != 0 || step.Cursor != at(41).Entry() {
		t.Errorf("%+v, %v", step, err)
	}
}

// TestTrimmedEntriesInHandStay: what a member names in its hold stays with it,
// however long it has not touched it, and also if a peer sweeps.
func TestTrimmedEntriesInHandStay(t *testing.T) {
	srv, l := realLog(t)
	fill(t, l, 1, 4)
	createGroup(t, l, "g", Head())
	if _, err := readerOf(t, l, "g", "busy").ReadNew(4, 0); err != nil {
		t.Fatal(err)
	}
	srv.Do("XTRIM", l.stream.Key(), "MAXLEN", "0")
	if _, err := l.Renew(t.Context(), "g", "busy", ats(2, 3), time.Minute); err != nil {
		t.Fatal(err)
	}
	step, err := l.ClaimIdle(t.Context(), "g", "peer", 0, "", 10)
	if err != nil || len(step.Claimed) != 0 {
		t.Fatalf("%+v, %v", step, err)
	}
	wantIDs(t, pendingIDsOf(step.Trimmed), 1, 4)
	taken, held, err := l.TakeTrimmed(t.Context(), "g", "peer", span(0, 4), 0, noneKept)
	if err != nil || len(taken) != 0 {
		t.Fatalf("%+v, %v", taken, err)
	}
	wantIDs(t, pendingIDsOf(held), 2, 3)
	if moved, err := l.HandOver(t.Context(), "g", "busy", "peer", 0); err != nil || moved != 0 {
		t.Errorf("%d moved, %v", moved, err)
	}
	if owners := pendingOwners(t, l); len(owners) != 2 || owners[at(2)] != "busy" {
		t.Errorf("pending: %v", owners)
	}
	// Without the hold they are anybody's.
	srv.Do("DEL", l.stream.Lease("hold:g:busy"))
	taken, held, err = l.TakeTrimmed(t.Context(), "g", "peer", span(0, 4), 0, noneKept)
	if err != nil || len(held) != 0 || taken[0].Attempts != 1 {
		t.Fatalf("%+v, %v", held, err)
	}
	wantIDs(t, pendingIDsOf(taken), 2, 3)
	if owners := pendingOwners(t, l); len(owners) != 0 {
		t.Errorf("pending: %v", owners)
	}
}

// TestTakeTrimmedLeavesFreshEntries: a member that has just been given an entry
// has it in hand, and what the caller itself keeps is left as well.
func TestTakeTrimmedLeavesFreshEntries(t *testing.T) {
	srv, l := realLog(t)
	fill(t, l, 1, 4)
	createGroup(t, l, "g", Head())
	for _, name := range []string{"me", "other"} {
		if _, err := readerOf(t, l, "g", name).ReadNew(2, 0); err != nil {
			t.Fatal(err)
		}
	}
	srv.Do("XTRIM", l.stream.Key(), "MAXLEN", "0")
	taken, held, err := l.TakeTrimmed(t.Context(), "g", "me", span(0, 4), time.Hour, func(id evtid.ID) bool { return id == at(1) })
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, pendingIDsOf(taken), 2)
	wantIDs(t, pendingIDsOf(held), 1, 3, 4)
	// Only the part asked for is looked at.
	if taken, held, err = l.TakeTrimmed(t.Context(), "g", "me", span(2, 3), 0, noneKept); err != nil || len(held) != 0 || len(taken) != 1 {
		t.Errorf("%+v, %+v, %v", taken, held, err)
	}
}

// TestTakeTrimmedAgainstAHold: whichever of a taker and the owner's renewal is
// later sees the other.
func TestTakeTrimmedAgainstAHold(t *testing.T) {
	srv, l := realLog(t)
	fill(t, l, 1, 1)
	createGroup(t, l, "g", Head())
	for round := range 100 {
		if _, err := readerOf(t, l, "g", "owner").ReadNew(1, 0); err != nil {
			t.Fatal(err)
		}
		id := at(round + 1)
		srv.Do("XTRIM", l.stream.Key(), "MAXLEN", "0")
		srv.Do("DEL", l.stream.Lease("hold:g:owner"))
		still := make(chan []evtid.ID)
		go func() {
			ids, err := l.Renew(t.Context(), "g", "owner", []evtid.ID{id}, time.Minute)
			if err != nil {
				t.Error(err)
			}
			still <- ids
		}()
		taken, held, err := l.TakeTrimmed(t.Context(), "g", "peer", SkippedRange{After: id.Prev(), To: id}, 0, noneKept)
		if err != nil {
			t.Fatal(err)
		}
		if owned := len(<-still) == 1; owned == (len(taken) == 1) || owned != (len(held) == 1) {
			t.Fatalf("round %d: the owner has it: %v; taken %v, held %v", round, owned, taken, held)
		}
		srv.Do("XACK", l.stream.Key(), "g", id.Entry())
		fill(t, l, round+2, round+2)
	}
}

// TestSettleSkipped takes finished records out of what is recorded, and only
// trimmed ones.
func TestSettleSkipped(t *testing.T) {
	srv, l := realLog(t)
	fill(t, l, 1, 9)
	createGroup(t, l, "g", Head())
	srv.Do("XTRIM", l.stream.Key(), "MINID", at(8).Entry())
	if err := l.AddSkipped(t.Context(), "g", SkippedRange{After: at(3).Prev(), To: at(3)}, span(4, 7), span(8, 9)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := l.SettleSkipped(t.Context(), "g", ats(1, 3, 5, 9)); err != nil {
			t.Fatal(err)
		}
		wantRanges(t, l, span(8, 9), SkippedRange{After: at(4), To: at(5).Prev()}, span(5, 7))
	}
}

func TestPositionNeighbours(t *testing.T) {
	for _, c := range [][3]string{
		{"5-6", "5-7", "5-8"}, {"4-18446744073709551615", "5-0", "5-1"}, {"5-18446744073709551614", "5-18446744073709551615", "6-0"},
	} {
		if before, after := positionBefore(c[1]), positionAfter(c[1]); before != c[0] || after != c[2] {
			t.Errorf("%s lies between %s and %s", c[1], before, after)
		}
	}
}

func TestRangeWithout(t *testing.T) {
	for _, c := range []struct {
		r    SkippedRange
		out  []int
		want []SkippedRange
	}{
		{span(1, 4), nil, []SkippedRange{span(1, 4)}},
		{span(1, 4), []int{1, 5}, []SkippedRange{span(1, 4)}},
		{span(1, 4), []int{4}, []SkippedRange{{After: at(1), To: at(4).Prev()}}},
		{span(1, 4), []int{3, 2}, []SkippedRange{{After: at(1), To: at(2).Prev()}, {After: at(2), To: at(3).Prev()}, span(3, 4)}},
		{SkippedRange{After: at(4).Prev(), To: at(4)}, []int{4}, nil},
	} {
		if got := c.r.Without(ats(c.out...)); !slices.Equal(got, c.want) {
			t.Errorf("%v without %v = %v, want %v", c.r, c.out, got, c.want)
		}
	}
}

// TestSplitSkipped: only a range that is still recorded is split.
func TestSplitSkipped(t *testing.T) {
	_, l := realLog(t)
	if err := l.AddSkipped(t.Context(), "g", span(1, 4)); err != nil {
		t.Fatal(err)
	}
	want := []SkippedRange{{After: at(1), To: at(3).Prev()}, span(3, 4), {After: at(3).Prev(), To: at(3)}}
	for range 2 {
		if err := l.SplitSkipped(t.Context(), "g", span(1, 4), ats(3, 9)); err != nil {
			t.Fatal(err)
		}
		wantRanges(t, l, want...)
	}
	if err := l.SplitSkipped(t.Context(), "g", want[2], ats(3)); err != nil {
		t.Fatal(err)
	}
	wantRanges(t, l, want...)
}
