package feed_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/feed"
)

func id(t testing.TB, s string) evtid.ID {
	t.Helper()
	v, err := evtid.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestEscapes(t *testing.T) {
	for in, want := range map[string]string{
		"\b\f\n\r\t": `\b\f\n\r\t`,
		"\x00\x1f":   `\u0000\u001f`,
		"\x7f":       "\x7f",
		`"\`:         `\"\\`,
		"a\xffb\xfe": "a\uFFFDb\uFFFD",
		"\xe2\x82":   "\uFFFD\uFFFD",
		"\uFFFD":     "\uFFFD",
		"\u2028</>&": "\u2028</>&",
		"й\x01й":     `й\u0001й`,
	} {
		got := string(feed.AppendAnnouncement([]byte("x"), "e", "j", []evtlog.Field{evtlog.F(in, in)}))
		if got != `x{"event":"e","job":"j","`+want+`":"`+want+`"}` {
			t.Errorf("%q became %s", in, got)
		}
	}
}

func TestAnnouncementOfARecord(t *testing.T) {
	a := feed.Announcement{
		Event: "scored", Job: "JOB0KHTOWnGLuC", ID: id(t, "EVT0KHTOWnGLuC"), Prev: id(t, "EVT0KHTOWnGLuB"),
		// Extras of the reserved names stay extras: they cannot forge the ids.
		Extra: []evtlog.Field{evtlog.F("evt", "EVT00000000000"), evtlog.F("prev", "EVT00000000000"), evtlog.F("pct", "83")},
	}
	for _, prev := range []evtid.ID{a.Prev, {}} {
		a.Prev = prev
		payload := a.AppendTo(nil)
		got, err := feed.Decode(payload)
		if err != nil {
			t.Fatal(err)
		}
		if got.ID != a.ID || got.Prev != a.Prev || !slices.Equal(got.Extra, a.Extra) {
			t.Errorf("%s decoded to %+v", payload, got)
		}
	}
	a.ID, a.Extra = evtid.ID{}, nil
	if got := string(a.AppendTo(nil)); got != `{"event":"scored","job":"JOB0KHTOWnGLuC"}` {
		t.Errorf("without an id: %s", got)
	}
}

func TestDecodeForeignUseOfTheNames(t *testing.T) {
	for _, tc := range []struct {
		payload  string
		id, prev string
		extra    []evtlog.Field
		refused  bool
	}{
		{payload: `{"job":"J","x":"1","evt":"EVT0KHTOWnGLuC","event":"e"}`, id: "EVT0KHTOWnGLuC", extra: []evtlog.Field{evtlog.F("x", "1")}},
		{payload: `{"event":"e","job":"J","prev":"EVT0KHTOWnGLuB","evt":"EVT0KHTOWnGLuC"}`, id: "EVT0KHTOWnGLuC", prev: "EVT0KHTOWnGLuB"},
		{payload: `{"event":"e","job":"J","evt":"hello","prev":"7"}`, extra: []evtlog.Field{evtlog.F("evt", "hello"), evtlog.F("prev", "7")}},
		{payload: `{"event":"e","job":"J","evt":"","evt":"EVT0KHTOWnGLuC"}`, extra: []evtlog.Field{evtlog.F("evt", ""), evtlog.F("evt", "EVT0KHTOWnGLuC")}},
		{payload: `{"event":"e","job":"J","prev":"EVT0KHTOWnGLuB"}`, extra: []evtlog.Field{evtlog.F("prev", "EVT0KHTOWnGLuB")}},
		{payload: `{"event":"e","job":"J","evt":"EVT0KHTOWnGLuC","prev":"7"}`, refused: true},
		{payload: `{"event":"e","job":"J","evt":"EVT0KHTOWnGLuC","prev":"JOB0KHTOWnGLuC"}`, refused: true},
	} {
		got, err := feed.Decode([]byte(tc.payload))
		if (err != nil) != tc.refused {
			t.Errorf("%s: %v", tc.payload, err)
			continue
		}
		if got.ID.String() != tc.id || got.Prev.String() != tc.prev || !slices.Equal(got.Extra, tc.extra) {
			t.Errorf("%s: decoded to %+v", tc.payload, got)
		}
	}
	_, err := feed.Decode([]byte(`{"event":"e","job":"J","evt":"EVT0KHTOWnGLuC","prev":"JOB0KHTOWnGLuC"}`))
	if !errors.Is(err, evtid.ErrWrongKind) {
		t.Errorf("the refusal of prev does not wrap the reason: %v", err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, tc := range []struct {
		payload string
		offset  int
		reason  string
	}{
		{``, 0, "found the end"},
		{`null`, 0, `expected '{'`},
		{`[]`, 0, `expected '{' but found "["`},
		{`{}`, 2, "no member event"},
		{`{"event":"e"}`, 13, "no member job"},
		{`{"job":"J"}`, 11, "no member event"},
		{`{"event":"e","job":"J"} x`, 24, `expected the end after the object but found "x"`},
		{`{"event":"e","job":"J"}{}`, 23, "expected the end"},
		{`{"event":"e","job":"J",}`, 23, `expected '"' but found "}"`},
		{`{,"event":"e","job":"J"}`, 1, `expected '"'`},
		{`{"event":"e" "job":"J"}`, 13, `expected ','`},
		{`{"event" "e","job":"J"}`, 9, `expected ':'`},
		{`{"event":5,"job":"J"}`, 9, `expected '"' but found "5"`},
		{`{"event":null,"job":"J"}`, 9, `expected '"'`},
		{`{"event":{"name":"e"},"job":"J"}`, 9, `expected '"' but found "{"`},
		{`{"event":"e","job":"J`, 21, "not closed"},
		{`{"event":"e","job":"J\`, 21, "not closed"},
		{`{"event":"e","job":"\x"}`, 20, "no such escape"},
		{`{"event":"e","job":"\u12"}`, 20, "four hexadecimal digits"},
		{`{"event":"e","job":"\u12g4"}`, 20, "four hexadecimal digits"},
		{`{"event":"e","job":"\ud800"}`, 20, "surrogate"},
		{`{"event":"e","job":"\ud800\u0041"}`, 20, "surrogate"},
		{`{"event":"e","job":"\udc00\ud800"}`, 20, "surrogate"},
		{"{\"event\":\"e\",\"job\":\"a\nb\"}", 21, "must be escaped"},
		{"{\"event\":\"e\",\"job\":\"a\xffb\"}", 21, "is not UTF-8"},
		{"{\"event\":\v\"e\",\"job\":\"J\"}", 9, `found "\v"`},
	} {
		_, err := feed.Decode([]byte(tc.payload))
		var de *feed.DecodeError
		if !errors.As(err, &de) {
			t.Errorf("%s: %v, want a *DecodeError", tc.payload, err)
			continue
		}
		if de.Offset != tc.offset || !strings.Contains(err.Error(), tc.reason) {
			t.Errorf("%s: at %d: %v", tc.payload, de.Offset, err)
		}
	}
}

func TestDecodeEscapes(t *testing.T) {
	in := " {\t\"event\" :\r\n\"a\\u0062\\/\\ud83d\\uDE00\" , \"job\":\"J\",\"k\\n\":\"\\\"\\\\\\b\\f\\r\\t é\" } "
	a, err := feed.Decode([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	if a.Event != "ab/😀" || a.Job != "J" || !slices.Equal(a.Extra, []evtlog.Field{evtlog.F("k\n", "\"\\\b\f\r\t é")}) {
		t.Errorf("got %+v", a)
	}
}

func TestNames(t *testing.T) {
	declared := []string{"scored", `C:\tmp`, "line\nbreak", "событие", "bad\xff", `quo"te`, ""}
	names := feed.NewNames(declared...)
	for _, name := range declared {
		want := name
		if name == `quo"te` || name == "" {
			want = feed.Unknown
		}
		if got := names.Lookup(feed.AppendAnnouncement(nil, name, "J", nil)); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
	for _, payload := range []string{"", `{"event":"no_such_name"}`, `{"event":"scored `, `{"event":"Scored"}`, `{"event":"scored\u0000"}`} {
		if got := names.Lookup([]byte(payload)); got != feed.Unknown {
			t.Errorf("%s: got %q", payload, got)
		}
	}
	if got := (feed.Names{}).Lookup([]byte(`{"event":"scored"}`)); got != feed.Unknown {
		t.Errorf("the zero Names knows %q", got)
	}
}

func TestLookupKeepsNoWireBytes(t *testing.T) {
	declared := "scored"
	names := feed.NewNames(declared)
	payload := []byte(`{"event":"scored","job":"J"}`)
	got := names.Lookup(payload)
	if unsafe.StringData(got) != unsafe.StringData(declared) {
		t.Error("the answer is not the declared string")
	}
	clear(payload)
	if got != "scored" {
		t.Errorf("the answer changed with the payload: %q", got)
	}
}

func TestAllocations(t *testing.T) {
	names := feed.NewNames("scored")
	a := feed.Announcement{Event: "scored", Job: "JOB0KHTOWnGLuC", ID: evtid.Max, Prev: evtid.Max, Extra: []evtlog.Field{evtlog.F("pct", "8\n3")}}
	buf := make([]byte, 0, 256)
	payload := a.AppendTo(nil)
	for name, f := range map[string]func(){
		"AppendAnnouncement": func() { feed.AppendAnnouncement(buf, a.Event, a.Job, a.Extra) },
		"AppendTo":           func() { a.AppendTo(buf) },
		"Scan":               func() { feed.Scan(payload) },
		"Lookup":             func() { names.Lookup(payload) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

func BenchmarkAppendAnnouncement(b *testing.B) {
	a := feed.Announcement{Event: "scored", Job: "JOB0KHTOWnGLuC", ID: evtid.Max, Prev: evtid.Max, Extra: []evtlog.Field{evtlog.F("pct", "83"), evtlog.F("game", "GAM0KHTOWnGLuC")}}
	buf := make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		a.AppendTo(buf)
	}
}

func BenchmarkLookup(b *testing.B) {
	names := feed.NewNames("scored", "settled")
	payload := []byte(`{"event":"scored","job":"JOB0KHTOWnGLuC","evt":"EVT0KHTOWnGLuC","prev":"EVT0KHTOWnGLuB","pct":"83"}`)
	b.ReportAllocs()
	for b.Loop() {
		names.Lookup(payload)
	}
}

func BenchmarkDecode(b *testing.B) {
	payload := []byte(`{"event":"scored","job":"JOB0KHTOWnGLuC","evt":"EVT0KHTOWnGLuC","prev":"EVT0KHTOWnGLuB","pct":"83"}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := feed.Decode(payload); err != nil {
			b.Fatal(err)
		}
	}
}

// Other programs read announcements with an ordinary JSON library.
func TestEncodingJSONReadsAnnouncements(t *testing.T) {
	var got map[string]string
	if err := json.Unmarshal(feed.AppendAnnouncement(nil, "e\x01\"", "J", []evtlog.Field{evtlog.F("k\"", "v\\")}), &got); err != nil {
		t.Fatal(err)
	}
	if got["event"] != "e\x01\"" || got["job"] != "J" || got["k\""] != "v\\" {
		t.Errorf("encoding/json reads %q", got)
	}
}
