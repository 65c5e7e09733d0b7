package feed_test

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/feed"
)

// b64 is a byte string that the vectors carry in base64.
type b64 []byte

func (b *b64) UnmarshalText(text []byte) (err error) {
	*b, err = base64.StdEncoding.DecodeString(string(text))
	return err
}

type encodeVector struct {
	Event   b64      `json:"event_b64"`
	Job     string   `json:"job"`
	Extra   [][2]b64 `json:"extra_b64"`
	Payload b64      `json:"payload_b64"`
	Valid   bool     `json:"valid_json"`
	Note    string   `json:"note"`
}

func (v encodeVector) fields() []evtlog.Field {
	var out []evtlog.Field
	for _, kv := range v.Extra {
		out = append(out, evtlog.F(string(kv[0]), string(kv[1])))
	}
	return out
}

type nameVector struct {
	Payload  b64    `json:"payload_b64"`
	Captured *b64   `json:"captured_b64"`
	Note     string `json:"note"`
}

// vectors were produced by the implementation that this format is shared with.
type vectors struct {
	Encode []encodeVector `json:"encode"`
	Names  []nameVector   `json:"event_name"`
}

func load(t testing.TB) (v vectors) {
	t.Helper()
	raw, err := os.ReadFile("testdata/events.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Encode) == 0 || len(v.Names) == 0 {
		t.Fatal("no vectors")
	}
	return v
}

// injected reports whether the reference let the name of an extra break out of
// its quotes: its payload is valid JSON, but says something else than was put
// in. Those bytes are not to be repeated.
func (v encodeVector) injected() bool { return strings.HasPrefix(v.Note, "KEY INJECTION") }

func TestEncodeVectors(t *testing.T) {
	equal, repaired, injected := 0, 0, 0
	for _, v := range load(t).Encode {
		got := feed.AppendAnnouncement(nil, string(v.Event), v.Job, v.fields())
		if !json.Valid(got) {
			t.Errorf("%s: not valid JSON: %q", v.Note, got)
		}
		switch {
		case v.injected():
			injected++
			checkMeaning(t, v, got)
		case v.Valid:
			equal++
			if string(got) != string(v.Payload) {
				t.Errorf("%s: got  %q\n want %q", v.Note, got, v.Payload)
			}
			checkMeaning(t, v, got)
		default:
			repaired++
			if string(got) == string(v.Payload) {
				t.Errorf("%s: repeated a payload that is not JSON: %q", v.Note, got)
			}
		}
	}
	if equal != 30 || repaired != 11 || injected != 1 {
		t.Errorf("vectors: %d equal, %d repaired, %d injected; the file has changed", equal, repaired, injected)
	}
}

// checkMeaning decodes got and compares it with what was put in.
func checkMeaning(t *testing.T, v encodeVector, got []byte) {
	t.Helper()
	a, err := feed.Decode(got)
	if err != nil {
		t.Errorf("%s: %v", v.Note, err)
		return
	}
	if a.Event != string(v.Event) || a.Job != v.Job || !slices.Equal(a.Extra, v.fields()) {
		t.Errorf("%s: decoded to %+v", v.Note, a)
	}
}

func TestNameVectors(t *testing.T) {
	for _, v := range load(t).Names {
		name, ok := feed.Scan(v.Payload)
		if ok != (v.Captured != nil) {
			t.Errorf("%s: found %v in %q", v.Note, ok, v.Payload)
			continue
		}
		if ok && string(name) != string(*v.Captured) {
			t.Errorf("%s: got %q, want %q", v.Note, name, *v.Captured)
		}
	}
}
