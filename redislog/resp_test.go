package redislog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/gomodule/redigo/redis"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

func TestParseHeader(t *testing.T) {
	for _, c := range []struct {
		in   string
		kind byte
		n    int64
		text string
		err  string // "" none, "short", else part of a protocol error
	}{
		{"+OK\r\nrest", '+', 0, "OK", ""},
		{"+\r\n", '+', 0, "", ""},
		{"-ERR no\r\n", '-', 0, "ERR no", ""},
		{":42\r\n", ':', 42, "42", ""},
		{":-42\r\n", ':', -42, "-42", ""},
		{":9223372036854775807\r\n", ':', 1<<63 - 1, "9223372036854775807", ""},
		{"$-1\r\n", '$', -1, "-1", ""},
		{"*0\r\n", '*', 0, "0", ""},
		{"", 0, 0, "", "short"},
		{"$12", 0, 0, "", "short"},
		{"$12\r", 0, 0, "", "short"},
		{strings.Repeat("x", maxLine+1), 0, 0, "", "longer"},
		{"\n", 0, 0, "", "CRLF"},
		{"\r\n", 0, 0, "", "CRLF"},
		{"+a\n", 0, 0, "", "CRLF"},
		{":\r\n", 0, 0, "", "not a number"},
		{":-\r\n", 0, 0, "", "not a number"},
		{":1x\r\n", 0, 0, "", "not a number"},
		{":9223372036854775808\r\n", 0, 0, "", "not a number"},
		{":99999999999999999999\r\n", 0, 0, "", "not a number"},
		{"$-2\r\n", 0, 0, "", "out of range"},
		{"$536870913\r\n", 0, 0, "", "out of range"},
		{"*1073741825\r\n", 0, 0, "", "out of range"},
		{"%2\r\n", 0, 0, "", "unknown reply type"},
		{">3\r\n", 0, 0, "", "unknown reply type"},
	} {
		h, err := parseHeader([]byte(c.in))
		var protocol protocolError
		switch {
		case c.err == "short" && errors.Is(err, errShort):
		case c.err != "" && errors.As(err, &protocol) && strings.Contains(err.Error(), c.err):
		case c.err == "" && err == nil && h.kind == c.kind && h.n == c.n && string(h.text) == c.text && h.size == strings.Index(c.in, "\n")+1:
		default:
			t.Errorf("%.20q: got %+v, %v", c.in, h, err)
		}
	}
}

// replies are whole answers and what they mean.
var replies = []struct {
	wire string
	want any
}{
	{"+OK\r\n", "OK"},
	{"-ERR no\r\n", redis.Error("ERR no")},
	{":7\r\n", int64(7)},
	{"$-1\r\n", nil},
	{"*-1\r\n", nil},
	{"$0\r\n\r\n", []byte{}},
	{"$4\r\na\r\nb\r\n", []byte("a\r\nb")},
	{"*0\r\n", []any{}},
	{"*2\r\n:1\r\n*2\r\n$1\r\nx\r\n*-1\r\n", []any{int64(1), []any{[]byte("x"), nil}}},
}

func TestParseValue(t *testing.T) {
	for _, c := range replies {
		got, size, err := parseValue([]byte(c.wire+"+more\r\n"), 0)
		if err != nil || size != len(c.wire) || fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", c.want) {
			t.Errorf("%q: got %#v, %d, %v", c.wire, got, size, err)
		}
	}
	if _, _, err := parseValue([]byte(strings.Repeat("*1\r\n", maxDepth+2)+":1\r\n"), 0); err == nil {
		t.Error("endless nesting was followed")
	}
}

