package redislog

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

func TestTrim(t *testing.T) {
	_, l := realLog(t)
	if n, err := l.Trim(t.Context(), TrimPolicy{MaxLen: 1}); err != nil || n != 0 {
		t.Fatalf("no stream: %d, %v", n, err)
	}
	fill(t, l, 1, 9)
	if n, err := l.Trim(t.Context(), TrimPolicy{MaxLen: 7, Exact: true}); err != nil || n != 2 {
		t.Fatalf("by length: %d, %v", n, err)
	}
	bound, err := evtid.Floor(at(5).Time())
	if err != nil {
		t.Fatal(err)
	}
	if n, err := l.Trim(t.Context(), TrimPolicy{MinID: bound, Exact: true}); err != nil || n != 2 {
		t.Fatalf("by id: %d, %v", n, err)
	}
	if info, err := l.Info(t.Context()); err != nil || info.First != at(5) || info.Length != 5 {
		t.Fatalf("%+v, %v", info, err)
	}
}

// TestApproximateTrimGoesOn beyond the server's limit of 100 nodes per call.
func TestApproximateTrimGoesOn(t *testing.T) {
	srv, l := realLog(t)
	srv.Do("CONFIG", "SET", "stream-node-max-entries", "100")
	fill(t, l, 1, 25_000)
	n, err := l.Trim(t.Context(), TrimPolicy{MaxLen: 50})
	if err != nil || n != 24_900 {
		t.Fatalf("%d removed, %v", n, err)
	}
}

func TestSeal(t *testing.T) {
	srv, l := realLog(t)
	check := func(w int) {
		t.Helper()
		_, floor, err := l.Page(t.Context(), evtid.ID{}, evtid.Max, 1)
		if err != nil || floor != at(w) {
			t.Fatalf("floor %v, %v", floor, err)
		}
		if got := srv.Do("GET", l.stream.Archived()); got != at(w).String() {
			t.Fatalf("archived %s", got)
		}
		if got := srv.Do("XLEN", l.stream.Floor()); got != ":1" {
			t.Fatalf("the floor has %s entries", got)
		}
	}
	for _, step := range []struct{ seal, want int }{{3, 3}, {3, 3}, {5, 5}, {4, 5}, {5, 5}, {9, 9}} {
		if err := l.Seal(t.Context(), at(step.seal)); err != nil {
			t.Fatal(err)
		}
		check(step.want)
	}
	srv.Do("SET", l.stream.Floor()+"x", "x")
	srv.Do("DEL", l.stream.Floor())
	srv.Do("SET", l.stream.Floor(), "x")
	if err := l.Seal(t.Context(), at(10)); !errors.Is(err, evtlog.ErrWrongType) {
		t.Fatalf("a floor of another type: %v", err)
	}
}

// TestXClaimMovesTheGroup pins what the recorded trim relies on: LASTID moves a
// group's position up and never down, claims nothing, and leaves no member once
// the helper is removed again.
func TestXClaimMovesTheGroup(t *testing.T) {
	srv, l := realLog(t)
	fill(t, l, 1, 9)
	createGroup(t, l, "g", Head())
	if _, err := readerOf(t, l, "g", "c").ReadNew(2, 0); err != nil {
		t.Fatal(err)
	}
	p := dialPlain(t, srv.Addr)
	for _, step := range []struct{ lastID, want int }{{5, 5}, {3, 5}, {5, 5}, {7, 7}} {
		got := p.do("XCLAIM", l.stream.Key(), "g", moverName, "0", "0-0", "LASTID", at(step.lastID).Entry(), "JUSTID")
		if got != "[]" {
			t.Fatalf("it claimed %s", got)
		}
		p.do("XGROUP", "DELCONSUMER", l.stream.Key(), "g", moverName)
		groups, err := l.Groups(t.Context())
		if err != nil || groups[0].LastDelivered != at(step.want) || groups[0].Pending != 2 || groups[0].Consumers != 1 {
			t.Fatalf("LASTID %d: %+v, %v", step.lastID, groups, err)
		}
	}
	entries, err := readerOf(t, l, "g", "c").ReadNew(100, 0)
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, idsOf(entries), 8, 9)
}

