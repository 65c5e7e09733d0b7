package redislog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

func TestAfterForeign(t *testing.T) {
	for entry, want := range map[string]string{
		"5-5":                                "5-6",
		"1800000000000-4194304":              "1800000000000-4194305",
		"1800000000000-18446744073709551615": "1800000000001-0",
		"1800000000000-4194303":              "",
		"1800000000000-0":                    "",
		"1800000000000":                      "",
		"18446744073709551615-18446744073709551614": "18446744073709551615-18446744073709551615",
		"x":   "",
		"1-x": "",
		"":    "",
	} {
		next, err := afterForeign(entry)
		var refused *ArgumentError
		if next != want || (err != nil) != (want == "") || err != nil && !errors.As(err, &refused) {
			t.Errorf("after %q: %q, %v; want %q", entry, next, err, want)
		}
	}
}

func foreignOf(t *testing.T, l *Log) (all []ForeignEntry) {
	t.Helper()
	for e, err := range l.Foreign(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// Foreign entries are found wherever they stand, across pages, with what is below
// them; one goes only when nothing is below it, and for every group.
func TestForeign(t *testing.T) {
	srv, l := realLog(t)
	if all := foreignOf(t, l); len(all) != 0 {
		t.Errorf("in a stream that is not there: %+v", all)
	}
	srv.Do("XADD", l.stream.Key(), "5-5", "id", "x", "n", "early")
	fill(t, l, 1, 1500)
	foreign := fmt.Sprintf("%d-4194304", at(1500).UnixMilli())
	srv.Do("XADD", l.stream.Key(), foreign, "id", "x", "id", "x", "n", "\xff")
	fill(t, l, 1502, 1503)
	all := foreignOf(t, l)
	if len(all) != 2 || all[0].Entry != "5-5" || all[1].Entry != foreign || all[0].Records != 0 || all[1].Records != 1500 || all[1].Newest != at(1500) {
		t.Fatalf("found %+v", all)
	}
	if want := []evtlog.Field{evtlog.F("id", "x"), evtlog.F("id", "x"), evtlog.F("n", "\xff")}; !slices.Equal(all[1].Fields, want) {
		t.Errorf("fields %q", all[1].Fields)
	}
	var held *ForeignHeldError
	if err := l.RemoveForeign(t.Context(), foreign); !errors.As(err, &held) || held.Oldest != "5-5" {
		t.Errorf("in the middle: %v", err)
	}
	srv.Do("XGROUP", "CREATE", l.stream.Key(), "g", "0")
	srv.Do("XREADGROUP", "GROUP", "g", "m", "COUNT", "1", "STREAMS", l.stream.Key(), ">")
	if err := l.RemoveForeign(t.Context(), "5-5"); err != nil {
		t.Fatal(err)
	}
	if n, _, _, err := l.PendingSummary(t.Context(), "g"); err != nil || n != 0 {
		t.Errorf("%d entries are pending, %v", n, err)
	}
	if _, err := l.TrimThrough(t.Context(), at(1500)); err != nil {
		t.Fatal(err)
	}
	if err := l.RemoveForeign(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	if page, _, err := l.Page(t.Context(), evtid.ID{}, evtid.Max, 10); err != nil || len(page) != 2 {
		t.Errorf("%d records are left, %v", len(page), err)
	}
	if err := l.RemoveForeign(t.Context(), foreign); !errors.As(err, &held) {
		t.Errorf("twice: %v", err)
	}
	if err := l.RemoveForeign(t.Context(), at(1502).Entry()); err == nil {
		t.Error("a record was removed")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range l.Foreign(ended) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that ended: %v", err)
		}
	}
}
