package evtid_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/evtlog/evtlog/evtid"
)

func must(t testing.TB, id evtid.ID, err error) evtid.ID {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func parse(t testing.TB, s string) evtid.ID {
	t.Helper()
	id, err := evtid.Parse(s)
	return must(t, id, err)
}

func TestZeroIsNoID(t *testing.T) {
	var zero evtid.ID
	first := parse(t, "EVT00000000000")
	if !zero.IsZero() || first.IsZero() || zero == first || !zero.Less(first) || zero.Compare(first) != -1 {
		t.Error("the zero ID is not below and apart from the first id")
	}
	if zero.String() != "" || zero.Entry() != "0-0" || zero.Snowflake() != 0 {
		t.Errorf("zero is written %q and %q", zero.String(), zero.Entry())
	}
	if got, err := evtid.ParseEntry("0-0"); got != zero || err != nil {
		t.Errorf("0-0 is %v, %v", got, err)
	}
	if zero.Next() != first || first.Prev() != zero || zero.Prev() != zero {
		t.Error("zero and the first id are not neighbours")
	}
	if evtid.Max.Next() != evtid.Max || !evtid.Max.Prev().Less(evtid.Max) {
		t.Error("Max is not the end")
	}
}

func TestMakeAndFromSnowflakeRefuse(t *testing.T) {
	for _, in := range []struct {
		ms        int64
		node, seq int
	}{
		{evtid.EpochMillis - 1, 0, 0}, {evtid.MaxMillis + 1, 0, 0}, {math.MinInt64, 0, 0}, {math.MaxInt64, 0, 0},
		{evtid.EpochMillis, -1, 0}, {evtid.EpochMillis, evtid.MaxNode + 1, 0},
		{evtid.EpochMillis, 0, -1}, {evtid.EpochMillis, 0, evtid.MaxSeq + 1},
	} {
		if id, err := evtid.Make(in.ms, in.node, in.seq); !errors.Is(err, evtid.ErrOverflow) || !id.IsZero() {
			t.Errorf("%v: %s, %v", in, id, err)
		}
	}
	for _, v := range []uint64{evtid.MaxSnowflake + 1, math.MaxUint64} {
		if id, err := evtid.FromSnowflake(v); !errors.Is(err, evtid.ErrOverflow) || !id.IsZero() {
			t.Errorf("%d: %s, %v", v, id, err)
		}
	}
}

func TestParseEntryRefuses(t *testing.T) {
	for in, want := range map[string]error{
		"": evtid.ErrMalformed, "-": evtid.ErrMalformed, "1-": evtid.ErrMalformed, "-1": evtid.ErrMalformed, "1": evtid.ErrMalformed,
		"1704067200000":         evtid.ErrMalformed,
		"1704067200000-0-0":     evtid.ErrMalformed,
		"1704067200000 -0":      evtid.ErrMalformed,
		"+1704067200000-0":      evtid.ErrMalformed,
		"01704067200000-0":      evtid.ErrMalformed,
		"1704067200000-00":      evtid.ErrMalformed,
		"1704067200000-0x1":     evtid.ErrMalformed,
		"1704067200000-0\n":     evtid.ErrMalformed,
		"1704067200000-٣":       evtid.ErrMalformed,
		"(1704067200000-0":      evtid.ErrMalformed,
		"1704067200000-*":       evtid.ErrMalformed,
		"*":                     evtid.ErrMalformed,
		"0-1":                   evtid.ErrOverflow,
		"1-0":                   evtid.ErrOverflow,
		"1704067199999-0":       evtid.ErrOverflow,
		"1704067200000-4194304": evtid.ErrOverflow,
		"3903090455552-0":       evtid.ErrOverflow,
		"18446744073709551615-18446744073709551615": evtid.ErrOverflow,
		"18446744073709551616-0":                    evtid.ErrMalformed,
		"99999999999999999999-0":                    evtid.ErrMalformed,
		"1704067200000-184467440737095516150":       evtid.ErrMalformed,
	} {
		id, err := evtid.ParseEntry(in)
		var pe *evtid.ParseError
		if !errors.Is(err, want) || !errors.As(err, &pe) || !id.IsZero() {
			t.Errorf("%q: %s, %v, want %v", in, id, err, want)
		}
	}
}

func TestJSON(t *testing.T) {
	id := parse(t, "EVT0KHTOWnGLuC")
	type doc struct {
		ID  evtid.ID            `json:"id"`
		Any map[evtid.ID]string `json:"any"`
	}
	out, err := json.Marshal(doc{ID: id, Any: map[evtid.ID]string{id: "x"}})
	if err != nil || string(out) != `{"id":"EVT0KHTOWnGLuC","any":{"EVT0KHTOWnGLuC":"x"}}` {
		t.Fatalf("%s, %v", out, err)
	}
	var back doc
	if err := json.Unmarshal(out, &back); err != nil || back.ID != id || back.Any[id] != "x" {
		t.Errorf("%+v, %v", back, err)
	}
	if out, err := json.Marshal(evtid.ID{}); err != nil || string(out) != `""` {
		t.Errorf("zero: %s, %v", out, err)
	}
	for in, want := range map[string]evtid.ID{`""`: {}, `null`: id, `0`: parse(t, "EVT00000000000"), `9223372036854775807`: evtid.Max} {
		got := id
		if err := json.Unmarshal([]byte(in), &got); err != nil || got != want {
			t.Errorf("%s: %s, %v", in, got, err)
		}
	}
	for in, want := range map[string]error{`1e3`: evtid.ErrMalformed, `-1`: evtid.ErrMalformed, `1.5`: evtid.ErrMalformed, `true`: evtid.ErrMalformed, `{}`: evtid.ErrMalformed,
		`9223372036854775808`: evtid.ErrOverflow, `"nope"`: evtid.ErrMalformed, `"JOB0KHTOWnGLuC"`: evtid.ErrWrongKind} {
		got := id
		if err := json.Unmarshal([]byte(in), &got); !errors.Is(err, want) || got != id {
			t.Errorf("%s: %s, %v, want %v and nothing changed", in, got, err, want)
		}
	}
}

func TestText(t *testing.T) {
	id := parse(t, "EVT0KHTOWnGLuC")
	if b, err := id.AppendText([]byte("x")); string(b) != "xEVT0KHTOWnGLuC" || err != nil {
		t.Errorf("%s, %v", b, err)
	}
	if b, err := id.MarshalText(); string(b) != "EVT0KHTOWnGLuC" || err != nil {
		t.Errorf("%s, %v", b, err)
	}
	if b := id.AppendEntry([]byte("(")); string(b) != "("+id.Entry() {
		t.Errorf("%s", b)
	}
}

func TestBeforeUnixEpoch(t *testing.T) {
	for _, at := range []time.Time{{}, time.Unix(-1, 999_999_999), time.Date(1969, 12, 31, 23, 59, 59, 0, time.UTC)} {
		for _, f := range []func(time.Time) (evtid.Bound, error){evtid.Floor, evtid.Ceil} {
			if b, err := f(at); !errors.Is(err, evtid.ErrBeforeUnixEpoch) || !strings.Contains(err.Error(), at.Format("2006")) {
				t.Errorf("%s: %v, %v", at, b, err)
			}
		}
	}
}

func TestBoundFarFuture(t *testing.T) {
	at := time.Unix(math.MaxInt64/1000+1, 0)
	b, err := evtid.Floor(at)
	if err != nil || b.String() != "9223372036854775807-0" || b.Last() != evtid.Max || b.Before() != evtid.Max {
		t.Errorf("%s, %v", b, err)
	}
}

func TestErrorTexts(t *testing.T) {
	_, err := evtid.Parse(strings.Repeat("x", 1<<20))
	if len(err.Error()) > 200 || !strings.Contains(err.Error(), "1048576 bytes") {
		t.Errorf("a long input makes a long message: %d bytes", len(err.Error()))
	}
	for want, err := range map[string]error{
		`evtid: malformed id "nope": it must be 14 bytes`:                                                                               func() error { _, err := evtid.Parse("nope"); return err }(),
		"evtid: node 1024 is outside 0..1023: give each writer its own number":                                                          &evtid.NodeError{Node: 1024},
		"evtid: id EVT0KHTOWnGLuC of node 0 is 2m0s ahead of this clock (limit 1m0s): correct the slow or fast clock, or raise MaxSkew": &evtid.SkewError{ID: parse(t, "EVT0KHTOWnGLuC"), Skew: 2 * time.Minute, Max: time.Minute},
		"evtid: MaxSkew -1s is negative: give the time that ids may be ahead of the clock, or 0 for 1m0s":                               &evtid.SkewLimitError{MaxSkew: -time.Second},
	} {
		if err.Error() != want {
			t.Errorf("got  %s\nwant %s", err, want)
		}
	}
}