func TestTrimThrough(t *testing.T) {
	srv, l := realLog(t)
	if res, err := l.TrimThrough(t.Context(), at(5)); err != nil || !res.Through.IsZero() || res.Removed != 0 {
		t.Fatalf("no stream: %+v, %v", res, err)
	}
	fill(t, l, 1, 9)
	createGroup(t, l, "ahead", New())
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
	// Between two records: the newest record at or below is the target.
	res, err := l.TrimThrough(t.Context(), at(6).Next())
	if err != nil {
		t.Fatal(err)
	}
	want := TrimResult{Through: at(6), Removed: 6, Skipped: []Skipped{
		{Group: "half", Range: span(4, 6), Pending: ats(2, 4)},
		{Group: "stalled", Range: span(-1, 6)},
	}}
	if fmt.Sprint(res) != fmt.Sprint(want) {
		t.Fatalf("got %+v\nwant %+v", res, want)
	}
	for group, want := range map[string][]SkippedRange{
		"ahead": nil, "stalled": {span(-1, 6)},
		"half": {{at(2).Prev(), at(2)}, {at(4).Prev(), at(4)}, span(4, 6)},
	} {
		if got, err := l.SkippedRanges(t.Context(), group); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, %v; want %v", group, got, err, want)
		}
	}
	// A second trim records only what it takes, and one that takes nothing does
	// nothing.
	epoch := srv.Do("GET", l.stream.Epoch())
	if res, err := l.TrimThrough(t.Context(), at(6)); err != nil || res.Removed != 0 || len(res.Skipped) != 0 {
		t.Fatalf("again: %+v, %v", res, err)
	}
	if got := srv.Do("GET", l.stream.Epoch()); got != epoch {
		t.Fatalf("the epoch went from %s to %s", epoch, got)
	}
	res, err = l.TrimThrough(t.Context(), at(7))
	if err != nil || res.Removed != 1 || len(res.Skipped) != 2 || res.Skipped[0].Range != span(6, 7) || res.Skipped[0].Pending != nil || res.Skipped[1].Range != span(6, 7) {
		t.Fatalf("the next: %+v, %v", res, err)
	}
	members, err := l.Members(t.Context(), "stalled")
	if err != nil || len(members) != 0 {
		t.Fatalf("%+v, %v", members, err)
	}
	entries, err := readerOf(t, l, "stalled", "c").ReadNew(100, 0)
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, idsOf(entries), 8, 9)
	// Everything may go; the stream keeps its top.
	if res, err := l.TrimThrough(t.Context(), evtid.Max); err != nil || res.Through != at(9) || res.Removed != 2 {
		t.Fatalf("all: %+v, %v", res, err)
	}
	if last, err := l.Last(t.Context()); err != nil || last != at(9) {
		t.Fatalf("the top is %v, %v", last, err)
	}
	if _, err := l.TrimThrough(t.Context(), evtid.ID{}); Classify(err) != Caller {
		t.Fatalf("zero: %v", err)
	}
}

// TestTrimThroughManyPending: more pending entries than one page lists, and a
// foreign one among them.
func TestTrimThroughManyPending(t *testing.T) {
	srv, l := realLog(t)
	const n = 2*pendingPage + 7
	fill(t, l, 1, n)
	srv.Do("XADD", l.stream.Key(), fmt.Sprintf("%d-9999999", baseMillis+n), "k", "v")
	fill(t, l, n+1, n+2)
	createGroup(t, l, "g", Head())
	if _, err := readerOf(t, l, "g", "c").ReadNew(n+10, 0); err != nil {
		t.Fatal(err)
	}
	res, err := l.TrimThrough(t.Context(), at(n+1))
	if err != nil || res.Removed != n+2 || len(res.Skipped) != 1 || len(res.Skipped[0].Pending) != n+1 {
		t.Fatalf("removed %d, %d groups, %v", res.Removed, len(res.Skipped), err)
	}
	ranges, err := l.SkippedRanges(t.Context(), "g")
	if err != nil || len(ranges) != n+1 {
		t.Fatalf("%d ranges, %v", len(ranges), err)
	}
}

// TestTrimThroughRecordsWhatOthersTook: pending entries whose body a plain trim
// took are recorded at the next recorded one, once.
func TestTrimThroughRecordsWhatOthersTook(t *testing.T) {
	_, l := realLog(t)
	fill(t, l, 1, 9)
	createGroup(t, l, "g", Head())
	if _, err := readerOf(t, l, "g", "c").ReadNew(9, 0); err != nil {
		t.Fatal(err)
	}
	if err := l.AddSkipped(t.Context(), "g", span(0, 2)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Trim(t.Context(), TrimPolicy{MaxLen: 6, Exact: true}); err != nil {
		t.Fatal(err)
	}
	for through := 4; through <= 6; through++ {
		if _, err := l.TrimThrough(t.Context(), at(through)); err != nil {
			t.Fatal(err)
		}
	}
	want := []SkippedRange{span(0, 2)}
	for n := 3; n <= 6; n++ {
		want = append(want, SkippedRange{at(n).Prev(), at(n)})
	}
	if got, err := l.SkippedRanges(t.Context(), "g"); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%v, %v; want %v", got, err, want)
	}
}

