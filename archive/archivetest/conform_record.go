package archivetest

import (
	"strconv"
	"strings"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
)

func (c *conform) recordsReturn() {
	var allBytes strings.Builder
	for b := range 256 {
		allBytes.WriteByte(byte(b))
	}
	var many []evtlog.Field
	for i := range 1000 {
		many = append(many, evtlog.F("field-"+strconv.Itoa(i), strconv.Itoa(i)))
	}
	bodies := [][]evtlog.Field{
		nil,
		{},
		{evtlog.F("", "")},
		{evtlog.F("name", ""), evtlog.F("", "value")},
		{evtlog.F("b", "1"), evtlog.F("a", "2"), evtlog.F("b", "3"), evtlog.F("b", "1")},
		{evtlog.F(allBytes.String(), allBytes.String())},
		{evtlog.F("nul\x00nul", "\x00"), evtlog.F("\xff\xfe", "\xc3\x28")},
		{evtlog.F("line\r\n", "$5\r\nhello\r\n"), evtlog.F("{json}", `{"a":"b"}`)},
		{evtlog.F("id", "EVTnot-an-id"), evtlog.F("id", ID(1).String())},
		{evtlog.F("größe", "9 µm — ✔")},
		many,
	}
	var want []evtlog.Record
	for i, fields := range bodies {
		want = append(want, evtlog.Record{ID: ID(2*i + 1), Fields: fields}, evtlog.Record{ID: ID(2*i + 2), Fields: fields, Unbranded: true})
	}
	w := c.fold(evtid.ID{}, want[:5])
	c.fold(w, want[5:])
	c.wantRecords(want)
}

// large folds the largest record that an append accepts, and a full fold of the
// usual size.
func (c *conform) large() {
	body := strings.Repeat("0123456789abcdef", evtlog.DefaultMaxRecordBytes/16)
	want := []evtlog.Record{{ID: ID(1), Fields: []evtlog.Field{evtlog.F("", body)}}}
	w := c.fold(evtid.ID{}, want)
	chunk := Records(2, 1001)
	for i := range chunk {
		chunk[i].Fields = append(chunk[i].Fields, evtlog.F("body", body[i:i+400]))
	}
	c.fold(w, chunk)
	c.wantRecords(append(want, chunk...))
}

// edgeIDs folds the first id there is, which is not the zero ID, and the last.
func (c *conform) edgeIDs() {
	first, last := evtid.ID{}.Next(), evtid.Max
	want := []evtlog.Record{{ID: first, Fields: Records(1, 1)[0].Fields}, {ID: first.Next()}, {ID: last.Prev()}, {ID: last}}
	w := c.fold(evtid.ID{}, want[:1])
	c.wantWatermark(first)
	c.wantRecords(want[:1])
	c.fold(w, want[1:])
	c.wantWatermark(last)
	c.wantRecords(want)
	c.wantRange(c.stream, archive.Range{To: first}, want[:1])
	c.wantRange(c.stream, archive.Range{After: first, To: last.Prev()}, want[1:3])
	c.wantRange(c.stream, archive.Range{After: last.Prev(), To: last, Reverse: true}, want[3:])
	c.wantRange(c.stream, archive.Range{After: last, To: last}, nil)
}