// TestReaderInPieces: however the bytes arrive, the same answers come out.
func TestReaderInPieces(t *testing.T) {
	var all strings.Builder
	for _, c := range replies {
		all.WriteString(c.wire)
	}
	for name, src := range map[string]io.Reader{
		"whole": strings.NewReader(all.String()), "bytes": iotest.OneByteReader(strings.NewReader(all.String())),
		"halves": iotest.HalfReader(strings.NewReader(all.String())),
	} {
		rd := newReader(src)
		for _, c := range replies {
			size, err := rd.whole()
			if err != nil || string(rd.buffered()[:size]) != c.wire {
				t.Fatalf("%s: got %q, %v; want %q", name, rd.buffered()[:size], err, c.wire)
			}
			if err := rd.skip(1); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := rd.whole(); !errors.Is(err, io.EOF) {
			t.Fatalf("%s: %v at the end", name, err)
		}
	}
}

func TestReaderEndsInsideReply(t *testing.T) {
	rd := newReader(strings.NewReader("$5\r\nab"))
	if _, err := rd.whole(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("got %v", err)
	}
	rd = newReader(iotest.ErrReader(io.ErrClosedPipe))
	if _, err := rd.line(); !errors.Is(err, io.ErrClosedPipe) {
		t.Fatalf("got %v", err)
	}
}

// TestReaderBuffer: it grows for what does not fit, moves what is left to the
// front, and gives a large buffer back.
func TestReaderBuffer(t *testing.T) {
	big := strings.Repeat("x", 3*keepBuffer)
	wire := fmt.Sprintf("+a\r\n$%d\r\n%s\r\n+b\r\n", len(big), big)
	rd := newReader(strings.NewReader(wire + wire))
	for range 2 {
		for _, want := range []int{4, len(big) + 2 + 10, 4} {
			size, err := rd.whole()
			if err != nil || size != want {
				t.Fatalf("size %d, %v; want %d", size, err, want)
			}
			rd.r += size
		}
	}
	if len(rd.buf) <= keepBuffer {
		t.Fatalf("a reply of %d bytes fitted into %d", len(big), len(rd.buf))
	}
	if _, err := rd.whole(); !errors.Is(err, io.EOF) || len(rd.buf) != readBuffer {
		t.Fatalf("%v, and %d bytes are kept", err, len(rd.buf))
	}
}

// wireEntry writes an entry as the server does.
func wireEntry(id string, words ...string) string {
	return string(appendWords(appendBulk([]byte("*2\r\n"), id), words))
}

func appendWords(dst []byte, words []string) []byte {
	dst = appendArray(dst, len(words))
	for _, w := range words {
		dst = appendBulk(dst, w)
	}
	return dst
}

func TestEntry(t *testing.T) {
	id := at(0)
	fields := []evtlog.Field{evtlog.F("k", "v"), evtlog.F("k", "")}
	for name, c := range map[string]struct {
		wire string
		want Entry
		none bool
	}{
		"branded":      {wire: wireEntry(id.Entry(), "id", id.String(), "k", "v", "k", ""), want: Entry{Record: evtlog.Record{ID: id, Fields: fields}}},
		"only the id":  {wire: wireEntry(id.Entry(), "id", id.String()), want: Entry{Record: evtlog.Record{ID: id}}},
		"without id":   {wire: wireEntry(id.Entry(), "k", "v", "k", ""), want: Entry{Record: evtlog.Record{ID: id, Fields: fields, Unbranded: true}}},
		"no field":     {wire: wireEntry(id.Entry()), want: Entry{Record: evtlog.Record{ID: id, Unbranded: true}}},
		"other id":     {wire: wireEntry(id.Entry(), "id", at(1).String(), "k", "v"), want: Entry{Record: evtlog.Record{ID: id, Fields: []evtlog.Field{{Name: "id", Value: at(1).String()}, {Name: "k", Value: "v"}}, Unbranded: true}, Stored: at(1).String()}},
		"junk id":      {wire: wireEntry(id.Entry(), "id", "x"), want: Entry{Record: evtlog.Record{ID: id, Fields: []evtlog.Field{{Name: "id", Value: "x"}}, Unbranded: true}, Stored: "x"}},
		"id not first": {wire: wireEntry(id.Entry(), "k", "v", "id", id.String()), want: Entry{Record: evtlog.Record{ID: id, Fields: []evtlog.Field{{Name: "k", Value: "v"}, {Name: "id", Value: id.String()}}, Unbranded: true}}},
		"binary":       {wire: wireEntry(id.Entry(), "id", id.String(), "\x00\xff", "a\r\nb"), want: Entry{Record: evtlog.Record{ID: id, Fields: []evtlog.Field{{Name: "\x00\xff", Value: "a\r\nb"}}}}},
		"nil body":     {wire: "*2\r\n$15\r\n1746090000000-0\r\n*-1\r\n", want: Entry{Record: evtlog.Record{ID: id.Prev().Prev()}, Missing: true}},
		"nil string":   {wire: "*2\r\n$15\r\n1746090000000-0\r\n$-1\r\n", want: Entry{Missing: true}},
		"nil entry":    {wire: "*-1\r\n", none: true},
		"nil bulk":     {wire: "$-1\r\n", none: true},
		"before 2024":  {wire: wireEntry("5-0", "k", "v", "k", ""), want: Entry{Record: evtlog.Record{Fields: fields, Unbranded: true}, Raw: "5-0"}},
		"big tail":     {wire: wireEntry("1746090000000-4194304", "id", "x"), want: Entry{Record: evtlog.Record{Fields: []evtlog.Field{{Name: "id", Value: "x"}}, Unbranded: true}, Raw: "1746090000000-4194304", Stored: "x"}},
	} {
		if c.want.Missing {
			c.want.ID, _ = evtid.ParseEntry("1746090000000-0")
		}
		rd := newReader(iotest.OneByteReader(strings.NewReader(c.wire + "+next\r\n")))
		got, ok, err := rd.entry()
		if err != nil || ok == c.none || fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", c.want) {
			t.Errorf("%s: got %#v, %v, %v; want %#v", name, got, ok, err, c.want)
			continue
		}
		if h, err := rd.line(); err != nil || string(h.text) != "next" {
			t.Errorf("%s: what follows reads %q, %v", name, h.text, err)
		}
	}
}

