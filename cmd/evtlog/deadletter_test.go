package main

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/streamconsumer"
	"github.com/evtlog/evtlog/evtid"
)

// idAt is the n-th id of some millisecond.
func idAt(n int) evtid.ID {
	id, err := evtid.Make(1_800_000_000_000, 1, n)
	if err != nil {
		panic(err)
	}
	return id
}

// letterFields are the fields of a dead letter as a consumer stores them.
func letterFields(origin evtid.ID, group string, own ...evtlog.Field) []evtlog.Field {
	return append(slices.Clone(own),
		evtlog.F(streamconsumer.FieldReason, "it failed"), evtlog.F(streamconsumer.FieldAttempts, "4"),
		evtlog.F(streamconsumer.FieldGroup, group), evtlog.F(streamconsumer.FieldOrigin, origin.String()),
		evtlog.F(streamconsumer.FieldFirst, "2026-01-02T15:04:05Z"), evtlog.F(streamconsumer.FieldLast, "2026-01-02T15:04:06Z"))
}

func TestParseLetter(t *testing.T) {
	own := []evtlog.Field{evtlog.F("a", "1"), evtlog.F("a", "2"), evtlog.F("", "\xff")}
	l, ok := parseLetter(evtlog.Record{ID: idAt(9), Fields: letterFields(idAt(1), "g", own...)})
	if !ok || l.id != idAt(9) || !slices.Equal(l.own, own) || l.group != "g" || l.origin != idAt(1).String() ||
		l.reason != "it failed" || l.attempts != 4 || l.first != "2026-01-02T15:04:05Z" || l.last != "2026-01-02T15:04:06Z" || l.truncated {
		t.Errorf("got %+v, %v", l, ok)
	}
	// A letter of a letter: the last one counts, the first is a part of the entry.
	twice := letterFields(idAt(2), "h", letterFields(idAt(1), "g", own...)...)
	l, ok = parseLetter(evtlog.Record{Fields: twice})
	if !ok || l.group != "h" || l.origin != idAt(2).String() || len(l.own) != len(own)+6 {
		t.Errorf("a letter of a letter: %+v, %v", l, ok)
	}
	l, ok = parseLetter(evtlog.Record{Fields: append(letterFields(idAt(1), "g"), evtlog.F(streamconsumer.FieldTruncated, "true"))})
	if !ok || !l.truncated || len(l.own) != 0 {
		t.Errorf("truncated: %+v, %v", l, ok)
	}
	for name, fields := range map[string][]evtlog.Field{
		"nothing":       nil,
		"other fields":  own,
		"no origin":     {evtlog.F(streamconsumer.FieldReason, "x"), evtlog.F(streamconsumer.FieldGroup, "g")},
		"no group":      {evtlog.F(streamconsumer.FieldReason, "x"), evtlog.F(streamconsumer.FieldOrigin, "o")},
		"a mark":        markFields(idAt(1), idAt(2)),
		"reason behind": {evtlog.F(streamconsumer.FieldGroup, "g"), evtlog.F(streamconsumer.FieldOrigin, "o"), evtlog.F(streamconsumer.FieldReason, "x")},
	} {
		if l, ok := parseLetter(evtlog.Record{Fields: fields}); ok {
			t.Errorf("%s is taken for a letter: %+v", name, l)
		}
	}
}

func TestReplayFieldsAndTheirLink(t *testing.T) {
	own := []evtlog.Field{evtlog.F("a", "1"), evtlog.F("a", "2")}
	first := replayFields(letter{id: idAt(9), origin: idAt(1).String(), group: "g"}, own)
	want := append(slices.Clone(own), evtlog.F("replay_of", idAt(1).String()), evtlog.F("replay_dead", idAt(9).String()), evtlog.F("replay_group", "g"))
	if !slices.Equal(first, want) {
		t.Errorf("got %q, want %q", first, want)
	}
	if of, ok := linkOf(evtlog.Record{Fields: first}); !ok || of != idAt(9) {
		t.Errorf("the link leads to %s, %v", of, ok)
	}
	// Given up again and replayed again, it has one link and the same fields.
	second := replayFields(letter{id: idAt(20), origin: idAt(11).String(), group: "h"}, first)
	if len(second) != len(first) || !slices.Equal(second[:2], own) || second[2].Value != idAt(11).String() {
		t.Errorf("the second time: %q", second)
	}
	for _, fields := range [][]evtlog.Field{nil, own, {evtlog.F("replay_dead", "nonsense")}} {
		if of, ok := linkOf(evtlog.Record{Fields: fields}); ok {
			t.Errorf("%q has a link to %s", fields, of)
		}
	}
}

