package evtlog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

func id(t testing.TB, s string) evtid.ID {
	t.Helper()
	v, err := evtid.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestCheckFields(t *testing.T) {
	big := strings.Repeat("x", evtlog.DefaultMaxRecordBytes)
	for _, tc := range []struct {
		name   string
		fields []evtlog.Field
		limit  int
		want   error
		text   string
	}{
		{name: "none"},
		{name: "empty names and duplicates", fields: []evtlog.Field{evtlog.F("", ""), evtlog.F("", ""), evtlog.F("a", "1"), evtlog.F("a", "2")}},
		{name: "any bytes", fields: []evtlog.Field{evtlog.F("\x00\xff", "a\r\nb")}},
		{name: "only the exact name is reserved", fields: []evtlog.Field{evtlog.F("ID", "1"), evtlog.F("id ", "2"), evtlog.F("x", "id")}},
		{name: "reserved", fields: []evtlog.Field{evtlog.F("a", "1"), evtlog.F("id", "EVT00000000000")}, want: evtlog.ErrBadField,
			text: `evtlog: field 1 "id" refused: the name is reserved for the event id; choose another`},
		{name: "at the limit", fields: []evtlog.Field{evtlog.F("ab", "cde")}, limit: 5},
		{name: "above the limit", fields: []evtlog.Field{evtlog.F("ab", "cde")}, limit: 4, want: evtlog.ErrTooLarge,
			text: "evtlog: record of 5 bytes refused: the limit is 4; store the body elsewhere, or raise MaxRecordBytes"},
		{name: "at the default", fields: []evtlog.Field{evtlog.F("", big)}},
		{name: "above the default", fields: []evtlog.Field{evtlog.F("a", big)}, want: evtlog.ErrTooLarge, text: "limit is 1048576"},
		{name: "reserved and too large", fields: []evtlog.Field{evtlog.F("id", big)}, want: evtlog.ErrBadField, text: "reserved"},
	} {
		err := evtlog.CheckFields(tc.fields, tc.limit)
		if !errors.Is(err, tc.want) || tc.want != nil && !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	var fe *evtlog.FieldError
	if err := evtlog.CheckFields([]evtlog.Field{evtlog.F("id", "")}, 0); !errors.As(err, &fe) || fe.Index != 0 || fe.Name != "id" {
		t.Errorf("%v", err)
	}
	var te *evtlog.TooLargeError
	if err := evtlog.CheckFields([]evtlog.Field{evtlog.F("ab", "c")}, 2); !errors.As(err, &te) || te.Size != 3 || te.Limit != 2 {
		t.Errorf("%v", err)
	}
}

func TestRecord(t *testing.T) {
	r := evtlog.Record{ID: id(t, "EVT0KHTOWnGLuC"), Fields: []evtlog.Field{evtlog.F("a", "1"), evtlog.F("a", "2"), evtlog.F("", "3")}}
	if v, ok := r.Get("a"); v != "1" || !ok {
		t.Errorf("the first of two: %q, %v", v, ok)
	}
	if v, ok := r.Get(""); v != "3" || !ok {
		t.Errorf("the empty name: %q, %v", v, ok)
	}
	if v, ok := r.Get("b"); v != "" || ok {
		t.Errorf("absent: %q, %v", v, ok)
	}
	d := evtlog.Delivery{Record: r}
	if v, ok := d.Get("a"); v != "1" || !ok {
		t.Errorf("through a delivery: %q, %v", v, ok)
	}
	if got, want := fmt.Sprintf("%#v", r), `EVT0KHTOWnGLuC[{"a" "1"} {"a" "2"} {"" "3"}]`; got != want {
		t.Errorf("in a test's message: %s, want %s", got, want)
	}
	if n := evtlog.Size(r.Fields); n != 5 {
		t.Errorf("size %d", n)
	}
}

func TestNames(t *testing.T) {
	for _, pair := range [][2]string{
		{evtlog.StreamName{Queue: "cm", Name: "feed"}.String(), "cm/feed"},
		{evtlog.Live.String(), "live"},
		{evtlog.Archived.String(), "archive"},
		{evtlog.Starting.String(), "starting"},
		{evtlog.Ready.String(), "ready"},
		{evtlog.Degraded.String(), "degraded"},
		{evtlog.Failed.String(), "failed"},
		{evtlog.Stopped.String(), "stopped"},
		{evtlog.State(99).String(), "state(99)"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("got %q, want %q", pair[0], pair[1])
		}
	}
}

func TestObserver(t *testing.T) {
	evtlog.Observer(nil).Emit(evtlog.Trimmed{}) // must not panic
	var seen []evtlog.Event
	o := evtlog.Observer(func(e evtlog.Event) { seen = append(seen, e) })
	all := []evtlog.Event{
		evtlog.StateChanged{}, evtlog.Restarted{}, evtlog.Folded{}, evtlog.Trimmed{}, evtlog.Lost{}, evtlog.Drained{}, evtlog.Reclaimed{},
		evtlog.HandlerFailed{}, evtlog.DeadLettered{}, evtlog.GroupRecreated{}, evtlog.Unbranded{}, evtlog.SecondWriter{},
	}
	for _, e := range all {
		o.Emit(e)
	}
	if len(seen) != len(all) {
		t.Errorf("%d of %d events arrived", len(seen), len(all))
	}
}

func TestErrors(t *testing.T) {
	stream := evtlog.StreamName{Queue: "cm", Name: "feed"}
	at, top := id(t, "EVT0KHTOWnGLuC"), id(t, "EVT0KHTOWneNcj")
	for _, tc := range []struct {
		err   error
		is    error
		names []string // what the text must tell: the subject, the value, the next step
	}{
		{&evtlog.NotReplicatedError{Stream: stream, ID: at, Want: 2, Got: 1}, evtlog.ErrNotReplicated, []string{"cm/feed", at.String(), "1 of 2", "do not append"}},
		{&evtlog.NotReplicatedError{Stream: stream, ID: at, Want: 2, Got: -1}, evtlog.ErrNotReplicated, []string{"unknown number of 2"}},
		{&evtlog.FieldError{Index: 3, Name: "id", Reason: "reserved"}, evtlog.ErrBadField, []string{"field 3", `"id"`, "reserved"}},
		{&evtlog.TooLargeError{Size: 9, Limit: 8}, evtlog.ErrTooLarge, []string{"9 bytes", "limit is 8", "raise MaxRecordBytes"}},
		{&evtlog.TooLargeError{Size: 9, Limit: 8, Batch: true}, evtlog.ErrTooLarge, []string{"batch of 9 bytes", "8 at most", "smaller batches"}},
		{&evtlog.WindowError{Field: "to", Value: "x", Reason: "why"}, evtlog.ErrBadWindow, []string{"window to x", "why"}},
		{&evtlog.KeepError{Field: "Last", Value: "-1", Reason: "why"}, evtlog.ErrBadKeep, []string{"retention Last -1", "why"}},
		{&evtlog.NonMonotonicError{Stream: stream, ID: at, Top: top}, evtlog.ErrNonMonotonic, []string{"cm/feed", at.String(), top.String(), fmt.Sprint("node ", top.Node()), "stop the second writer"}},
		{&evtlog.NonMonotonicError{Stream: stream, ID: at}, evtlog.ErrNonMonotonic, []string{"cm/feed", at.String(), "another writer"}},
		{&evtlog.RejectedError{Stream: stream, ID: at, Err: evtlog.ErrOutOfMemory}, evtlog.ErrOutOfMemory, []string{"cm/feed", at.String(), "nothing was written", "out of memory"}},
		{&evtlog.UncertainError{Stream: stream, ID: at, Err: context.DeadlineExceeded}, context.DeadlineExceeded, []string{"cm/feed", at.String(), "uncertain", "Resolve"}},
		{&evtlog.ForeignEntryError{Stream: stream, Entry: "7-1"}, evtlog.ErrForeignEntry, []string{"cm/feed", "7-1", "append its fields anew"}},
	} {
		if !errors.Is(tc.err, tc.is) {
			t.Errorf("%T is not %v", tc.err, tc.is)
		}
		for _, want := range tc.names {
			if !strings.Contains(tc.err.Error(), want) {
				t.Errorf("%T does not tell %q: %v", tc.err, want, tc.err)
			}
		}
	}
	wrapped := &evtlog.RejectedError{Stream: stream, ID: at, Err: &evtlog.NonMonotonicError{Stream: stream, ID: at, Top: top}}
	var nm *evtlog.NonMonotonicError
	if !errors.As(wrapped, &nm) || nm.Top != top || !errors.Is(wrapped, evtlog.ErrNonMonotonic) {
		t.Errorf("the reason of a rejection is hidden: %v", wrapped)
	}
}