func TestEntryRefused(t *testing.T) {
	for name, wire := range map[string]string{
		"status":      "+OK\r\n",
		"three parts": "*3\r\n$3\r\n1-1\r\n*0\r\n*0\r\n",
		"number id":   "*2\r\n:1\r\n*0\r\n",
		"nil id":      "*2\r\n$-1\r\n*0\r\n",
		"zero id":     wireEntry("0-0", "k", "v"),
		"junk id":     wireEntry("abc", "k", "v"),
		"odd body":    wireEntry(at(0).Entry(), "k"),
		"text body":   "*2\r\n$15\r\n1746090000000-0\r\n$1\r\nx\r\n",
		"nil value":   "*2\r\n$15\r\n1746090000000-0\r\n*2\r\n$1\r\nk\r\n$-1\r\n",
		"int value":   "*2\r\n$15\r\n1746090000000-0\r\n*2\r\n$1\r\nk\r\n:1\r\n",
		"bad end":     "*2\r\n$15\r\n1746090000000-0\r\n*2\r\n$1\r\nkXX$1\r\nv\r\n",
		"cut":         wireEntry(at(0).Entry(), "k", "v")[:20],
	} {
		rd := newReader(strings.NewReader(wire))
		e, ok, err := rd.entry()
		var protocol protocolError
		if ok || err == nil || !errors.As(err, &protocol) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: got %#v, %v, %v", name, e, ok, err)
		}
	}
}

// TestEntryOwnsItsMemory: what was decoded does not change when the buffer is
// used again, and appending to the fields of one record does not reach another.
func TestEntryOwnsItsMemory(t *testing.T) {
	wire := wireEntry(at(0).Entry(), "id", at(0).String(), "name", "value")
	rd := newReader(strings.NewReader(wire + wire))
	first, _, err := rd.entry()
	if err != nil {
		t.Fatal(err)
	}
	copy(rd.buf, bytes.Repeat([]byte{'#'}, rd.w))
	_ = append(first.Fields, evtlog.F("x", "y"))
	if v, ok := first.Get("name"); !ok || v != "value" {
		t.Fatalf("the record changed: %#v", first)
	}
}

func TestFloorPosition(t *testing.T) {
	first := evtid.ID{}.Next()
	for in, want := range map[string]evtid.ID{
		"0-0": {}, "0": {}, "5-0": {}, "5": {}, "1704067199999-18446744073709551615": {},
		firstEntry: first, "1704067200000": first, at(3).Entry(): at(3),
		"1746090000000-4194304":                     mustEntry(t, "1746090000000-4194303"),
		"1746090000000-18446744073709551615":        mustEntry(t, "1746090000000-4194303"),
		"99999999999999-0":                          evtid.Max,
		"18446744073709551615-18446744073709551615": evtid.Max,
	} {
		if got, err := floorPosition(in); err != nil || got != want {
			t.Errorf("%s: got %v, %v; want %v", in, got.Entry(), err, want.Entry())
		}
	}
	for _, in := range []string{"", "-", "a-1", "1-a", "1-2-3", "18446744073709551616-0"} {
		if got, err := floorPosition(in); err == nil {
			t.Errorf("%q: got %v", in, got)
		}
	}
}

func mustEntry(t *testing.T, s string) evtid.ID {
	t.Helper()
	id, err := evtid.ParseEntry(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestEncode(t *testing.T) {
	got := string(appendInt(appendBulk(appendArray(nil, 3), "XADD"), -12)) + string(appendCommand(nil, "a", "\r\n"))
	if want := "*3\r\n$4\r\nXADD\r\n$3\r\n-12\r\n*2\r\n$1\r\na\r\n$2\r\n\r\n\r\n"; got != want {
		t.Fatalf("got %q", got)
	}
}
