package redislog

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

func TestCreateGroup(t *testing.T) {
	srv, l := realLog(t)
	// The stream need not exist.
	createGroup(t, l, "early", Head())
	fill(t, l, 1, 6)
	createGroup(t, l, "head", Head())
	createGroup(t, l, "new", New())
	createGroup(t, l, "after", AfterID(at(4)))
	if created, err := l.CreateGroup(t.Context(), "head", New()); err != nil || created {
		t.Fatalf("an existing group: %v, %v", created, err)
	}
	for group, want := range map[string][]int{"early": {1, 2, 3, 4, 5, 6}, "head": {1, 2, 3, 4, 5, 6}, "new": nil, "after": {5, 6}} {
		entries, err := readerOf(t, l, group, "c").ReadNew(100, 0)
		if err != nil {
			t.Fatal(err)
		}
		wantIDs(t, idsOf(entries), want...)
	}
	fill(t, l, 7, 7)
	entries, err := readerOf(t, l, "new", "c").ReadNew(100, 0)
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, idsOf(entries), 7)
	if got := srv.Do("GET", l.stream.Epoch()); got != "4" {
		t.Errorf("the epoch is %s after 4 creations", got)
	}
	groups, err := l.Groups(t.Context())
	if err != nil || len(groups) != 4 {
		t.Fatalf("%+v, %v", groups, err)
	}
	for _, g := range groups {
		if g.Name == "after" && (g.LastDelivered != at(6) || g.Pending != 2 || g.Consumers != 1) {
			t.Errorf("%+v", g)
		}
	}
}

func TestCreateGroupRefuses(t *testing.T) {
	srv, l := realLog(t)
	if _, err := l.CreateGroup(t.Context(), "g", StartAt{}); Classify(err) != Caller {
		t.Errorf("no start: %v", err)
	}
	if _, err := l.CreateGroup(t.Context(), "a b", Head()); Classify(err) != Caller {
		t.Errorf("a bad name: %v", err)
	}
	srv.Do("SET", l.stream.Key(), "x")
	if _, err := l.CreateGroup(t.Context(), "g", Head()); !errors.Is(err, evtlog.ErrWrongType) {
		t.Errorf("another type: %v", err)
	}
	srv.Do("DEL", l.stream.Key())
	srv.Do("CONFIG", "SET", "maxmemory", "1")
	if _, err := l.CreateGroup(t.Context(), "g", Head()); !errors.Is(err, evtlog.ErrOutOfMemory) {
		t.Errorf("out of memory: %v", err)
	}
}

