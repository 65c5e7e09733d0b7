package evtid_test

import (
	"cmp"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/evtlog/evtlog/evtid"
)

// payloads draws 63-bit numbers that often agree in their upper parts, so that
// every field of the layout decides some comparison.
func payloads() *rapid.Generator[uint64] {
	return rapid.Custom(func(t *rapid.T) uint64 {
		near := rapid.SampledFrom([]uint64{0, 1, 1 << 12, 1 << 22, 1 << 40, evtid.MaxSnowflake, 274 << 53}).Draw(t, "near")
		if rapid.Bool().Draw(t, "spread") {
			near = rapid.Uint64Range(0, evtid.MaxSnowflake).Draw(t, "any")
		}
		off := rapid.Uint64Range(0, 1<<23).Draw(t, "off")
		if rapid.Bool().Draw(t, "below") {
			return near - min(near, off)
		}
		return min(near+off, evtid.MaxSnowflake)
	})
}

func ids() *rapid.Generator[evtid.ID] {
	return rapid.Map(payloads(), func(v uint64) evtid.ID {
		id, err := evtid.FromSnowflake(v)
		if err != nil {
			panic(err)
		}
		return id
	})
}

// compareEntries orders entry ids as Redis does: two numbers.
func compareEntries(a, b string) int {
	split := func(s string) (ms, seq uint64) {
		left, right, _ := strings.Cut(s, "-")
		ms, _ = strconv.ParseUint(left, 10, 64)
		seq, _ = strconv.ParseUint(right, 10, 64)
		return ms, seq
	}
	ams, aseq := split(a)
	bms, bseq := split(b)
	return cmp.Or(cmp.Compare(ams, bms), cmp.Compare(aseq, bseq))
}

// The order theorem: the number, the bytes of the branded form and the entry id
// say the same about any two ids.
func TestOneOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := ids().Draw(t, "a"), ids().Draw(t, "b")
		want := cmp.Compare(a.Snowflake(), b.Snowflake())
		if a.Compare(b) != want || a.Less(b) != (want < 0) || (a == b) != (want == 0) {
			t.Errorf("%s and %s: the ids compare as %d, the numbers as %d", a, b, a.Compare(b), want)
		}
		if got := strings.Compare(a.String(), b.String()); got != want {
			t.Errorf("%s and %s: the branded forms compare as %d, the numbers as %d", a, b, got, want)
		}
		if got := compareEntries(a.Entry(), b.Entry()); got != want {
			t.Errorf("%s and %s: the entry ids compare as %d, the numbers as %d", a.Entry(), b.Entry(), got, want)
		}
		if got := cmp.Compare(a.UnixMilli(), b.UnixMilli()); got != want && got != 0 {
			t.Errorf("%s and %s: the instants compare as %d, the numbers as %d", a, b, got, want)
		}
	})
}

func TestRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := ids().Draw(t, "id")
		if got, err := evtid.Parse(id.String()); got != id || err != nil || len(id.String()) != evtid.Len {
			t.Errorf("branded: %s, %v", got, err)
		}
		if got, err := evtid.ParseEntry(id.Entry()); got != id || err != nil {
			t.Errorf("entry: %s, %v", got, err)
		}
		if got, err := evtid.Make(id.UnixMilli(), id.Node(), id.Seq()); got != id || err != nil {
			t.Errorf("parts: %s, %v", got, err)
		}
		var got evtid.ID
		if text, _ := id.MarshalText(); got.UnmarshalText(text) != nil || got != id {
			t.Errorf("text: %s", got)
		}
	})
}

func TestNeighbours(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := ids().Draw(t, "id")
		if next := id.Next(); id == evtid.Max {
			if next != evtid.Max {
				t.Errorf("next of Max is %s", next)
			}
		} else if next.Snowflake() != id.Snowflake()+1 || next.Prev() != id {
			t.Errorf("next of %s is %s", id, next)
		}
		if prev := id.Prev(); id.Snowflake() == 0 {
			if !prev.IsZero() {
				t.Errorf("prev of the first id is %s", prev)
			}
		} else if prev.Snowflake() != id.Snowflake()-1 || prev.Next() != id {
			t.Errorf("prev of %s is %s", id, prev)
		}
	})
}

// bounds draws positions inside and outside the range of ids.
func bounds() *rapid.Generator[evtid.Bound] {
	return rapid.Custom(func(t *rapid.T) evtid.Bound {
		near := rapid.SampledFrom([]int64{2, evtid.EpochMillis, evtid.MaxMillis, 1 << 60}).Draw(t, "near")
		return evtid.Bound{
			Millis: near + rapid.Int64Range(-2, 2).Draw(t, "off"),
			Tail:   rapid.SampledFrom([]uint32{0, 1, 4096, evtid.MaxTail - 1, evtid.MaxTail, evtid.MaxTail + 1, 1<<32 - 1}).Draw(t, "tail"),
		}
	})
}

// Last and Before by their definition: no id above the answer is at (or below)
// the bound, in Redis' order of positions.
func TestBoundLastAndBefore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := bounds().Draw(t, "bound")
		check := func(what string, got evtid.ID, holds func(order int) bool) {
			if !got.IsZero() && !holds(compareEntries(got.Entry(), b.String())) {
				t.Errorf("%s of %s is %s, which is not there", what, b, got.Entry())
			}
			if next := got.Next(); got != evtid.Max && holds(compareEntries(next.Entry(), b.String())) {
				t.Errorf("%s of %s is %s, but %s is there too", what, b, got.Entry(), next.Entry())
			}
		}
		check("Last", b.Last(), func(order int) bool { return order <= 0 })
		check("Before", b.Before(), func(order int) bool { return order < 0 })
	})
}

// A window from floor to ceil holds exactly the ids of its milliseconds.
func TestFloorAndCeilOfAnInstant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := ids().Draw(t, "id")
		at := id.Time().Add(time.Duration(rapid.Int64Range(-2e6, 2e6).Draw(t, "ns")))
		floor, err := evtid.Floor(at)
		if err != nil {
			t.Fatal(err)
		}
		ceil, err := evtid.Ceil(at)
		if err != nil {
			t.Fatal(err)
		}
		inside := floor.Before().Less(id) && !ceil.Last().Less(id)
		if want := id.Time().Equal(at.Truncate(time.Millisecond)); inside != want {
			t.Errorf("%s is inside the millisecond of %s: %v, want %v", id, at, inside, want)
		}
	})
}
