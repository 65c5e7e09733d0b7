package archivetest

import (
	"errors"
	"slices"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
)

func (c *conform) emptyArchive() {
	c.wantWatermark(evtid.ID{})
	c.wantRecords(nil)
	c.wantRange(c.stream, archive.Range{After: ID(1), To: ID(9)}, nil)
	c.wantRange(c.stream, archive.Range{To: ID(9), Reverse: true}, nil)
}

func (c *conform) foldMoves() {
	w := c.fold(evtid.ID{}, Records(1, 3))
	c.wantWatermark(ID(3))
	w = c.fold(w, Records(4, 4))
	c.wantWatermark(ID(4))
	// Ids need not be dense.
	c.fold(w, Records(40, 45))
	c.wantWatermark(ID(45))
	c.wantRecords(slices.Concat(Records(1, 4), Records(40, 45)))
}

func (c *conform) repeatedFold() {
	c.fold(evtid.ID{}, Records(1, 3))
	c.fold(evtid.ID{}, Records(1, 3))
	c.wantRecords(Records(1, 3))
	c.fold(ID(3), Records(4, 5))
	c.fold(ID(3), Records(4, 5))
	// An answer may be lost for long: others have folded meanwhile.
	c.fold(evtid.ID{}, Records(1, 3))
	c.fold(ID(5), Records(6, 6))
	c.fold(ID(3), Records(4, 5))
	c.wantWatermark(ID(6))
	c.wantRecords(Records(1, 6))
	// Source is where a copy was read from, not part of the record.
	again := Records(6, 6)
	again[0].Source = evtlog.Archived
	c.fold(ID(5), again)
	c.wantRecords(Records(1, 6))
}

func (c *conform) differentFold() {
	stored := Records(1, 3)
	stored[1].Fields = []evtlog.Field{evtlog.F("a", "1"), evtlog.F("b", "2")}
	c.fold(evtid.ID{}, stored)
	other := func(change func(r *evtlog.Record)) []evtlog.Record {
		records := slices.Clone(stored)
		records[1].Fields = slices.Clone(stored[1].Fields)
		change(&records[1])
		return records
	}
	for name, records := range map[string][]evtlog.Record{
		"fewer records":   stored[:2],
		"more records":    slices.Concat(stored, Records(4, 4)),
		"another id":      other(func(r *evtlog.Record) { r.ID = r.ID.Next() }),
		"another value":   other(func(r *evtlog.Record) { r.Fields[0].Value = "9" }),
		"another name":    other(func(r *evtlog.Record) { r.Fields[0].Name = "z" }),
		"another order":   other(func(r *evtlog.Record) { slices.Reverse(r.Fields) }),
		"another split":   other(func(r *evtlog.Record) { r.Fields = []evtlog.Field{evtlog.F("a", "1b"), evtlog.F("", "2")} }),
		"a field less":    other(func(r *evtlog.Record) { r.Fields = r.Fields[:1] }),
		"without a brand": other(func(r *evtlog.Record) { r.Unbranded = true }),
	} {
		w, err := c.a.Fold(c.ctx, c.stream, evtid.ID{}, records)
		if err == nil {
			c.Fatalf("a fold with %s on a watermark that has moved was answered with %q; want a *ConflictError", name, w)
		}
		c.wantConflict(err, evtid.ID{}, ID(3))
	}
	c.wantWatermark(ID(3))
	c.wantRecords(stored)
}

func (c *conform) conflict() {
	// In an empty archive.
	_, err := c.a.Fold(c.ctx, c.stream, ID(1), Records(2, 3))
	c.wantConflict(err, ID(1), evtid.ID{})
	c.wantWatermark(evtid.ID{})

	c.fold(evtid.ID{}, Records(1, 3))
	for _, prev := range []evtid.ID{{}, ID(1), ID(2), ID(3).Prev(), ID(3).Next(), ID(4)} {
		_, err := c.a.Fold(c.ctx, c.stream, prev, Records(5, 6))
		c.wantConflict(err, prev, ID(3))
	}
	c.wantWatermark(ID(3))
	c.wantRecords(Records(1, 3))
	c.fold(ID(3), Records(5, 6))
	c.wantRecords(slices.Concat(Records(1, 3), Records(5, 6)))
}

func (c *conform) order() {
	c.fold(evtid.ID{}, Records(1, 3))
	one := func(n int) evtlog.Record { return Records(n, n)[0] }
	for name, records := range map[string][]evtlog.Record{
		"no records (nil)":      nil,
		"no records (empty)":    {},
		"a record twice":        {one(4), one(5), one(5)},
		"records out of order":  {one(4), one(6), one(5)},
		"first equal to prev":   {one(3), one(4)},
		"first below prev":      {one(2), one(4)},
		"a record without id":   {{Fields: one(4).Fields}},
		"the zero id at second": {one(4), {}},
	} {
		w, err := c.a.Fold(c.ctx, c.stream, ID(3), records)
		if !errors.Is(err, archive.ErrRejected) {
			c.Errorf("a fold with %s = %q, %v; want an error that wraps ErrRejected", name, w, err)
		}
	}
	c.wantWatermark(ID(3))
	c.wantRecords(Records(1, 3))
}

// independent uses names that run together when they are joined carelessly.
func (c *conform) independent() {
	names := []evtlog.StreamName{
		{Queue: "q" + c.suffix, Name: "s"},
		{Queue: "q" + c.suffix, Name: "s.archived"},
		{Queue: "q" + c.suffix, Name: "S"},
		{Queue: "q" + c.suffix, Name: "ss"},
		{Queue: "q" + c.suffix + "s", Name: "s"},
		{Queue: "q" + c.suffix + "/s", Name: "s"},
		{Queue: "q" + c.suffix + ":s", Name: "s"},
		{Queue: "s", Name: "q" + c.suffix},
	}
	for i, name := range names {
		c.wantWatermarkOf(name, evtid.ID{})
		c.foldInto(name, evtid.ID{}, Records(1, i+1))
	}
	for i, name := range names {
		c.wantWatermarkOf(name, ID(i+1))
		c.foldInto(name, ID(i+1), Records(20+i, 30))
	}
	for i, name := range names {
		c.wantWatermarkOf(name, ID(30))
		c.wantRecordsOf(name, slices.Concat(Records(1, i+1), Records(20+i, 30)))
	}
}

func (c *conform) keepsNothing() {
	records := Records(1, 3)
	c.fold(evtid.ID{}, records)
	for i := range records {
		if want := Records(i+1, i+1)[0]; !equal(records[i], want) {
			c.Fatalf("Fold changed the caller's record %d to %#v", i, records[i])
		}
		records[i].Fields[0] = evtlog.F("overwritten", "by the caller")
		records[i].ID = ID(99)
	}
	c.wantRecords(Records(1, 3))
}