// TestTrimThroughForeignEntries: what stands where no id can is removed with its
// neighbours, and there is nothing to record for it.
func TestTrimThroughForeignEntries(t *testing.T) {
	srv, l := realLog(t)
	srv.Do("XADD", l.stream.Key(), "5-5", "k", "v")
	createGroup(t, l, "g", Head())
	fill(t, l, 2, 2)
	srv.Do("XADD", l.stream.Key(), "1746090000002-9999999", "k", "v")
	fill(t, l, 4, 5)
	for _, step := range []struct {
		through int
		want    TrimResult
	}{
		{1, TrimResult{Removed: 1}},
		{2, TrimResult{Through: at(2), Removed: 1, Skipped: []Skipped{{Group: "g", Range: span(-1, 2)}}}},
		{3, TrimResult{Through: entryPos("1746090000002-4194303"), Removed: 1, Skipped: []Skipped{{Group: "g", Range: SkippedRange{at(2), entryPos("1746090000002-4194303")}}}}},
		{4, TrimResult{Through: at(4), Removed: 1, Skipped: []Skipped{{Group: "g", Range: SkippedRange{entryPos("1746090000002-4194303"), at(4)}}}}},
	} {
		res, err := l.TrimThrough(t.Context(), at(step.through))
		if err != nil || fmt.Sprint(res) != fmt.Sprint(step.want) {
			t.Fatalf("through %d: %+v, %v; want %+v", step.through, res, err, step.want)
		}
	}
}