// TestCreateGroupBehindTheFloor: what was archived and trimmed is recorded as
// skipped, once, and not again when the group exists.
func TestCreateGroupBehindTheFloor(t *testing.T) {
	_, l := realLog(t)
	fill(t, l, 1, 9)
	if err := l.Seal(t.Context(), at(6)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.TrimThrough(t.Context(), at(6)); err != nil {
		t.Fatal(err)
	}
	createGroup(t, l, "head", Head())
	createGroup(t, l, "after", AfterID(at(4)))
	createGroup(t, l, "high", AfterID(at(8)))
	createGroup(t, l, "new", New())
	for range 3 {
		if created, err := l.CreateGroup(t.Context(), "head", Head()); err != nil || created {
			t.Fatalf("again: %v, %v", created, err)
		}
	}
	for group, want := range map[string]struct {
		ranges []SkippedRange
		reads  []int
	}{
		"head":  {[]SkippedRange{span(-1, 6)}, []int{7, 8, 9}},
		"after": {[]SkippedRange{span(4, 6)}, []int{7, 8, 9}},
		"high":  {nil, []int{9}},
		"new":   {nil, nil},
	} {
		ranges, err := l.SkippedRanges(t.Context(), group)
		if err != nil || fmt.Sprint(ranges) != fmt.Sprint(want.ranges) {
			t.Errorf("%s: %v, %v; want %v", group, ranges, err, want.ranges)
		}
		entries, err := readerOf(t, l, group, "c").ReadNew(100, 0)
		if err != nil {
			t.Fatal(err)
		}
		wantIDs(t, idsOf(entries), want.reads...)
	}
}

// TestCreateGroupRace: a foreign program creates the group between the look and
// the transaction; the range that was recorded with it is taken back.
func TestCreateGroupRace(t *testing.T) {
	srv, l := realLog(t)
	fill(t, l, 1, 9)
	if err := l.Seal(t.Context(), at(6)); err != nil {
		t.Fatal(err)
	}
	err := l.with(t.Context(), "test", func(s *session) error {
		srv.Do("XGROUP", "CREATE", l.stream.Key(), "g", "0")
		created, done, err := l.createPlanned(s, "g", planGroup(Head(), at(6), true))
		if created || !done {
			t.Errorf("created %v, done %v", created, done)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if ranges, err := l.SkippedRanges(t.Context(), "g"); err != nil || len(ranges) != 0 {
		t.Fatalf("%v, %v", ranges, err)
	}
}

// TestCreateGroupMeetsATrim: the epoch that a trim bumps stops a creation that
// read the floor before it.
func TestCreateGroupMeetsATrim(t *testing.T) {
	_, l := realLog(t)
	fill(t, l, 1, 9)
	err := l.with(t.Context(), "test", func(s *session) error {
		if _, err := s.do(command{"WATCH", l.stream.Epoch()}); err != nil {
			return err
		}
		exists, plan, err := l.groupFacts(t.Context(), s, "g", Head())
		if err != nil || exists {
			return fmt.Errorf("exists %v: %w", exists, err)
		}
		if _, err := l.TrimThrough(t.Context(), at(6)); err != nil {
			return err
		}
		created, done, err := l.createPlanned(s, "g", plan)
		if created || done {
			t.Errorf("created %v, done %v", created, done)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if groups, err := l.Groups(t.Context()); err != nil || len(groups) != 0 {
		t.Fatalf("%v, %v", groups, err)
	}
}

func TestDestroyGroup(t *testing.T) {
	srv, l := realLog(t)
	if err := l.DestroyGroup(t.Context(), "g"); !errors.Is(err, evtlog.ErrNoGroup) {
		t.Fatalf("no stream: %v", err)
	}
	createGroup(t, l, "g", Head())
	if err := l.AddSkipped(t.Context(), "g", span(1, 2)); err != nil {
		t.Fatal(err)
	}
	if err := l.DestroyGroup(t.Context(), "g"); err != nil {
		t.Fatal(err)
	}
	if got := srv.Do("EXISTS", l.stream.Skipped("g")); got != ":0" {
		t.Fatalf("its ranges are still there: %s", got)
	}
	if err := l.DestroyGroup(t.Context(), "g"); !errors.Is(err, evtlog.ErrNoGroup) {
		t.Fatalf("no group: %v", err)
	}
}

func TestGroupsWithoutStream(t *testing.T) {
	_, l := realLog(t)
	if groups, err := l.Groups(t.Context()); err != nil || len(groups) != 0 {
		t.Fatalf("groups: %v, %v", groups, err)
	}
	_, errMembers := l.Members(t.Context(), "g")
	_, errPending := l.Pending(t.Context(), "g", evtid.ID{}, 10, "", 0)
	_, _, _, errSummary := l.PendingSummary(t.Context(), "g")
	_, errRenew := l.Renew(t.Context(), "g", "c", ats(1), time.Second)
	errDelete := l.DeleteMember(t.Context(), "g", "c")
	for i, err := range []error{errMembers, errPending, errSummary, errRenew, errDelete} {
		if !errors.Is(err, evtlog.ErrNoGroup) || Classify(err) != Topology {
			t.Errorf("%d: %v", i, err)
		}
	}
}

func TestPendingAndMembers(t *testing.T) {
	_, l := realLog(t)
	fill(t, l, 1, 6)
	createGroup(t, l, "g", Head())
	if n, low, high, err := l.PendingSummary(t.Context(), "g"); err != nil || n != 0 || !low.IsZero() || !high.IsZero() {
		t.Fatalf("nothing pending: %d %v %v %v", n, low, high, err)
	}
	a, b := readerOf(t, l, "g", "a"), readerOf(t, l, "g", "b")
	if _, err := a.ReadNew(4, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := b.ReadNew(4, 0); err != nil {
		t.Fatal(err)
	}
	if n, low, high, err := l.PendingSummary(t.Context(), "g"); err != nil || n != 6 || low != at(1) || high != at(6) {
		t.Fatalf("%d %v %v %v", n, low, high, err)
	}
	members, err := l.Members(t.Context(), "g")
	if err != nil || len(members) != 2 || members[0].Name != "a" || members[0].Pending != 4 || members[1].Pending != 2 || members[0].Idle < 0 || members[0].Idle > time.Minute {
		t.Fatalf("%+v, %v", members, err)
	}
	for _, c := range []struct {
		after    evtid.ID
		n        int
		consumer string
		idle     time.Duration
		want     []int
	}{
		{evtid.ID{}, 100, "", 0, []int{1, 2, 3, 4, 5, 6}},
		{evtid.ID{}, 2, "", 0, []int{1, 2}},
		{at(2), 2, "", 0, []int{3, 4}},
		{at(2), 100, "b", 0, []int{5, 6}},
		{at(6), 100, "", 0, nil},
		{evtid.Max, 100, "", 0, nil},
		{evtid.ID{}, 100, "nobody", 0, nil},
		{evtid.ID{}, 100, "", time.Hour, nil},
	} {
		entries, err := l.Pending(t.Context(), "g", c.after, c.n, c.consumer, c.idle)
		if err != nil {
			t.Fatal(err)
		}
		var ids []evtid.ID
		for _, e := range entries {
			ids = append(ids, e.ID)
			if e.Attempts != 1 || e.Raw != "" || e.Consumer != map[bool]string{true: "a", false: "b"}[e.ID.Less(at(5))] {
				t.Errorf("%+v", e)
			}
		}
		wantIDs(t, ids, c.want...)
	}
	for _, bad := range []func() error{
		func() error { _, err := l.Pending(t.Context(), "g", evtid.ID{}, 0, "", 0); return err },
		func() error { _, err := l.Pending(t.Context(), "g", evtid.ID{}, 1, "a b", 0); return err },
		func() error { _, err := l.Pending(t.Context(), "a b", evtid.ID{}, 1, "", 0); return err },
		func() error { _, err := l.Members(t.Context(), ""); return err },
		func() error { _, err := l.NewGroupReader(t.Context(), "g", "a:b"); return err },
		func() error { return l.RemoveSkipped(t.Context(), "a:b", span(1, 2)) },
		func() error { return l.AddSkipped(t.Context(), "g", span(2, 2)) },
	} {
		if err := bad(); Classify(err) != Caller {
			t.Errorf("got %v", err)
		}
	}
}

func TestRenew(t *testing.T) {
	srv, l := realLog(t)
	fill(t, l, 1, 6)
	createGroup(t, l, "g", Head())
	a, b := readerOf(t, l, "g", "a"), readerOf(t, l, "g", "b")
	if _, err := a.ReadNew(5, 0); err != nil {
		t.Fatal(err)
	}
	// b has taken 2; 3 is acknowledged; the body of 1 is trimmed; 6 was never read.
	srv.Do("XCLAIM", l.stream.Key(), "g", "b", "0", at(2).Entry())
	a.Ack(at(3))
	if err := a.FlushAcks(); err != nil {
		t.Fatal(err)
	}
	srv.Do("XTRIM", l.stream.Key(), "MINID", at(2).Entry())
	soon(t, "the entries have been idle", func() bool {
		entries, err := l.Pending(t.Context(), "g", evtid.ID{}, 10, "a", 150*time.Millisecond)
		return err == nil && len(entries) == 3
	})
	still, err := l.Renew(t.Context(), "g", "a", ats(6, 5, 4, 3, 2, 1), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, still, 1, 4, 5)
	if named := srv.Do("GET", l.stream.Lease("hold:g:a")); named != at(1).Entry() {
		t.Errorf("the hold names %v, want the trimmed entry", named)
	}
	for n, wantOwner := range map[int]string{1: "a", 2: "b", 4: "a", 5: "a"} {
		entries, err := l.Pending(t.Context(), "g", at(n).Prev(), 1, "", 0)
		if err != nil || len(entries) != 1 || entries[0].Consumer != wantOwner {
			t.Fatalf("%d: %+v, %v", n, entries, err)
		}
		// Renewing is no delivery, and makes the idle time start anew.
		if wantOwner == "a" && entries[0].Attempts != 1 {
			t.Errorf("%d: %+v", n, entries[0])
		}
		if n >= 4 && entries[0].Idle >= 150*time.Millisecond {
			t.Errorf("%d was not renewed: %+v", n, entries[0])
		}
	}
	if still, err := l.Renew(t.Context(), "g", "a", nil, time.Minute); err != nil || still != nil {
		t.Fatalf("nothing to renew: %v, %v", still, err)
	}
	_ = b
}

func TestDeleteMember(t *testing.T) {
	_, l := realLog(t)
	fill(t, l, 1, 2)
	createGroup(t, l, "g", Head())
	a := readerOf(t, l, "g", "a")
	if _, err := a.ReadNew(10, 0); err != nil {
		t.Fatal(err)
	}
	var busy *MemberBusyError
	if err := l.DeleteMember(t.Context(), "g", "a"); !errors.As(err, &busy) || busy.Member != "a" {
		t.Fatalf("with pending entries: %v", err)
	}
	if n, _, _, err := l.PendingSummary(t.Context(), "g"); err != nil || n != 2 {
		t.Fatalf("%d pending, %v", n, err)
	}
	a.Ack(ats(1, 2)...)
	if err := a.FlushAcks(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := l.DeleteMember(t.Context(), "g", "a"); err != nil {
			t.Fatal(err)
		}
	}
	if members, err := l.Members(t.Context(), "g"); err != nil || len(members) != 0 {
		t.Fatalf("%v, %v", members, err)
	}
}

func TestLease(t *testing.T) {
	srv, l := realLog(t)
	acquire := func(owner string, want bool) {
		t.Helper()
		got, err := l.AcquireLease(t.Context(), "skip:g", owner, time.Minute)
		if err != nil || got != want {
			t.Fatalf("%s: %v, %v", owner, got, err)
		}
	}
	acquire("a", true)
	acquire("b", false)
	acquire("a", true)
	if err := l.ReleaseLease(t.Context(), "skip:g", "b"); err != nil {
		t.Fatal(err)
	}
	acquire("b", false)
	if err := l.ReleaseLease(t.Context(), "skip:g", "a"); err != nil {
		t.Fatal(err)
	}
	acquire("b", true)
	// It ends by itself.
	srv.Do("PEXPIRE", l.stream.Lease("skip:g"), "1")
	soon(t, "the lease has ended", func() bool { return srv.Do("EXISTS", l.stream.Lease("skip:g")) == ":0" })
	acquire("a", true)
	for _, bad := range []func() (bool, error){
		func() (bool, error) { return l.AcquireLease(t.Context(), "x", "", time.Second) },
		func() (bool, error) { return l.AcquireLease(t.Context(), "x", "a", 0) },
	} {
		if got, err := bad(); got || Classify(err) != Caller {
			t.Errorf("%v, %v", got, err)
		}
	}
}

// TestLeaseIsForOne: of many members at once, one gets it.
func TestLeaseIsForOne(t *testing.T) {
	_, l := realLog(t)
	got := make(chan bool)
	for n := range 8 {
		go func() {
			ok, err := l.AcquireLease(t.Context(), "x", fmt.Sprint("m", n), time.Minute)
			if err != nil {
				t.Error(err)
			}
			got <- ok
		}()
	}
	holders := 0
	for range 8 {
		if <-got {
			holders++
		}
	}
	if holders != 1 {
		t.Fatalf("%d holders", holders)
	}
}

func TestSkippedList(t *testing.T) {
	srv, l := realLog(t)
	if ranges, err := l.SkippedRanges(t.Context(), "g"); err != nil || len(ranges) != 0 {
		t.Fatalf("%v, %v", ranges, err)
	}
	want := func(ranges ...SkippedRange) {
		t.Helper()
		got, err := l.SkippedRanges(t.Context(), "g")
		if err != nil || fmt.Sprint(got) != fmt.Sprint(ranges) {
			t.Fatalf("%v, %v; want %v", got, err, ranges)
		}
	}
	if err := l.AddSkipped(t.Context(), "g", span(1, 5), span(7, 9), span(1, 5)); err != nil {
		t.Fatal(err)
	}
	want(span(1, 5), span(7, 9), span(1, 5))
	if err := l.ShrinkSkipped(t.Context(), "g", span(7, 9), at(8)); err != nil {
		t.Fatal(err)
	}
	want(span(1, 5), span(1, 5), span(8, 9))
	for _, step := range []func() error{
		func() error { return l.ShrinkSkipped(t.Context(), "g", span(8, 9), at(8)) }, // nothing done
		func() error { return l.ShrinkSkipped(t.Context(), "g", span(8, 9), at(9)) }, // all done
		func() error { return l.RemoveSkipped(t.Context(), "g", span(1, 5)) },
		func() error { return l.RemoveSkipped(t.Context(), "g", span(3, 4)) }, // not there
		func() error { return l.AddSkipped(t.Context(), "g") },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	want(span(1, 5))
	srv.Do("LPUSH", l.stream.Skipped("g"), "rubbish")
	got, err := l.SkippedRanges(t.Context(), "g")
	var odd *SkippedError
	if !errors.As(err, &odd) || odd.Text != "rubbish" || odd.Key != l.stream.Skipped("g") || len(got) != 1 || got[0] != span(1, 5) {
		t.Fatalf("%v, %v", got, err)
	}
	// More than one RPUSH carries.
	var many []SkippedRange
	for n := range 2*pushWords + 1 {
		many = append(many, span(2*n, 2*n+1))
	}
	if err := l.AddSkipped(t.Context(), "many", many...); err != nil {
		t.Fatal(err)
	}
	if got, err := l.SkippedRanges(t.Context(), "many"); err != nil || fmt.Sprint(got) != fmt.Sprint(many) {
		t.Fatalf("%d ranges, %v", len(got), err)
	}
}
