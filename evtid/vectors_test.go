package evtid_test

import (
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/evtlog/evtlog/evtid"
)

// The vectors were produced by the implementation that the format is shared
// with, not by this package.

type validVector struct {
	Namespace string `json:"namespace"`
	Snowflake string `json:"snowflake"`
	Branded   string `json:"branded"`
	UnixMS    int64  `json:"unix_ms"`
	Node      int    `json:"node"`
	Seq       int    `json:"seq"`
	Entry     string `json:"xadd_id"`
	Note      string `json:"note"`
}

type invalidVector struct {
	Input []byte `json:"input_b64"`
	Class string `json:"class"`
	Note  string `json:"note"`
}

type idVectors struct {
	EpochMS    int64           `json:"epoch_ms"`
	MaxPayload string          `json:"max_payload"`
	Valid      []validVector   `json:"valid"`
	Invalid    []invalidVector `json:"invalid"`
}

type boundVector struct {
	Instant string `json:"instant"`
	Floor   string `json:"minid_floor"`
	Ceil    string `json:"maxid_ceil"`
}

func load(t testing.TB, file string, into any) {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatal(err)
	}
}

func loadIDs(t testing.TB) (v idVectors) {
	t.Helper()
	load(t, "ids.json", &v)
	if len(v.Valid) == 0 || len(v.Invalid) == 0 {
		t.Fatal("no vectors")
	}
	return v
}

func loadBounds(t testing.TB) []boundVector {
	t.Helper()
	var v struct{ Vectors []boundVector }
	load(t, "bounds.json", &v)
	if len(v.Vectors) == 0 {
		t.Fatal("no vectors")
	}
	return v.Vectors
}

func TestLayout(t *testing.T) {
	v := loadIDs(t)
	if v.EpochMS != evtid.EpochMillis || evtid.Brand+v.MaxPayload != evtid.Max.String() {
		t.Errorf("epoch %d, largest id %s; the format has %d and %s", evtid.EpochMillis, evtid.Max, v.EpochMS, v.MaxPayload)
	}
	if evtid.Max.UnixMilli() != evtid.MaxMillis || evtid.Max.Node() != evtid.MaxNode || evtid.Max.Seq() != evtid.MaxSeq {
		t.Errorf("the limits disagree with Max: %d %d %d", evtid.Max.UnixMilli(), evtid.Max.Node(), evtid.Max.Seq())
	}
}

func TestValidVectors(t *testing.T) {
	for _, v := range loadIDs(t).Valid {
		id, err := evtid.ParseBrand(v.Branded, v.Namespace)
		if err != nil {
			t.Errorf("%s: %v", v.Note, err)
			continue
		}
		if strconv.FormatUint(id.Snowflake(), 10) != v.Snowflake || id.UnixMilli() != v.UnixMS || id.Node() != v.Node || id.Seq() != v.Seq {
			t.Errorf("%s: %s has payload %d, millisecond %d, node %d, sequence %d", v.Note, v.Branded, id.Snowflake(), id.UnixMilli(), id.Node(), id.Seq())
		}
		if got := id.Time(); !got.Equal(time.UnixMilli(v.UnixMS)) || got.Location() != time.UTC {
			t.Errorf("%s: time %s", v.Note, got)
		}
		if err := evtid.ValidBranded(v.Branded); err != nil {
			t.Errorf("%s: %v", v.Note, err)
		}
		if v.Namespace != evtid.Brand {
			if _, err := evtid.Parse(v.Branded); !errors.Is(err, evtid.ErrWrongKind) {
				t.Errorf("%s: read as an event id: %v", v.Branded, err)
			}
			continue
		}
		checkForms(t, v, id)
	}
}

// checkForms checks every way from and to an event id.
func checkForms(t *testing.T, v validVector, id evtid.ID) {
	t.Helper()
	if id.String() != v.Branded || id.Entry() != v.Entry {
		t.Errorf("%s: written as %s and %s, want %s and %s", v.Note, id, id.Entry(), v.Branded, v.Entry)
	}
	payload, _ := strconv.ParseUint(v.Snowflake, 10, 64)
	for name, read := range map[string]func() (evtid.ID, error){
		"Parse of bytes": func() (evtid.ID, error) { return evtid.Parse([]byte(v.Branded)) },
		"ParseEntry":     func() (evtid.ID, error) { return evtid.ParseEntry(v.Entry) },
		"FromSnowflake":  func() (evtid.ID, error) { return evtid.FromSnowflake(payload) },
		"Make":           func() (evtid.ID, error) { return evtid.Make(v.UnixMS, v.Node, v.Seq) },
		"JSON string":    func() (got evtid.ID, err error) { err = json.Unmarshal([]byte(`"`+v.Branded+`"`), &got); return },
		"JSON number":    func() (got evtid.ID, err error) { err = json.Unmarshal([]byte(v.Snowflake), &got); return },
	} {
		if got, err := read(); got != id || err != nil {
			t.Errorf("%s: %s: %s, %v", v.Note, name, got, err)
		}
	}
}

func TestInvalidVectors(t *testing.T) {
	classes := map[string]error{"malformed": evtid.ErrMalformed, "overflow": evtid.ErrOverflow, "wrong kind": evtid.ErrWrongKind}
	for _, v := range loadIDs(t).Invalid {
		want := classes[v.Class]
		if want == nil {
			t.Fatalf("unknown class %q", v.Class)
		}
		for _, err := range []error{
			func() error { _, err := evtid.Parse(v.Input); return err }(),
			func() error { _, err := evtid.Parse(string(v.Input)); return err }(),
		} {
			var pe *evtid.ParseError
			if !errors.Is(err, want) || !errors.As(err, &pe) || pe.Input != string(v.Input) {
				t.Errorf("%s: %q: %v, want %v", v.Note, v.Input, err, want)
			}
		}
		err := evtid.ValidBranded(v.Input)
		if errors.Is(want, evtid.ErrWrongKind) {
			want = nil
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: of any namespace: %v, want %v", v.Note, err, want)
		}
	}
}

func TestBoundVectors(t *testing.T) {
	for _, v := range loadBounds(t) {
		at, err := time.Parse(time.RFC3339Nano, v.Instant)
		if err != nil {
			t.Fatal(err)
		}
		floor, err := evtid.Floor(at)
		if err != nil || floor.String() != v.Floor {
			t.Errorf("floor of %s: %s, %v, want %s", v.Instant, floor, err, v.Floor)
		}
		ceil, err := evtid.Ceil(at)
		if err != nil || ceil.String() != v.Ceil {
			t.Errorf("ceil of %s: %s, %v, want %s", v.Instant, ceil, err, v.Ceil)
		}
	}
}
