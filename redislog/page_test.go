package redislog

import (
	"errors"
	"fmt"
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

func TestLast(t *testing.T) {
	srv, l := realLog(t)
	if last, err := l.Last(t.Context()); err != nil || !last.IsZero() {
		t.Fatalf("no stream: %v, %v", last, err)
	}
	fill(t, l, 1, 3)
	srv.Do("XTRIM", l.stream.Key(), "MAXLEN", "0")
	if last, err := l.Last(t.Context()); err != nil || last != at(3) {
		t.Fatalf("an emptied stream: %v, %v", last, err)
	}
	srv.Do("XADD", l.stream.Key(), "1746090000009-18446744073709551615", "k", "v")
	if last, err := l.Last(t.Context()); err != nil || last.Entry() != "1746090000009-4194303" {
		t.Fatalf("a foreign top: %v, %v", last.Entry(), err)
	}
	srv.Do("DEL", l.stream.Key())
	srv.Do("SET", l.stream.Key(), "x")
	if _, err := l.Last(t.Context()); !errors.Is(err, evtlog.ErrWrongType) {
		t.Fatalf("another type: %v", err)
	}
}

func TestPage(t *testing.T) {
	srv, l := realLog(t)
	none, floor, err := l.Page(t.Context(), evtid.ID{}, evtid.Max, 5)
	if err != nil || len(none) != 0 || !floor.IsZero() {
		t.Fatalf("no stream: %v, %v, %v", none, floor, err)
	}
	fill(t, l, 1, 9)
	if err := l.Seal(t.Context(), at(4)); err != nil {
		t.Fatal(err)
	}
	// What a foreign writer left before 2024 lies outside of every window.
	other := l.c.Log(stream(t, "cm", "old"))
	srv.Do("XADD", other.stream.Key(), "5-0", "k", "v")
	fill(t, other, 1, 2)
	for _, c := range []struct {
		log       *Log
		after, to evtid.ID
		n         int
		want      []int
		floor     evtid.ID
	}{
		{l, evtid.ID{}, evtid.Max, 100, []int{1, 2, 3, 4, 5, 6, 7, 8, 9}, at(4)},
		{l, evtid.ID{}, evtid.Max, 3, []int{1, 2, 3}, at(4)},
		{l, at(3), at(6), 100, []int{4, 5, 6}, at(4)},
		{l, at(3).Prev(), at(3), 100, []int{3}, at(4)},
		{l, at(6), at(6), 100, nil, at(4)},
		{l, at(9), evtid.Max, 100, nil, at(4)},
		{l, evtid.Max, evtid.Max, 100, nil, at(4)},
		{l, evtid.ID{}, evtid.ID{}, 100, nil, at(4)},
		{other, evtid.ID{}, evtid.Max, 100, []int{1, 2}, evtid.ID{}},
	} {
		page, floor, err := c.log.Page(t.Context(), c.after, c.to, c.n)
		if err != nil || floor != c.floor {
			t.Fatalf("(%v, %v]: floor %v, %v", c.after, c.to, floor, err)
		}
		wantIDs(t, recordIDs(page), c.want...)
		page, err = c.log.PageBefore(t.Context(), c.after, c.to, 100)
		if err != nil || c.n < 100 {
			continue
		}
		for i := range page {
			if page[i].ID != at(c.want[len(c.want)-1-i]) {
				t.Fatalf("(%v, %v] backward: %v", c.after, c.to, page)
			}
		}
		if len(page) != len(c.want) {
			t.Fatalf("(%v, %v] backward: %v", c.after, c.to, page)
		}
	}
	page, err := l.PageBefore(t.Context(), at(2), evtid.Max, 2)
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, recordIDs(page), 9, 8)
	if v, ok := page[0].Get("n"); !ok || v != "9" || page[0].Unbranded || len(page[0].Fields) != 1 {
		t.Fatalf("the record is %#v", page[0])
	}
}

func TestPageRefusesArguments(t *testing.T) {
	_, l := realLog(t)
	_, _, err := l.Page(t.Context(), evtid.ID{}, evtid.Max, 0)
	_, errBefore := l.PageBefore(t.Context(), evtid.ID{}, evtid.Max, -1)
	_, errLookup := l.Lookup(t.Context(), evtid.ID{})
	for _, err := range []error{err, errBefore, errLookup, l.KillClient(t.Context(), 0), l.Seal(t.Context(), evtid.ID{})} {
		if Classify(err) != Caller {
			t.Errorf("got %v", err)
		}
	}
}

