package volume

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
	"pgregory.net/rapid"
)

// anyRecord draws a record with fields of any bytes.
func anyRecord(t *rapid.T, id evtid.ID) evtlog.Record {
	r := evtlog.Record{ID: id, Unbranded: rapid.Bool().Draw(t, "unbranded")}
	for range rapid.IntRange(0, 5).Draw(t, "fields") {
		n := rapid.SampledFrom([]int{0, 1, 5, 127, 128, 300, 20_000}).Draw(t, "size")
		name := string(rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "name"))
		r.Fields = append(r.Fields, evtlog.F(name, strings.Repeat(string(rapid.SliceOfN(rapid.Byte(), 1, 1).Draw(t, "byte")), n)))
	}
	return r
}

func TestPageRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, err := evtid.FromSnowflake(rapid.Uint64Max(evtid.MaxSnowflake).Draw(t, "id"))
		if err != nil {
			t.Fatal(err)
		}
		r := anyRecord(t, v)
		seed := pageSeed(volumeKey(feed))
		page := appendPage(nil, seed, &r)
		if len(page) != pageLen(&r) {
			t.Fatalf("%d bytes, expected %d", len(page), pageLen(&r))
		}
		if reason := checkPage(seed, page); reason != "" {
			t.Fatal(reason)
		}
		back, left, reason := decodePage(string(page[:len(page)-crcSize]), make([]evtlog.Field, 3))
		if reason != "" || !same([]evtlog.Record{back}, []evtlog.Record{r}) || back.Source != evtlog.Archived {
			t.Fatalf("%v %q, want %v", back, reason, r)
		}
		if cap(back.Fields) != len(back.Fields) {
			t.Fatalf("the fields can grow into %v", left)
		}
		if got, ok := pageID(page); !ok || got != v {
			t.Fatalf("id %v", got)
		}
		if checkPage(pageSeed(volumeKey(other)), page) == "" {
			t.Fatal("the page is good in another volume too")
		}
		page[rapid.IntRange(0, len(page)-1).Draw(t, "at")] ^= byte(rapid.IntRange(1, 255).Draw(t, "flip"))
		if checkPage(seed, page) == "" {
			t.Fatal("a flipped byte was not noticed")
		}
	})
}

func TestDecodePageRefuses(t *testing.T) {
	good := func(mod func([]byte) []byte) string {
		r := evtlog.Record{ID: id(1), Fields: []evtlog.Field{evtlog.F("name", "value")}}
		page := appendPage(nil, 0, &r)
		return string(mod(page[:len(page)-crcSize]))
	}
	for name, s := range map[string]string{
		"no id":            good(func(b []byte) []byte { b[0] = 0x80; return b }),
		"new flags":        good(func(b []byte) []byte { b[8] = 2; return b }),
		"too many fields":  good(func(b []byte) []byte { b[9] = 100; return b }),
		"endless number":   good(func(b []byte) []byte { return append(b[:9], bytes.Repeat([]byte{0xff}, 12)...) }),
		"one field more":   good(func(b []byte) []byte { b[9] = 2; return b }),
		"long name":        good(func(b []byte) []byte { b[10] = 90; return b }),
		"long value":       good(func(b []byte) []byte { b[15] = 90; return b }),
		"bytes at the end": good(func(b []byte) []byte { return append(b, 0) }),
		"one field fewer":  good(func(b []byte) []byte { b[9] = 0; return b }),
	} {
		if _, _, reason := decodePage(s, nil); reason == "" {
			t.Errorf("%s was accepted", name)
		}
	}
	if checkPage(0, make([]byte, minPage-1)) == "" {
		t.Error("a short page was accepted")
	}
	if _, ok := pageID([]byte{1}); ok {
		t.Error("a page of one byte has an id")
	}
}

func TestRowRoundTrip(t *testing.T) {
	seed := rowSeed(volumeKey(feed))
	r := row{lsn: 3, first: ArchiveBase + 7, count: 2, size: 99, prev: id(3), watermark: id(9), total: 500, index: 12, term: 2, chain: [32]byte{1, 2}}
	b := appendRow(nil, seed, &r)
	if back, reason := parseRow(b, seed); reason != "" || back != r || len(b) != rowSize {
		t.Fatalf("%+v %q", back, reason)
	}
	for i := range b {
		bad := slices.Clone(b)
		bad[i] ^= 1
		if _, reason := parseRow(bad, seed); reason == "" {
			t.Fatalf("a flip of byte %d was not noticed", i)
		}
	}
	if _, reason := parseRow(b[:len(b)-1], seed); reason == "" {
		t.Error("a short row was accepted")
	}
	for _, mod := range []func(r *row){func(r *row) { r.lsn = 0 }, func(r *row) { r.count = 0 }, func(r *row) { r.first = 1 }} {
		bad := r
		mod(&bad)
		if _, reason := parseRow(appendRow(nil, seed, &bad), seed); reason == "" {
			t.Errorf("%+v was accepted", bad)
		}
	}
	if _, ok := wordID(math.MaxUint64); ok {
		t.Error("an id out of range was accepted")
	}
	if h := r.head(feed); h.Count != 9 || h.LSN != 3 || h.Index != 12 || h.Term != 2 || h.Bytes != 500 || h.Watermark != id(9) {
		t.Errorf("head %+v", h)
	}
}

