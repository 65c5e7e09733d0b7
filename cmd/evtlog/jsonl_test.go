package main

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/publisher"
	"github.com/evtlog/evtlog/evtid"
)

func TestParseFields(t *testing.T) {
	for _, c := range []struct {
		line, want, refused string
	}{
		{line: `{}`, want: ``},
		{line: `{"b":"1","a":"2","b":"3"}`, want: `b=1 a=2 b=3`},
		{line: ` {"n":1.50,"t":true,"f":false,"z":null,"big":12345678901234567890123} `, want: `n=1.50 t=true f=false z=null big=12345678901234567890123`},
		{line: `{"e":"\u00e9\n\u2028","":"x"}`, want: "e=é\n\u2028 =x"},
		{line: `{"pair":"\ud83d\ude00"}`, want: `pair=😀`},
		{line: `{"replacement":"\ufffd"}`, want: "replacement=\ufffd"},
		{line: `{"half":"\ud83d"}`, refused: `member "half" holds half of a surrogate pair`},
		{line: "{\"a\":\"\xff\"}", refused: "not valid UTF-8"},
		{line: `["a"]`, refused: "not a JSON object"},
		{line: `"a"`, refused: "not a JSON object"},
		{line: `{"a":{}}`, refused: `member "a" is an object or array`},
		{line: `{"a":[1]}`, refused: `member "a" is an object or array`},
		{line: `{"a":"1"} {}`, refused: "something follows"},
		{line: `{"a":"1"`, refused: "it ends in the middle"},
		{line: `{"a":`, refused: "it ends in the middle"},
		{line: `{"a":"1`, refused: "it ends in the middle"},
		{line: `{`, refused: "it ends in the middle"},
		{line: `{"a" "1"}`, refused: "not a JSON object"},
		{line: `nonsense`, refused: "not a JSON object"},
	} {
		fields, err := parseFields([]byte(c.line))
		switch {
		case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%s: error %v, want one with %q", c.line, err, c.refused)
		case c.refused == "" && err != nil:
			t.Errorf("%s: %v", c.line, err)
		case c.refused == "":
			var got []string
			for _, f := range fields {
				got = append(got, f.Name+"="+f.Value)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%s: got %q, want %q", c.line, strings.Join(got, " "), c.want)
			}
		}
	}
}

func TestRecordJSONIsReadBack(t *testing.T) {
	id, err := evtid.Parse("EVT0KHTOWnGLuC")
	if err != nil {
		t.Fatal(err)
	}
	text := "quote \" backslash \\ newline \n tab \t nul \x00 del \x7f é 😀 </script> \u2028"
	r := evtlog.Record{ID: id, Source: evtlog.Archived, Fields: []evtlog.Field{evtlog.F("b", text), evtlog.F("a", "1"), evtlog.F("b", "2")}}
	line, err := appendRecordJSON(nil, r)
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(line) {
		t.Fatalf("not JSON: %s", line)
	}
	prefix := `{"id":"EVT0KHTOWnGLuC","at":"2026-01-27T15:11:37.641Z","source":"archive","fields":{`
	if !strings.HasPrefix(string(line), prefix) {
		t.Errorf("got %s\nwant the prefix %s", line, prefix)
	}
	inner := strings.TrimSuffix(strings.TrimPrefix(string(line), strings.TrimSuffix(prefix, "{")), "}")
	back, err := parseFields([]byte(inner))
	if err != nil {
		t.Fatalf("%s: %v", inner, err)
	}
	if len(back) != 3 || back[0].Value != text || back[2] != evtlog.F("b", "2") {
		t.Errorf("read back %q", back)
	}
}

func TestRecordJSONBinary(t *testing.T) {
	r := evtlog.Record{ID: evtid.Max, Fields: []evtlog.Field{evtlog.F("a\xff", "\x00\xfe")}}
	line, err := appendRecordJSON(nil, r)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Fields [][2][]byte `json:"fields_base64"`
	}
	if err := json.Unmarshal(line, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Fields) != 1 || string(got.Fields[0][0]) != "a\xff" || string(got.Fields[0][1]) != "\x00\xfe" {
		t.Errorf("got %q from %s", got.Fields, line)
	}
}

func TestLineErrorSaysWhatWasKept(t *testing.T) {
	id, err := evtid.Make(evtid.EpochMillis+1, 5, 6)
	if err != nil {
		t.Fatal(err)
	}
	batch := []inputLine{{number: 4}, {number: 6}, {number: 7}, {number: 8}, {number: 9}}
	open := &evtlog.UncertainError{ID: id, Err: io.EOF}
	receipts := []publisher.Receipt{{ID: id}, {ID: id, Err: open}, {ID: id}, {ID: id}, {ID: id}}
	e := &lineError{line: 3, err: open, behind: kept(batch, receipts)}
	for _, want := range []string{"line 3: ", "; the lines before it were appended, and of those behind it 4, 7-9; ", "--from " + id.String() + " --to " + id.String()} {
		if !strings.Contains(e.Error(), want) {
			t.Errorf("%q does not say %q", e.Error(), want)
		}
	}
	if got, want := (&lineError{line: 3, err: io.EOF}).Error(), "line 3: EOF; the lines before it were appended"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
