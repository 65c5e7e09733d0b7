package feed_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/feed"
)

// valid is what a reader gets back for s: bytes that are not UTF-8 are replaced
// one by one.
func valid(s string) string {
	var b strings.Builder
	for _, r := range s {
		b.WriteRune(r)
	}
	return b.String()
}

func FuzzEncode(f *testing.F) {
	for _, v := range load(f).Encode {
		name, value := "", ""
		if len(v.Extra) > 0 {
			name, value = string(v.Extra[0][0]), string(v.Extra[0][1])
		}
		f.Add(string(v.Event), v.Job, name, value, uint64(0), uint64(0))
	}
	f.Add("scored", "J", "evt", "EVT00000000000", uint64(9), uint64(8))
	f.Fuzz(func(t *testing.T, event, job, name, value string, n, p uint64) {
		a := feed.Announcement{Event: event, Job: job, Extra: []evtlog.Field{evtlog.F(name, value), evtlog.F("event", value)}}
		plain := feed.AppendAnnouncement(nil, event, job, a.Extra)
		if got := a.AppendTo(nil); !bytes.Equal(plain, got) {
			t.Errorf("two encoders, two payloads: %q %q", plain, got)
		}
		a.ID, _ = evtid.FromSnowflake(n & evtid.MaxSnowflake)
		a.Prev, _ = evtid.FromSnowflake(p & evtid.MaxSnowflake)
		payload := a.AppendTo(nil)
		if !json.Valid(plain) || !json.Valid(payload) {
			t.Fatalf("not valid JSON: %q", payload)
		}
		got, err := feed.Decode(payload)
		if err != nil {
			t.Fatal(err)
		}
		if got.Event != valid(event) || got.Job != valid(job) || got.ID != a.ID || got.Prev != a.Prev ||
			got.Extra[0] != evtlog.F(valid(name), valid(value)) || got.Extra[1] != evtlog.F("event", valid(value)) || len(got.Extra) != 2 {
			t.Errorf("%q came back as %+v", a, got)
		}
		if name := feed.NewNames(event).Lookup(payload); name != event && !strings.Contains(event, `"`) {
			t.Errorf("looked up %q, got %q", event, name)
		}
	})
}

// FuzzScan compares the scan with the pattern it stands for.
func FuzzScan(f *testing.F) {
	for _, v := range load(f).Names {
		f.Add([]byte(v.Payload))
	}
	for _, s := range []string{`"event"event":"x"`, `"event":"event":"x"`, `"event":"" "event":"y"`, `"event":""event":"x"`, "\"event\"\f\r:\v\t \n\"x\"", "\"event\"\x0e:\"x\"", "\"event\"\b:\"x\""} {
		f.Add([]byte(s))
	}
	pattern := regexp.MustCompile(`"event"[ \t\n\v\f\r]*:[ \t\n\v\f\r]*"([^"]+)"`)
	f.Fuzz(func(t *testing.T, payload []byte) {
		name, ok := feed.Scan(payload)
		want := pattern.FindSubmatch(payload)
		if ok != (want != nil) || ok && !bytes.Equal(name, want[1]) {
			t.Errorf("%q: scan found %q, the pattern %q", payload, name, want)
		}
	})
}

// FuzzDecode checks that whatever Decode accepts is JSON, means the same to
// encoding/json, and survives being written and read again.
func FuzzDecode(f *testing.F) {
	for _, v := range load(f).Encode {
		f.Add([]byte(v.Payload))
	}
	for _, v := range load(f).Names {
		f.Add([]byte(v.Payload))
	}
	f.Add([]byte(`{"event":"\ud83d\ude00","job":"J","evt":"EVT0KHTOWnGLuC","prev":""}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		a, err := feed.Decode(payload)
		if err != nil {
			var de *feed.DecodeError
			if !errors.As(err, &de) || de.Offset < 0 || de.Offset > len(payload) {
				t.Errorf("%q: %v", payload, err)
			}
			return
		}
		if !json.Valid(payload) {
			t.Fatalf("accepted what is not JSON: %q", payload)
		}
		if got, want := membersOf(a), jsonMembers(t, payload); !sameMembers(got, want) {
			t.Errorf("%q: got %v, encoding/json reads %v", payload, got, want)
		}
		again, err := feed.Decode(a.AppendTo(nil))
		if err != nil || !sameMembers(membersOf(a), membersOf(again)) || again.ID != a.ID || again.Prev != a.Prev {
			t.Errorf("%q: %+v written and read again is %+v, %v", payload, a, again, err)
		}
	})
}

// membersOf lists what a says, and counts each.
func membersOf(a feed.Announcement) map[evtlog.Field]int {
	m := map[evtlog.Field]int{}
	m[evtlog.F("event", a.Event)]++
	m[evtlog.F("job", a.Job)]++
	if !a.ID.IsZero() {
		m[evtlog.F(feed.IDName, a.ID.String())]++
		m[evtlog.F(feed.PrevName, a.Prev.String())]++
	}
	for _, x := range a.Extra {
		m[x]++
	}
	return m
}

// jsonMembers reads the same with encoding/json.
func jsonMembers(t *testing.T, payload []byte) map[evtlog.Field]int {
	m := map[evtlog.Field]int{}
	dec := json.NewDecoder(bytes.NewReader(payload))
	name, open := "", false
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return m
		}
		if err != nil {
			t.Fatalf("%q: %v", payload, err)
		}
		s, ok := token.(string)
		switch {
		case !ok:
		case open:
			m[evtlog.F(name, s)]++
			open = false
		default:
			name, open = s, true
		}
	}
}

// sameMembers compares the two; a prev that was left out counts as an empty one.
func sameMembers(a, b map[evtlog.Field]int) bool {
	empty := evtlog.F(feed.PrevName, "")
	for _, m := range []map[evtlog.Field]int{a, b} {
		delete(m, empty)
	}
	if len(a) != len(b) {
		return false
	}
	for k, n := range a {
		if b[k] != n {
			return false
		}
	}
	return true
}
