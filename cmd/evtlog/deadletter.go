package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/streamconsumer"
	"github.com/evtlog/evtlog/evtid"
)

// The fields that a replayed record has behind the fields of the entry that was
// given up. Every group of the stream is given the record, not only the one that
// had given up: a handler that must not do the work twice looks at
// fieldReplayGroup, or deduplicates on fieldReplayOf.
const (
	// fieldReplayOf is the id of the original entry, as the dead letter has it.
	fieldReplayOf = "replay_of"
	// fieldReplayDead is the id of the dead letter.
	fieldReplayDead = "replay_dead"
	// fieldReplayGroup is the group that had given the entry up.
	fieldReplayGroup = "replay_group"
)

// The two fields of a mark: a record of the dead stream that says which letter
// was appended anew, and as what.
const (
	fieldMarkLetter = "replayed_letter"
	fieldMarkAs     = "replayed_as"
)

// letter is a dead letter, taken apart.
type letter struct {
	id evtid.ID
	// own are the fields of the entry; they were left out when truncated.
	own       []evtlog.Field
	truncated bool
	group     string
	origin    string
	reason    string
	attempts  int
	// first and last are instants in RFC 3339, as they were stored.
	first, last string
}

// parseLetter takes a record of a dead stream apart. ok is false when it is no
// dead letter. The letter's own fields stand behind those of the entry, which
// may have fields of the same names.
func parseLetter(r evtlog.Record) (l letter, ok bool) {
	begin := len(r.Fields) - 1
	for begin >= 0 && r.Fields[begin].Name != streamconsumer.FieldReason {
		begin--
	}
	if begin < 0 {
		return letter{}, false
	}
	tail := evtlog.Record{Fields: r.Fields[begin:]}
	l = letter{id: r.ID, own: r.Fields[:begin:begin]}
	l.reason, _ = tail.Get(streamconsumer.FieldReason)
	l.first, _ = tail.Get(streamconsumer.FieldFirst)
	l.last, _ = tail.Get(streamconsumer.FieldLast)
	_, l.truncated = tail.Get(streamconsumer.FieldTruncated)
	attempts, _ := tail.Get(streamconsumer.FieldAttempts)
	l.attempts, _ = strconv.Atoi(attempts)
	var hasGroup, hasOrigin bool
	l.group, hasGroup = tail.Get(streamconsumer.FieldGroup)
	l.origin, hasOrigin = tail.Get(streamconsumer.FieldOrigin)
	return l, hasGroup && hasOrigin
}

// parseMark reads a mark.
func parseMark(r evtlog.Record) (of, as evtid.ID, ok bool) {
	if len(r.Fields) != 2 || r.Fields[0].Name != fieldMarkLetter || r.Fields[1].Name != fieldMarkAs {
		return of, as, false
	}
	of, err := evtid.Parse(r.Fields[0].Value)
	if err != nil {
		return of, as, false
	}
	as, err = evtid.Parse(r.Fields[1].Value)
	return of, as, err == nil
}

// markFields are the fields of a mark.
func markFields(of, as evtid.ID) []evtlog.Field {
	return []evtlog.Field{evtlog.F(fieldMarkLetter, of.String()), evtlog.F(fieldMarkAs, as.String())}
}

// replayFields are the fields of the record that a letter is appended as: those
// of the entry, then the link. An entry that was itself a replay gets a new link
// in place of the old one, which its letter keeps.
func replayFields(l letter, own []evtlog.Field) []evtlog.Field {
	link := []evtlog.Field{
		evtlog.F(fieldReplayOf, l.origin), evtlog.F(fieldReplayDead, l.id.String()), evtlog.F(fieldReplayGroup, l.group),
	}
	if n := len(own) - len(link); n >= 0 && slices.EqualFunc(own[n:], link, func(a, b evtlog.Field) bool { return a.Name == b.Name }) {
		own = own[:n]
	}
	return slices.Concat(own, link)
}

