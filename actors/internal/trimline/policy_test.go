package trimline

import (
	"errors"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/internal/fakelog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

var epoch = time.UnixMilli(evtid.EpochMillis)

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name string
		keep evtlog.Keep
		f    facts
		want step
	}{
		{"keep all", evtlog.Keep{}, facts{length: 1e6, slack: 1}, step{}},
		{"count: at the limit", evtlog.KeepLast(100), facts{length: 100, slack: 1}, step{}},
		{"count: below the limit", evtlog.KeepLast(100), facts{length: 3, slack: 1}, step{}},
		{"count: one over", evtlog.KeepLast(100), facts{length: 101, slack: 1}, step{way: fromHead, n: 1}},
		{"count: over, within the slack", evtlog.KeepLast(100), facts{length: 199, slack: 100}, step{}},
		{"count: over, at the slack", evtlog.KeepLast(100), facts{length: 200, slack: 100}, step{way: fromHead, n: 100}},
		{"count: more due than stays", evtlog.KeepLast(100), facts{length: 201, slack: 1}, step{way: fromTop, n: 100}},
		{"count: foreign entries below", evtlog.KeepLast(100), facts{length: 101, slack: 1, foreign: true}, step{way: fromTop, n: 100}},
		{"count: a long backlog", evtlog.KeepLast(1e6), facts{length: 2e6, slack: 1}, step{way: fromHead, n: maxWalk, more: true}},
		{"count: exactly one walk", evtlog.KeepLast(1e6), facts{length: 1e6 + maxWalk, slack: 1}, step{way: fromHead, n: maxWalk}},
		{"for: before the first id", evtlog.KeepFor(time.Hour), facts{now: epoch.Add(time.Hour)}, step{}},
		{"for", evtlog.KeepFor(time.Hour), facts{now: epoch.Add(time.Hour + 5*time.Millisecond)}, step{way: byTime, bound: millisecond(4)}},
		{"for: before 1970", evtlog.KeepFor(60 * 365 * 24 * time.Hour), facts{now: epoch}, step{}},
		{"since", evtlog.KeepSince(epoch.Add(7 * time.Millisecond)), facts{}, step{way: byTime, bound: millisecond(6)}},
		{"since: rounds down", evtlog.KeepSince(epoch.Add(7*time.Millisecond + 900*time.Microsecond)), facts{}, step{way: byTime, bound: millisecond(6)}},
		{"since: before 2024", evtlog.KeepSince(epoch.Add(-time.Hour)), facts{}, step{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := decide(c.keep, c.f)
			if err != nil || got != c.want {
				t.Fatalf("got %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

// millisecond returns the last id of the n-th millisecond.
func millisecond(n int64) evtid.ID {
	return evtid.Bound{Millis: evtid.EpochMillis + n, Tail: evtid.MaxTail}.Last()
}

func TestConfirmed(t *testing.T) {
	for _, c := range []struct {
		keep, walked, length int64
		want                 bool
	}{
		{100, 50, 150, true},
		{100, 50, 1000, true},
		{100, 50, 149, false}, // somebody else trimmed one meanwhile
		{100, 50, 0, false},
	} {
		if got := confirmed(c.keep, c.walked, c.length); got != c.want {
			t.Errorf("confirmed(%d, %d, %d) = %v", c.keep, c.walked, c.length, got)
		}
	}
}

func TestSlack(t *testing.T) {
	if got := Slack(evtlog.KeepLast(5)); got != NodeEntries {
		t.Errorf("approximate: %d", got)
	}
	if got := Slack(evtlog.Keep{Last: 5, Exact: true}); got != 1 {
		t.Errorf("exact: %d", got)
	}
}

func TestHolds(t *testing.T) {
	at := func(n int) Loss { return Loss{Known: fakelog.ID(n)} }
	now := epoch.Add(100 * time.Millisecond)
	for _, c := range []struct {
		name   string
		keep   evtlog.Keep
		l      Loss
		length int64
		want   bool
	}{
		{"all: nothing may go", evtlog.Keep{}, at(1), 1000, false},
		{"count: enough is left", evtlog.KeepLast(10), at(1), 10, true},
		{"count: too little is left", evtlog.KeepLast(10), at(1), 9, false},
		{"count: the top is gone", evtlog.KeepLast(10), Loss{Known: fakelog.ID(1), Top: true}, 10, false},
		{"for: old enough", evtlog.KeepFor(50 * time.Millisecond), at(49), 0, true},
		{"for: kept", evtlog.KeepFor(50 * time.Millisecond), at(50), 1000, false},
		{"since: old enough", evtlog.KeepSince(epoch.Add(7 * time.Millisecond)), at(6), 0, true},
		{"since: kept", evtlog.KeepSince(epoch.Add(7 * time.Millisecond)), at(7), 0, false},
	} {
		if got := Holds(c.keep, now, c.l, c.length); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestJudge(t *testing.T) {
	boom := errors.New("boom")
	name := evtlog.StreamName{Queue: "q", Name: "s"}
	effect := func(want, got string) error { return &redislog.TrimEffectError{Want: want, Got: got} }
	at := func(n int) string { return fakelog.ID(n).Entry() }
	for _, c := range []struct {
		name    string
		err     error
		missing evtid.ID
		fault   bool
		rest    error
	}{
		{name: "as asked"},
		{name: "not done", err: boom, rest: boom},
		{name: "one is left", err: effect(at(6), at(5))},
		{name: "all are left", err: effect("", at(1))},
		{name: "a foreign one is left", err: effect(at(6), "5-1")},
		{name: "one too many", err: effect(at(6), at(7)), missing: fakelog.ID(6), fault: true},
		{name: "all too many", err: effect(at(6), ""), missing: fakelog.ID(6), fault: true},
	} {
		fault, rest := Judge(name, fakelog.ID(5), c.err)
		if (fault != nil) != c.fault || !errors.Is(rest, c.rest) {
			t.Errorf("%s: %v, %v", c.name, fault, rest)
		}
		if fault != nil && (fault.Missing != c.missing || fault.Through != fakelog.ID(5) || fault.Stream != name) {
			t.Errorf("%s: %+v", c.name, fault)
		}
	}
}

func TestWatch(t *testing.T) {
	id, none := fakelog.ID, evtid.ID{}
	for _, c := range []struct {
		name           string
		oldest, newest evtid.ID
		first, last    evtid.ID
		want           Loss
		ok             bool
	}{
		{name: "nothing seen", first: id(5), last: id(9)},
		{name: "unchanged", oldest: id(3), newest: id(8), first: id(3), last: id(8)},
		{name: "appended", oldest: id(3), newest: id(8), first: id(3), last: id(20)},
		{name: "older ones are still there", oldest: id(3), newest: id(8), first: id(1), last: id(8)},
		{"head gone", id(3), id(8), id(6), id(8), Loss{After: id(3).Prev(), To: id(6).Prev(), Known: id(3)}, true},
		{"all gone, top kept", id(3), id(8), none, id(8), Loss{After: id(3).Prev(), To: id(8), Known: id(8), Top: true}, true},
		{"key gone", id(3), id(8), none, none, Loss{After: id(3).Prev(), To: id(8), Known: id(8), Top: true}, true},
		{"made anew below", id(3), id(8), id(1), id(2), Loss{After: id(3).Prev(), To: id(8), Known: id(8), Top: true}, true},
		{"made anew above", id(3), id(8), id(30), id(31), Loss{After: id(3).Prev(), To: id(30).Prev(), Known: id(3)}, true},
		{"older state", id(3), id(8), id(3), id(5), Loss{After: id(5), To: id(8), Known: id(8), Top: true}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var w Watch
			w.Saw(c.oldest, c.newest)
			got, ok := w.Gone(c.first, c.last)
			if got != c.want || ok != c.ok {
				t.Fatalf("got %+v %v, want %+v %v", got, ok, c.want, c.ok)
			}
		})
	}
}

func TestStall(t *testing.T) {
	var s Stall
	name := evtlog.StreamName{Queue: "q", Name: "s"}
	for i, c := range []struct {
		removed int64
		left    bool
		alarm   bool
	}{
		{0, true, false}, {0, true, false}, {0, true, true}, {0, true, true},
		{5, true, false}, {0, true, false}, {0, true, false},
		{0, false, false}, // somebody else trimmed it
		{0, true, false}, {0, true, false}, {0, true, true},
	} {
		if got := s.Note(name, fakelog.ID(1), c.removed, c.left) != nil; got != c.alarm {
			t.Fatalf("step %d: alarm %v", i, got)
		}
	}
}