// TestForeignEntry: a position that no id can have is an error that names it,
// after the records in front of it, and the connection stays in use.
func TestForeignEntry(t *testing.T) {
	srv, l := realLog(t)
	fill(t, l, 1, 2)
	srv.Do("XADD", l.stream.Key(), "1746090000002-5000000", "k", "v")
	fill(t, l, 3, 4)
	page, _, err := l.Page(t.Context(), evtid.ID{}, evtid.Max, 100)
	var foreign *evtlog.ForeignEntryError
	if !errors.As(err, &foreign) || foreign.Entry != "1746090000002-5000000" || foreign.Stream.String() != "cm/feed" {
		t.Fatalf("got %v", err)
	}
	wantIDs(t, recordIDs(page), 1, 2)
	before, err := l.PageBefore(t.Context(), evtid.ID{}, evtid.Max, 100)
	if !errors.Is(err, evtlog.ErrForeignEntry) {
		t.Fatalf("backward: %v", err)
	}
	wantIDs(t, recordIDs(before), 4, 3)
	if n := l.c.pool.Stats().ActiveCount; n != 1 {
		t.Fatalf("%d connections", n)
	}
	if entry, found, err := l.FirstForeign(t.Context()); err != nil || found {
		t.Fatalf("between the ends: %q, %v, %v", entry, found, err)
	}
}

func TestFirstForeign(t *testing.T) {
	srv, l := realLog(t)
	if _, found, err := l.FirstForeign(t.Context()); err != nil || found {
		t.Fatalf("no stream: %v, %v", found, err)
	}
	fill(t, l, 1, 1)
	srv.Do("XADD", l.stream.Key(), "99999999999999-1", "k", "v")
	if entry, found, err := l.FirstForeign(t.Context()); err != nil || !found || entry != "99999999999999-1" {
		t.Fatalf("above: %q, %v, %v", entry, found, err)
	}
	low := l.c.Log(stream(t, "cm", "low"))
	srv.Do("XADD", low.stream.Key(), "7-7", "k", "v")
	if entry, found, err := low.FirstForeign(t.Context()); err != nil || !found || entry != "7-7" {
		t.Fatalf("below: %q, %v, %v", entry, found, err)
	}
}

// TestWrongTypeKeepsTheConnection: both answers of the pipeline are read.
func TestWrongTypeKeepsTheConnection(t *testing.T) {
	srv, l := realLog(t)
	srv.Do("SET", l.stream.Key(), "x")
	for range 3 {
		if _, _, err := l.Page(t.Context(), evtid.ID{}, evtid.Max, 5); !errors.Is(err, evtlog.ErrWrongType) {
			t.Fatalf("got %v", err)
		}
	}
	srv.Do("DEL", l.stream.Key())
	srv.Do("SET", l.stream.Floor(), "x")
	if _, _, err := l.Page(t.Context(), evtid.ID{}, evtid.Max, 5); !errors.Is(err, evtlog.ErrWrongType) {
		t.Fatalf("the floor: %v", err)
	}
	if n := l.c.pool.Stats().ActiveCount; n != 1 {
		t.Fatalf("%d connections", n)
	}
}

// TestBigPage: a page larger than every buffer, with a value of some megabytes.
func TestBigPage(t *testing.T) {
	_, l := realLog(t)
	w := writerOf(t, l)
	big := make([]byte, 3<<20)
	for i := range big {
		big[i] = byte(i)
	}
	for n := 1; n <= 4; n++ {
		w.Append(at(n), []evtlog.Field{evtlog.F("n", fmt.Sprint(n)), evtlog.F("big", string(big))})
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := w.ReceiveAppend(at(n)); err != nil {
			t.Fatal(err)
		}
	}
	page, _, err := l.Page(t.Context(), evtid.ID{}, evtid.Max, 10)
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, recordIDs(page), 1, 2, 3, 4)
	for _, r := range page {
		if v, _ := r.Get("big"); v != string(big) {
			t.Fatalf("the value of %v changed", r.ID)
		}
	}
}

func TestLookup(t *testing.T) {
	srv, l := realLog(t)
	if found, err := l.Lookup(t.Context(), at(1)); err != nil || found.Found || found.Exists || !found.Top.IsZero() {
		t.Fatalf("no stream: %+v, %v", found, err)
	}
	fill(t, l, 1, 3)
	found, err := l.Lookup(t.Context(), at(2))
	if err != nil || !found.Found || !found.Exists || found.Top != at(3) || found.Record.ID != at(2) {
		t.Fatalf("present: %+v, %v", found, err)
	}
	if v, _ := found.Record.Get("n"); v != "2" {
		t.Fatalf("present: %+v", found)
	}
	srv.Do("XTRIM", l.stream.Key(), "MAXLEN", "0")
	if found, err := l.Lookup(t.Context(), at(2)); err != nil || found.Found || !found.Exists || found.Top != at(3) {
		t.Fatalf("trimmed: %+v, %v", found, err)
	}
	srv.Do("DEL", l.stream.Key())
	srv.Do("SET", l.stream.Key(), "x")
	if _, err := l.Lookup(t.Context(), at(2)); !errors.Is(err, evtlog.ErrWrongType) {
		t.Fatalf("another type: %v", err)
	}
	if n := l.c.pool.Stats().ActiveCount; n > 1 {
		t.Fatalf("look-ups used %d pooled connections", n)
	}
}