// linkOf returns the letter that a record was appended from.
func linkOf(r evtlog.Record) (of evtid.ID, ok bool) {
	for i := len(r.Fields) - 1; i >= 0; i-- {
		if r.Fields[i].Name == fieldReplayDead {
			of, err := evtid.Parse(r.Fields[i].Value)
			return of, err == nil
		}
	}
	return of, false
}

// deadSelection says which letters a verb is about.
type deadSelection struct {
	// group is who gave up, "" for all.
	group string
	// ids are ids of letters or of original entries; none means all.
	ids []string
	// window bounds the letters' ids and their number.
	window evtlog.Window
}

func (s deadSelection) has(l letter) bool {
	w := s.window
	switch {
	case s.group != "" && s.group != l.group:
		return false
	case !w.After.Less(l.id), !w.To.IsZero() && w.To.Less(l.id):
		return false
	}
	return len(s.ids) == 0 || slices.Contains(s.ids, l.id.String()) || slices.Contains(s.ids, l.origin)
}

// deadIndex is what one pass over a dead stream finds.
type deadIndex struct {
	selection deadSelection
	// letters are the selected ones, in order.
	letters []evtid.ID
	// replayed are the marks, for all letters.
	replayed map[evtid.ID]evtid.ID
	// strange counts records that are neither letters nor marks.
	strange int
	asked   map[string]bool // of selection.ids, whether it was found
}

func newDeadIndex(s deadSelection) *deadIndex {
	x := &deadIndex{selection: s, replayed: map[evtid.ID]evtid.ID{}, asked: map[string]bool{}}
	for _, id := range s.ids {
		x.asked[id] = false
	}
	return x
}

// add takes the next record of the stream.
func (x *deadIndex) add(r evtlog.Record) {
	if of, as, ok := parseMark(r); ok {
		x.replayed[of] = as
		return
	}
	l, ok := parseLetter(r)
	switch {
	case !ok:
		x.strange++
	case x.selection.has(l):
		x.letters = append(x.letters, l.id)
		for _, id := range []string{l.id.String(), l.origin} {
			if _, asked := x.asked[id]; asked {
				x.asked[id] = true
			}
		}
	}
}

// missing returns the ids that were asked for and are not there.
func (x *deadIndex) missing() string {
	var ids []string
	for _, id := range x.selection.ids {
		if !x.asked[id] {
			ids = append(ids, id)
		}
	}
	return strings.Join(ids, ", ")
}

// open returns the selected letters that were not replayed, up to the limit, and
// how many were.
func (x *deadIndex) open() (ids []evtid.ID, replayed int) {
	for _, id := range x.letters {
		if _, done := x.replayed[id]; done {
			replayed++
		} else {
			ids = append(ids, id)
		}
	}
	return x.limited(ids), replayed
}

func (x *deadIndex) limited(ids []evtid.ID) []evtid.ID {
	if limit := x.selection.window.Limit; limit > 0 && limit < len(ids) {
		return ids[:limit]
	}
	return ids
}

// appendLetterJSON appends a letter as one JSON object. as is the record it was
// replayed as, or zero.
func appendLetterJSON(dst []byte, l letter, as evtid.ID) ([]byte, error) {
	dst, err := appendRecordJSON(dst, evtlog.Record{ID: l.id, Fields: l.own})
	if err != nil {
		return dst, err
	}
	dst = dst[:len(dst)-1] // the object goes on
	text := func(name, value string) {
		dst = append(append(append(dst, ',', '"'), name...), '"', ':')
		dst = appendJSONString(dst, strings.ToValidUTF8(value, "\ufffd"))
	}
	text("origin", l.origin)
	text("group", l.group)
	dst = strconv.AppendInt(append(dst, `,"attempts":`...), int64(l.attempts), 10)
	text("reason", l.reason)
	text("first", l.first)
	text("last", l.last)
	if l.truncated {
		dst = append(dst, `,"truncated":true`...)
	}
	if !as.IsZero() {
		text("replayed_as", as.String())
	}
	return append(dst, '}'), nil
}
