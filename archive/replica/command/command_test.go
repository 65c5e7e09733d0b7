package command

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/evtlog/evtlog"
)

func TestEveryFlippedBitIsNoticed(t *testing.T) {
	c := Command{Op: OpFold, Incarnation: [16]byte{1, 2, 3}, Stream: evtlog.StreamName{Queue: "cm", Name: "feed"}, Body: []byte("the body of a commit")}
	good := c.Append(nil)
	got, err := Decode(good)
	if err != nil || got.Op != c.Op || got.Stream != c.Stream || got.Incarnation != c.Incarnation || !bytes.Equal(got.Body, c.Body) {
		t.Fatalf("%+v, %v", got, err)
	}
	header := len(good) - len(c.Body) - crcSize
	for i := range good {
		for bit := range 8 {
			b := bytes.Clone(good)
			b[i] ^= 1 << bit
			_, err := Decode(b)
			var bad *BadError
			if !errors.As(err, &bad) || !bad.Damaged {
				t.Fatalf("bit %d of byte %d flipped: %v", bit, i, err)
			}
			if named := bad.Stream == c.Stream; named != (i >= header) {
				t.Errorf("byte %d flipped: volume named %t", i, named)
			}
		}
	}
	for n := range good {
		if _, err := Decode(good[:n]); !errors.Is(err, ErrBad) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
}

func TestUnknownCommandsAreNotDamage(t *testing.T) {
	c := Command{Op: 99, Stream: evtlog.StreamName{Queue: "cm", Name: "feed"}}
	var bad *BadError
	if _, err := Decode(c.Append(nil)); !errors.As(err, &bad) || bad.Damaged || bad.Stream != c.Stream {
		t.Errorf("an unknown operation: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(Command{Op: OpFold, Stream: evtlog.StreamName{Queue: "q", Name: "s"}, Body: []byte("b")}.Append(nil))
	f.Add([]byte{magic, version, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := Decode(b)
		if err == nil && !bytes.Equal(c.Append(nil), b) {
			t.Errorf("%x decodes to something else", b)
		}
	})
}

func TestDigests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var in []Digest
		for range rapid.IntRange(0, 5).Draw(t, "n") {
			d := Digest{Stream: evtlog.StreamName{Queue: rapid.StringN(1, 20, 60).Draw(t, "q"), Name: "s"}, LSN: rapid.Uint64().Draw(t, "lsn")}
			d.Chain[3] = 7
			in = append(in, d)
		}
		b := EncodeDigests(in)
		out, err := DecodeDigests(b)
		if err != nil || len(out) != len(in) {
			t.Fatalf("%v, %v", out, err)
		}
		for i := range in {
			if in[i] != out[i] {
				t.Errorf("%+v became %+v", in[i], out[i])
			}
		}
		if len(b) > 1 {
			if _, err := DecodeDigests(b[:rand.IntN(len(b)-1)+1]); len(in) > 0 && !errors.Is(err, ErrBad) {
				t.Errorf("a part of the list decodes: %v", err)
			}
		}
	})
}

func TestDecideAndSize(t *testing.T) {
	for _, c := range []struct {
		same, parked bool
		want         Verdict
	}{{true, false, Apply}, {true, true, Parked}, {false, false, Foreign}, {false, true, Foreign}} {
		if got := Decide(c.same, c.parked); got != c.want {
			t.Errorf("Decide(%t, %t) = %d", c.same, c.parked, got)
		}
	}
	for _, c := range []struct {
		bytes, records int
		ok             bool
	}{{MaxBytes, 2, true}, {MaxBytes + 1, 2, false}, {MaxBytes + 1, 1, true}, {MaxLoneBytes + 1, 1, false}} {
		if _, ok := Size(c.bytes, c.records); ok != c.ok {
			t.Errorf("Size(%d, %d) = %t", c.bytes, c.records, ok)
		}
	}
}