func TestCommitRoundTrip(t *testing.T) {
	seed := pageSeed(volumeKey(feed))
	data, err := EncodeCommit([]byte("before"), feed, id(4), recs(5, 9))
	if err != nil || string(data[:6]) != "before" {
		t.Fatal(err)
	}
	data = data[6:]
	if len(data) != EncodedSize(recs(5, 9)) {
		t.Errorf("%d bytes, EncodedSize says %d", len(data), EncodedSize(recs(5, 9)))
	}
	view, reason := parseCommit(data, seed)
	if reason != "" || view.prev != id(4) || view.watermark != id(9) || view.count != 5 {
		t.Fatalf("%+v %q", view, reason)
	}
	c := Commit{LSN: 2, Prev: id(4), Watermark: id(9), Count: 5, Index: 7, Term: 3, Chain: [32]byte{9}, Data: data}
	got, err := c.Records(feed)
	if err != nil || !same(got, recs(5, 9)) {
		t.Fatalf("%v %v", got, err)
	}
	if _, err := c.Records(other); !errors.Is(err, archive.ErrCorrupt) {
		t.Errorf("records of another stream: %v", err)
	}
	b, _ := c.MarshalBinary()
	var back Commit
	if err := back.UnmarshalBinary(b); err != nil || back.LSN != 2 || back.Index != 7 || back.Term != 3 || back.Chain != c.Chain ||
		back.Prev != id(4) || back.Watermark != id(9) || back.Count != 5 || !bytes.Equal(back.Data, data) {
		t.Fatalf("%+v %v", back, err)
	}
	for i := range b {
		bad := slices.Clone(b)
		bad[i] ^= 0x40
		if err := new(Commit).UnmarshalBinary(bad); !errors.Is(err, archive.ErrCorrupt) {
			t.Fatalf("a flip of byte %d: %v", i, err)
		}
	}
	for i := range data {
		bad := slices.Clone(data)
		bad[i] ^= 1
		// The number before the first id can be any; only the volume knows it.
		if _, reason := parseCommit(bad, seed); reason == "" && (i < 4 || i >= 12) {
			t.Fatalf("a flip of byte %d was accepted", i)
		}
	}
}

func TestParseCommitRefuses(t *testing.T) {
	seed := pageSeed(volumeKey(feed))
	page := func(n int) []byte { r := rec(n); return appendPage(nil, seed, &r) }
	frame := func(prev, w evtid.ID, count int, pages ...[]byte) []byte {
		b := appendCommitHeader(nil, prev, w, count)
		for _, p := range pages {
			b = append(append(b, 0, 0, byte(len(p)>>8), byte(len(p))), p...)
		}
		return b
	}
	good := frame(id(0), id(2), 2, page(1), page(2))
	if _, reason := parseCommit(good, seed); reason != "" {
		t.Fatal(reason)
	}
	for name, b := range map[string][]byte{
		"nothing":             nil,
		"header only":         frame(id(0), id(2), 0),
		"another magic":       append([]byte("EVC\x02"), good[4:]...),
		"cut page":            good[:len(good)-1],
		"cut length":          append(slices.Clone(good), 0, 0),
		"out of order":        frame(id(0), id(1), 2, page(2), page(1)),
		"equal ids":           frame(id(0), id(1), 2, page(1), page(1)),
		"not above prev":      frame(id(1), id(2), 2, page(1), page(2)),
		"another count":       frame(id(0), id(2), 3, page(1), page(2)),
		"another watermark":   frame(id(0), id(3), 2, page(1), page(2)),
		"pages of no one":     frame(id(0), id(1), 1, appendPage(nil, 1, &evtlog.Record{ID: id(1)})),
		"longer than allowed": append(slices.Clone(good), make([]byte, MaxCommitBytes)...),
	} {
		if _, reason := parseCommit(b, seed); reason == "" {
			t.Errorf("%s was accepted", name)
		}
	}
}

func FuzzParseCommit(f *testing.F) {
	data, err := EncodeCommit(nil, feed, id(0), recs(1, 3))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(data[:30])
	travel, _ := Commit{LSN: 1, Data: data}.MarshalBinary()
	f.Add(travel)
	f.Fuzz(func(t *testing.T, b []byte) {
		var c Commit
		_ = c.UnmarshalBinary(b)
		view, reason := parseCommit(b, pageSeed(volumeKey(feed)))
		if reason != "" {
			return
		}
		// What is accepted is canonical: encoding its records gives it back.
		records, err := Commit{Data: b}.Records(feed)
		if err != nil {
			return
		}
		again, err := EncodeCommit(nil, feed, view.prev, records)
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%x came back as %x: %v", b, again, err)
		}
	})
}

func FuzzDecodePage(f *testing.F) {
	r := rec(1)
	f.Add(string(appendPage(nil, 0, &r)))
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) < minPage-crcSize {
			return
		}
		rec, _, reason := decodePage(s, nil)
		if reason == "" && evtlog.Size(rec.Fields) > len(s) {
			t.Fatalf("%d bytes hold %d", len(s), evtlog.Size(rec.Fields))
		}
	})
}

func TestVolumeKeys(t *testing.T) {
	for _, s := range []evtlog.StreamName{feed, {Queue: "a/b", Name: "c"}, {Queue: "ü", Name: "x.y"}} {
		if back, ok := streamOf(volumeKey(s)); !ok || back != s {
			t.Errorf("%v came back as %v", s, back)
		}
	}
	if _, ok := streamOf([]byte("nothing")); ok {
		t.Error("a key without a zero byte is a stream")
	}
	if compareStreams(feed, other) >= 0 || compareStreams(evtlog.StreamName{Queue: "b"}, evtlog.StreamName{Queue: "a", Name: "z"}) <= 0 || compareStreams(feed, feed) != 0 {
		t.Error("streams are out of order")
	}
}