func TestMark(t *testing.T) {
	of, as, ok := parseMark(evtlog.Record{Fields: markFields(idAt(1), idAt(2))})
	if !ok || of != idAt(1) || as != idAt(2) {
		t.Errorf("got %s, %s, %v", of, as, ok)
	}
	good := markFields(idAt(1), idAt(2))
	for _, bad := range [][]evtlog.Field{
		nil, good[:1], append(slices.Clone(good), evtlog.F("x", "")), {good[1], good[0]},
		{evtlog.F("replayed_letter", "x"), good[1]}, {good[0], evtlog.F("replayed_as", "x")},
	} {
		if _, _, ok := parseMark(evtlog.Record{Fields: bad}); ok {
			t.Errorf("%q is taken for a mark", bad)
		}
	}
}

func TestDeadIndex(t *testing.T) {
	// Letters 10..15 of entries 0..5, alternating between two groups; 11 and 14
	// were replayed; one record is neither.
	fill := func(s deadSelection) *deadIndex {
		x := newDeadIndex(s)
		for n := range 6 {
			x.add(evtlog.Record{ID: idAt(10 + n), Fields: letterFields(idAt(n), []string{"g", "h"}[n%2])})
		}
		x.add(evtlog.Record{ID: idAt(20), Fields: markFields(idAt(11), idAt(30))})
		x.add(evtlog.Record{ID: idAt(21), Fields: markFields(idAt(14), idAt(31))})
		x.add(evtlog.Record{ID: idAt(22), Fields: []evtlog.Field{evtlog.F("a", "1")}})
		return x
	}
	ids := func(ns ...int) (out []evtid.ID) {
		for _, n := range ns {
			out = append(out, idAt(n))
		}
		return out
	}
	for name, tc := range map[string]struct {
		selection deadSelection
		open      []evtid.ID
		replayed  int
		missing   string
	}{
		"all":             {deadSelection{}, ids(10, 12, 13, 15), 2, ""},
		"a group":         {deadSelection{group: "h"}, ids(13, 15), 1, ""},
		"a limit":         {deadSelection{window: evtlog.Window{Limit: 2}}, ids(10, 12), 2, ""},
		"a wide limit":    {deadSelection{window: evtlog.Window{Limit: 20}}, ids(10, 12, 13, 15), 2, ""},
		"a window":        {deadSelection{window: evtlog.Window{After: idAt(11), To: idAt(13)}}, ids(12, 13), 0, ""},
		"by letter":       {deadSelection{ids: []string{idAt(12).String()}}, ids(12), 0, ""},
		"by entry":        {deadSelection{ids: []string{idAt(3).String(), idAt(5).String()}}, ids(13, 15), 0, ""},
		"one is replayed": {deadSelection{ids: []string{idAt(14).String(), idAt(12).String()}}, ids(12), 1, ""},
		"one is missing":  {deadSelection{ids: []string{idAt(12).String(), "x"}}, ids(12), 0, "x"},
		"of the other":    {deadSelection{group: "g", ids: []string{idAt(13).String()}}, nil, 0, idAt(13).String()},
	} {
		x := fill(tc.selection)
		open, replayed := x.open()
		if !slices.Equal(open, tc.open) || replayed != tc.replayed || x.missing() != tc.missing || x.strange != 1 {
			t.Errorf("%s: open %v, replayed %d, missing %q, strange %d; want %+v", name, open, replayed, x.missing(), x.strange, tc)
		}
	}
}

func TestLetterJSON(t *testing.T) {
	l, _ := parseLetter(evtlog.Record{ID: idAt(9), Fields: letterFields(idAt(1), "g\xff\"", evtlog.F("a", "1"), evtlog.F("a", "2"))})
	line, err := appendLetterJSON(nil, l, idAt(30))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(line, &got); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	if got["id"] != idAt(9).String() || got["origin"] != idAt(1).String() || got["group"] != "g\ufffd\"" || got["attempts"] != 4.0 ||
		got["replayed_as"] != idAt(30).String() || got["fields"].(map[string]any)["a"] != "2" {
		t.Errorf("got %s", line)
	}
	if _, there := got["truncated"]; there {
		t.Errorf("it is not truncated: %s", line)
	}
}
