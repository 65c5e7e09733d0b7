package evtlog_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

func date(y int, m time.Month, d int) time.Time { return time.Date(y, m, d, 0, 0, 0, 0, time.UTC) }

// holds says what a reader of w gives.
func holds(w evtlog.Window, id evtid.ID) bool {
	return w.After.Less(id) && (w.To.IsZero() || !w.To.Less(id))
}

func TestBetweenAndSinceHoldWholeMilliseconds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.SampledFrom([]time.Time{date(2023, 12, 31), date(2024, 1, 1), date(2025, 6, 11), time.UnixMilli(evtid.MaxMillis)}).Draw(t, "near")
		instant := func(label string) time.Time {
			return base.Add(time.Duration(rapid.Int64Range(-5e6, 5e6).Draw(t, label)))
		}
		from, to := instant("from"), instant("to")
		if to.Before(from) {
			from, to = to, from
		}
		between, err := evtlog.Between(from, to)
		if err != nil {
			t.Fatal(err)
		}
		since, err := evtlog.Since(from)
		if err != nil {
			t.Fatal(err)
		}
		if between.Check() != nil || since.Check() != nil {
			t.Fatalf("windows that cannot be read: %v %v", between.Check(), since.Check())
		}
		ms := min(max(instant("id").UnixMilli(), evtid.EpochMillis), evtid.MaxMillis)
		id, err := evtid.Make(ms, rapid.SampledFrom([]int{0, evtid.MaxNode}).Draw(t, "node"), rapid.SampledFrom([]int{0, evtid.MaxSeq}).Draw(t, "seq"))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := holds(between, id), from.UnixMilli() <= ms && ms <= to.UnixMilli(); got != want {
			t.Errorf("%s is in [%s, %s]: %v, want %v", id.Entry(), from, to, got, want)
		}
		if got, want := holds(since, id), from.UnixMilli() <= ms; got != want {
			t.Errorf("%s is since %s: %v, want %v", id.Entry(), from, got, want)
		}
	})
}

func TestBetweenOutsideTheYearsOfIDsIsEmpty(t *testing.T) {
	first := id(t, "EVT00000000000")
	for _, years := range [][2]int{{1970, 1970}, {2000, 2023}, {2094, 2200}, {2200, 2200}} {
		w, err := evtlog.Between(date(years[0], 1, 1), date(years[1], 1, 2))
		if err != nil || w.Check() != nil {
			t.Fatalf("%v: %v, %v", years, err, w.Check())
		}
		for _, id := range []evtid.ID{first, id(t, "EVT0KHTOWnGLuC"), evtid.Max} {
			if holds(w, id) || w.To.IsZero() {
				t.Errorf("%v holds %s: %+v", years, id, w)
			}
		}
	}
	w, err := evtlog.Between(date(1999, 1, 1), date(2300, 1, 1))
	if err != nil || !holds(w, first) || !holds(w, evtid.Max) {
		t.Errorf("a window around all ids: %+v, %v", w, err)
	}
	if w, err := evtlog.Since(date(2200, 1, 1)); err != nil || w.Check() != nil || holds(w, evtid.Max) {
		t.Errorf("since after 2093: %+v, %v", w, err)
	}
}

func TestBetweenAndSinceRefuse(t *testing.T) {
	for name, err := range map[string]error{
		"from before 1970": second(evtlog.Between(date(1969, 1, 1), date(2025, 1, 1))),
		"both before 1970": second(evtlog.Between(date(1968, 1, 1), date(1969, 1, 1))),
		"since":            second(evtlog.Since(time.Time{})),
	} {
		if !errors.Is(err, evtid.ErrBeforeUnixEpoch) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := evtlog.Between(date(2025, 1, 2), date(2025, 1, 1))
	var we *evtlog.WindowError
	if !errors.As(err, &we) || we.Field != "to" || err.Error() != "evtlog: window to 2025-01-01T00:00:00Z refused: it is before from, 2025-01-02T00:00:00Z" {
		t.Errorf("inverted: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestCheckWindow(t *testing.T) {
	a, b := id(t, "EVT0KHTOWnGLuB"), id(t, "EVT0KHTOWnGLuC")
	for _, tc := range []struct {
		w    evtlog.Window
		text string
	}{
		{w: evtlog.Window{}},
		{w: evtlog.Window{After: b}},
		{w: evtlog.Window{To: a}},
		{w: evtlog.Window{After: a, To: b, Limit: math.MaxInt, Reverse: true}},
		{w: evtlog.Window{After: a, To: a}},
		{w: evtlog.Window{After: b, To: a}, text: "evtlog: window to EVT0KHTOWnGLuB refused: it is before the lower bound EVT0KHTOWnGLuC"},
		{w: evtlog.Window{Limit: -1}, text: "evtlog: window limit -1 refused: it must not be negative; 0 means all"},
	} {
		err := tc.w.Check()
		switch {
		case tc.text == "" && err != nil:
			t.Errorf("%+v: %v", tc.w, err)
		case tc.text != "" && (!errors.Is(err, evtlog.ErrBadWindow) || err.Error() != tc.text):
			t.Errorf("%+v: %v", tc.w, err)
		}
	}
}

func TestKeep(t *testing.T) {
	now := date(2025, 6, 11)
	for _, tc := range []struct {
		keep evtlog.Keep
		all  bool
		text string
	}{
		{keep: evtlog.Keep{}, all: true},
		{keep: evtlog.Keep{Exact: true}, all: true},
		{keep: evtlog.KeepLast(0), all: true},
		{keep: evtlog.KeepLast(10_000)},
		{keep: evtlog.KeepFor(time.Hour)},
		{keep: evtlog.KeepSince(now)},
		{keep: evtlog.KeepSince(date(2000, 1, 1))},
		{keep: evtlog.KeepLast(-1), text: "evtlog: retention Last -1 refused: give the number of records to keep, or 0 to keep all"},
		{keep: evtlog.KeepFor(-time.Second), text: "evtlog: retention For -1s refused: give a positive duration, or 0 to keep all"},
		{keep: evtlog.KeepSince(date(1969, 1, 1)), text: "evtlog: retention Since 1969-01-01T00:00:00Z refused: give an instant from 1970 on"},
		{keep: evtlog.Keep{Last: 1, Since: now}, text: "evtlog: retention Last and Since together refused: give only one of them"},
		{keep: evtlog.Keep{Last: 1, For: 1, Since: now}, text: "evtlog: retention Last and For and Since together refused: give only one of them"},
	} {
		err := tc.keep.Check()
		var ke *evtlog.KeepError
		switch {
		case tc.keep.All() != tc.all:
			t.Errorf("%+v keeps all: %v", tc.keep, tc.keep.All())
		case tc.text == "" && err != nil:
			t.Errorf("%+v: %v", tc.keep, err)
		case tc.text != "" && (!errors.As(err, &ke) || !errors.Is(err, evtlog.ErrBadKeep) || err.Error() != tc.text):
			t.Errorf("%+v: %v", tc.keep, err)
		}
	}
}
