package streamconsumer

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/redislog"
)

func TestHeirAmong(t *testing.T) {
	members := []redislog.MemberInfo{{Name: "gone", Idle: 1}, {Name: "slow", Idle: time.Hour}, {Name: "quick", Idle: time.Second}}
	for name, tc := range map[string]struct{ leaving, asked, want string }{
		"the one active last":   {"gone", "", "quick"},
		"never the one leaving": {"quick", "", "gone"},
		"the one asked for":     {"gone", "slow", "slow"},
		"a stranger":            {"gone", "nobody", ""},
		"itself":                {"gone", "gone", ""},
	} {
		if got := heirAmong(members, tc.leaving, tc.asked); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	if got := heirAmong(members[:1], "gone", ""); got != "" {
		t.Errorf("alone: %q", got)
	}
}

// What is pending for a member that leaves is handled by those that stay, though
// part of it was trimmed.
func TestRetireLosesNothing(t *testing.T) {
	w := newWorld(t)
	ids := w.append(1500) // more than is handed over at a time
	w.abandon("gone", 1500)
	a := newMemory()
	w.archiveOnly(a, ids[9])
	w.trimForeign(ids[9])
	if _, err := Retire(t.Context(), w.log, Retirement{Group: testGroup, Member: "gone", MinIdle: time.Millisecond}); !errors.Is(err, ErrNoHeir) {
		t.Errorf("without a peer: %v", err)
	}
	var j journal
	peer := w.start("b", j.handle, withArchive(a), with(func(c *Config) { c.MinIdle = time.Minute }))
	more := w.append(1) // the server knows a member from its first entry on
	until(t, "the peer works", func() bool { return j.times(more[0]) == 1 })
	var busy *redislog.MemberBusyError
	if n, err := Retire(t.Context(), w.log, Retirement{Group: testGroup, Member: "gone"}); n != 0 || !errors.As(err, &busy) {
		t.Errorf("a member that may be at work: %d, %v", n, err)
	}
	n, err := Retire(t.Context(), w.log, Retirement{Group: testGroup, Member: "gone", MinIdle: time.Millisecond})
	if err != nil || n < 1490 { // the peer's beat may have found the trimmed ones before
		t.Fatalf("Retire = %d, %v", n, err)
	}
	members, err := w.log.Members(t.Context(), testGroup)
	if err != nil || len(members) != 1 || members[0].Name != "b" {
		t.Errorf("members = %v, %v", members, err)
	}
	peer.halt() // its next incarnation finds them under its own name
	w.start("b", j.handle, withArchive(a))
	until(t, "all are handled", func() bool { return w.settledAt(more[0]) })
	for i, id := range ids {
		if j.times(id) == 0 {
			t.Fatalf("entry %d was lost", i)
		}
	}
}

func TestRetireWithoutPendingEntries(t *testing.T) {
	w := newWorld(t)
	ids := w.append(1)
	var j journal
	m := w.start("a", j.handle)
	until(t, "it is handled", func() bool { return w.allDone(ids[0]) })
	m.halt()
	for range 2 { // once more is no error
		if n, err := Retire(context.Background(), w.log, Retirement{Group: testGroup, Member: "a"}); n != 0 || err != nil {
			t.Errorf("Retire = %d, %v", n, err)
		}
	}
	if _, err := Retire(context.Background(), w.log, Retirement{Group: "none", Member: "a"}); !errors.Is(err, evtlog.ErrNoGroup) {
		t.Errorf("without a group: %v", err)
	}
}
