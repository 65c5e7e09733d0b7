package redislog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
)

// An entry that another program deleted is dropped by whatever claims it, and is
// recorded then.
func TestEntryDeletedInHandIsRecorded(t *testing.T) {
	for name, claim := range map[string]func(l *Log) error{
		"renew": func(l *Log) error {
			still, err := l.Renew(t.Context(), "g", "me", ats(1, 2, 3), time.Minute)
			wantIDs(t, still, 1, 3)
			return err
		},
		"yield": func(l *Log) error { return l.Yield(t.Context(), "g", "me", ats(1, 2, 3), time.Minute) },
		"hand over": func(l *Log) error {
			_, err := l.HandOver(t.Context(), "g", "me", "you", 0)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv, l := realLog(t)
			fill(t, l, 1, 3)
			createGroup(t, l, "g", Head())
			if _, err := readerOf(t, l, "g", "me").ReadNew(10, 0); err != nil {
				t.Fatal(err)
			}
			srv.Do("XDEL", l.stream.Key(), at(2).Entry())
			if err := claim(l); err != nil {
				t.Fatal(err)
			}
			wantRanges(t, l, SkippedRange{After: at(2).Prev(), To: at(2)})
		})
	}
}

// What was acknowledged while it was renewed is not taken for deleted.
func TestAcknowledgedIsNotTakenForDeleted(t *testing.T) {
	_, l := realLog(t)
	fill(t, l, 1, 2)
	createGroup(t, l, "g", Head())
	err := l.with(t.Context(), "test", func(s *session) error {
		deleted, err := l.recordDeleted(s, "g", ats(1, 2), []any{[]any{[]byte(at(1).Entry())}})
		if err != nil || len(deleted) != 0 {
			t.Errorf("deleted = %v, %v", deleted, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	wantRanges(t, l)
}

// A foreign entry in a range that is worked on is nobody's: it does not hold the
// range up, and a page that ends with it is not the last.
func TestTakeTrimmedLeavesForeignEntriesAlone(t *testing.T) {
	srv, l := realLog(t)
	fill(t, l, 1, pendingPage-1)
	srv.Do("XADD", l.stream.Key(), fmt.Sprintf("%d-9999999", at(pendingPage-1).UnixMilli()), "k", "v")
	fill(t, l, pendingPage, pendingPage+1)
	createGroup(t, l, "g", Head())
	if _, err := readerOf(t, l, "g", "dead").ReadNew(2*pendingPage, 0); err != nil {
		t.Fatal(err)
	}
	srv.Do("XTRIM", l.stream.Key(), "MAXLEN", "0")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	all := SkippedRange{To: at(pendingPage + 1)}
	taken, held, err := l.TakeTrimmed(ctx, "g", "me", all, time.Hour, noneKept)
	if err != nil || len(taken) != 0 || len(held) != pendingPage+1 || slices.ContainsFunc(held, isForeign) {
		t.Fatalf("while they are touched: %d taken, %d held, %v", len(taken), len(held), err)
	}
	taken, held, err = l.TakeTrimmed(ctx, "g", "me", all, 0, noneKept)
	if err != nil || len(taken) != pendingPage+1 || len(held) != 0 {
		t.Fatalf("afterwards: %d taken, %d held, %v", len(taken), len(held), err)
	}
}

// An acknowledgement that is refused leaves the answer behind it on the wire, so
// the connection is not used again.
func TestFlushAcksRefusedEndsTheConnection(t *testing.T) {
	srv, l := realLog(t)
	fill(t, l, 1, 1)
	createGroup(t, l, "g", Head())
	r := readerOf(t, l, "g", "me")
	if _, err := r.ReadNew(1, 0); err != nil {
		t.Fatal(err)
	}
	keep := l.stream.Key() + "-kept"
	srv.Do("RENAME", l.stream.Key(), keep)
	srv.Do("SET", l.stream.Key(), "x")
	r.Ack(at(1))
	if err := r.FlushAcks(); !errors.Is(err, evtlog.ErrWrongType) {
		t.Fatal(err)
	}
	srv.Do("RENAME", keep, l.stream.Key())
	r.Ack(at(1))
	if err := r.FlushAcks(); !errors.Is(err, evtlog.ErrUnavailable) {
		t.Fatal(err)
	}
	if r.Acked() != 0 || r.LostAcks() != 0 || r.Recorded() != 0 {
		t.Errorf("acked %d, lost %d, recorded %d; want nothing", r.Acked(), r.LostAcks(), r.Recorded())
	}
}