// TestTrimThroughIsRepeated when another transaction comes in between, and gives
// up in the end.
func TestTrimThroughIsRepeated(t *testing.T) {
	srv, l := realLog(t)
	fill(t, l, 1, 3)
	err := l.with(t.Context(), "test", func(s *session) error {
		if _, err := s.do(command{"WATCH", l.stream.Epoch()}); err != nil {
			return err
		}
		facts, err := l.readTrimFacts(s, at(2))
		if err != nil {
			return err
		}
		srv.Do("INCR", l.stream.Epoch())
		_, done, err := s.optimistic(l.stream, facts.epoch, l.trimCommands(true, nil, facts.target)...)
		if done {
			t.Error("the transaction went through")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	tries := 0
	err = l.watching(t.Context(), "trim", []string{l.stream.Epoch()}, func(*session) (bool, error) {
		tries++
		return false, nil
	})
	if tries != optimisticTries || !errors.Is(err, evtlog.ErrUnavailable) || !strings.Contains(err.Error(), l.stream.Epoch()) {
		t.Fatalf("%d tries, %v", tries, err)
	}
	if info, err := l.Info(t.Context()); err != nil || info.Length != 3 {
		t.Fatalf("%+v, %v", info, err)
	}
}

// TestTrimWithoutMemory: a server at its limit refuses transactions; floor,
// records and trim still happen, in one step, and make room.
func TestTrimWithoutMemory(t *testing.T) {
	srv, l := realLog(t)
	fill(t, l, 1, 9)
	createGroup(t, l, "g", Head())
	if _, err := readerOf(t, l, "g", "c").ReadNew(2, 0); err != nil {
		t.Fatal(err)
	}
	srv.Do("CONFIG", "SET", "maxmemory", "1")
	if err := l.Seal(t.Context(), at(6)); err != nil {
		t.Fatal(err)
	}
	if err := l.Seal(t.Context(), at(5)); err != nil {
		t.Fatal("again, and lower:", err)
	}
	res, err := l.TrimThrough(t.Context(), at(6))
	if err != nil || res.Removed != 6 || len(res.Skipped) != 1 || res.Skipped[0].Range != span(2, 6) {
		t.Fatalf("%+v, %v", res, err)
	}
	srv.Do("CONFIG", "SET", "maxmemory", "0")
	ranges, err := l.SkippedRanges(t.Context(), "g")
	if want := []SkippedRange{{at(1).Prev(), at(1)}, {at(2).Prev(), at(2)}, span(2, 6)}; err != nil || fmt.Sprint(ranges) != fmt.Sprint(want) {
		t.Fatalf("%v, %v", ranges, err)
	}
	if _, floor, err := l.Page(t.Context(), evtid.ID{}, evtid.Max, 1); err != nil || floor != at(6) {
		t.Fatalf("floor %v, %v", floor, err)
	}
	if got := srv.Do("GET", l.stream.Archived()); got != at(6).String() {
		t.Fatalf("archived %s", got)
	}
	groups, err := l.Groups(t.Context())
	if err != nil || groups[0].LastDelivered != at(6) {
		t.Fatalf("%+v, %v", groups, err)
	}
}

// TestScriptHoldsToTheEpoch: without memory, too, a trim gives way to what came
// in between.
func TestScriptHoldsToTheEpoch(t *testing.T) {
	srv, l := realLog(t)
	fill(t, l, 1, 3)
	for i, epoch := range []string{"", "41", "42"} {
		want := epoch != "41"
		if i == 1 {
			srv.Do("SET", l.stream.Epoch(), "42")
		}
		err := l.with(t.Context(), "test", func(s *session) error {
			replies, done, err := s.bookkeeping(l.stream, epoch, []command{{"SET", l.stream.Archived(), "a\r\n\x00b"}, {"GET", "missing"}, {"LPUSH", l.stream.Archived(), "x"}})
			if done != want {
				t.Errorf("epoch %q: done %v", epoch, done)
			}
			if done && (s.refusal(replies[0]) != nil || !errors.Is(lookUpErr(s.refusal(replies[2])), evtlog.ErrWrongType)) {
				t.Errorf("answers %q", replies)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := dialPlain(t, srv.Addr).do("GET", l.stream.Archived()); got != `"a\r\n\x00b"` {
		t.Fatalf("words are not binary safe: %s", got)
	}
}

// TestTrimWithoutMemoryOrScripts: what every group is past still goes.
func TestTrimWithoutMemoryOrScripts(t *testing.T) {
	srv, _ := realLog(t)
	srv.Do("ACL", "SETUSER", "app", "on", ">pw", "~*", "&*", "+@all", "-eval")
	l := openAt(t, Config{URL: "redis://app:pw@" + srv.Addr}).Log(feed(t))
	fill(t, l, 1, 9)
	createGroup(t, l, "g", Head())
	createGroup(t, l, "done", New())
	c := readerOf(t, l, "g", "c")
	if _, err := c.ReadNew(5, 0); err != nil {
		t.Fatal(err)
	}
	c.Ack(ats(1, 2, 3)...)
	if err := c.FlushAcks(); err != nil {
		t.Fatal(err)
	}
	srv.Do("CONFIG", "SET", "maxmemory", "1")
	res, err := l.TrimThrough(t.Context(), at(8))
	if err != nil || res.Removed != 3 || res.Through != at(4).Prev() || len(res.Skipped) != 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	if res, err := l.TrimThrough(t.Context(), at(8)); !errors.Is(err, evtlog.ErrOutOfMemory) || res.Removed != 0 {
		t.Fatalf("nothing more is safe: %+v, %v", res, err)
	}
	if err := l.Seal(t.Context(), at(3)); !errors.Is(err, evtlog.ErrOutOfMemory) {
		t.Fatalf("seal: %v", err)
	}
}

// TestTrimEffect: a server that removes other entries than asked is found out.
func TestTrimEffect(t *testing.T) {
	_, l := realLog(t)
	entry := func(n int) any { return []any{[]any{[]byte(at(n).Entry()), []any{}}} }
	none := []any{}
	err := l.with(t.Context(), "test", func(s *session) error {
		for name, c := range map[string]struct {
			before, after any
			ok            bool
		}{
			"as asked": {entry(6), entry(6), true}, "emptied": {none, none, true},
			"too much": {entry(6), entry(7), false}, "everything": {entry(6), none, false}, "too little": {entry(6), entry(5), false},
		} {
			removed, err := l.trimEffect(s, at(5), []any{int64(1), c.before, int64(3), c.after})
			var effect *TrimEffectError
			if removed != 3 || c.ok != (err == nil) || !c.ok && (!errors.As(err, &effect) || Classify(err) != Terminal) {
				t.Errorf("%s: %d, %v", name, removed, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestTrimSparesRacingReads: entries that a group is given while a trim runs are
// recorded once too often at most, and never not at all.
func TestTrimSparesRacingReads(t *testing.T) {
	_, l := realLog(t)
	const n = 2000
	fill(t, l, 1, n)
	createGroup(t, l, "g", Head())
	seen := make(chan []evtid.ID)
	go func() {
		var ids []evtid.ID
		g, err := l.NewGroupReader(t.Context(), "g", "c")
		if err != nil {
			t.Error(err)
			close(seen)
			return
		}
		defer g.Close()
		for {
			entries, err := g.ReadNew(7, 0)
			if err != nil || len(entries) == 0 {
				break
			}
			ids = append(ids, idsOf(entries)...)
			g.Ack(idsOf(entries)...)
		}
		_ = g.FlushAcks()
		seen <- ids
	}()
	for through := 50; through <= n; through += 50 {
		if _, err := l.TrimThrough(t.Context(), at(through)); err != nil {
			t.Fatal(err)
		}
	}
	delivered := map[evtid.ID]bool{}
	for _, id := range <-seen {
		delivered[id] = true
	}
	ranges, err := l.SkippedRanges(t.Context(), "g")
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= n; i++ {
		covered := delivered[at(i)]
		for _, r := range ranges {
			covered = covered || r.After.Less(at(i)) && !r.To.Less(at(i))
		}
		if !covered {
			t.Fatalf("record %d was neither delivered nor recorded", i)
		}
	}
}