func TestKillClient(t *testing.T) {
	_, l := realLog(t)
	w := writerOf(t, l)
	if err := l.KillClient(t.Context(), w.ClientID()); err != nil {
		t.Fatal(err)
	}
	if err := l.KillClient(t.Context(), w.ClientID()); err != nil {
		t.Fatal("a client that is gone:", err)
	}
	w.Append(at(1), nil)
	err := w.Flush()
	if err == nil {
		err = w.ReceiveAppend(at(1))
	}
	if !isConnError(err) {
		t.Fatalf("got %v", err)
	}
}

func TestInfo(t *testing.T) {
	srv, l := realLog(t)
	if info, err := l.Info(t.Context()); err != nil || info != (StreamInfo{}) {
		t.Fatalf("no stream: %+v, %v", info, err)
	}
	fill(t, l, 1, 5)
	createGroup(t, l, "a", Head())
	createGroup(t, l, "b", New())
	want := StreamInfo{Exists: true, Length: 5, First: at(1), Newest: at(5), Last: at(5), Groups: 2, EntriesAdded: 5}
	if info, err := l.Info(t.Context()); err != nil || info != want {
		t.Fatalf("got %+v, %v", info, err)
	}
	srv.Do("XTRIM", l.stream.Key(), "MAXLEN", "0")
	want = StreamInfo{Exists: true, Last: at(5), Groups: 2, EntriesAdded: 5}
	if info, err := l.Info(t.Context()); err != nil || info != want {
		t.Fatalf("emptied: %+v, %v", info, err)
	}
}

func TestStreams(t *testing.T) {
	srv, l := realLog(t)
	for _, queue := range []string{"cm", "c*", "c?", "c[m]"} {
		for n := range 30 {
			fill(t, l.c.Log(stream(t, queue, fmt.Sprintf("s%02d", n))), 1, 1)
		}
	}
	fill(t, l.c.Log(l.c.Log(stream(t, "cm", "s00")).stream.Dead()), 1, 1)
	if err := l.c.Log(stream(t, "cm", "s00")).Seal(t.Context(), at(1)); err != nil {
		t.Fatal(err)
	}
	srv.Do("SET", stream(t, "cm", "string").Key(), "x")
	srv.Do("XADD", "emq:{cm}:stream:a:b", "*", "k", "v")
	for queue, want := range map[string]int{"cm": 31, "c*": 30, "c?": 30, "c[m]": 30, "other": 0} {
		names, err := l.c.Streams(t.Context(), queue)
		if err != nil || len(names) != want {
			t.Errorf("%s: %d names, %v: %v", queue, len(names), err, names)
		}
		if want > 0 && (names[0] != "s00" || queue == "cm" && names[1] != "s00.dead") {
			t.Errorf("%s: %v", queue, names)
		}
	}
	if _, err := l.c.Streams(t.Context(), "a b"); Classify(err) != Caller {
		t.Errorf("a bad name: %v", err)
	}
}

func TestServer(t *testing.T) {
	_, l := realLog(t, "--appendonly", "yes", "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	info, err := l.c.Server(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.Version == "" || info.Mode != "standalone" || info.Role != "master" || info.AppendOnly != "yes" || info.AppendFsync != "everysec" ||
		info.MaxMemory != 100<<20 || info.MaxMemoryPolicy != "allkeys-lru" || info.NodeEntries != 100 || len(info.Warnings) != 1 {
		t.Fatalf("got %+v", info)
	}
}

// TestAnswerTooMany: what a server sends beyond the answers asked for is not left
// for the next command.
func TestAnswerTooMany(t *testing.T) {
	addr := fakeServer(t, admitting("7.0.15", func([]string) string { return "*0\r\n*0\r\n" }))
	l := openAt(t, Config{URL: "redis://" + addr}).Log(feed(t))
	soon(t, "an answer too many is seen", func() bool {
		_, _, err := l.Page(t.Context(), evtid.ID{}, evtid.Max, 5)
		return isConnError(err) && l.c.pool.Stats().ActiveCount == 0
	})
}
