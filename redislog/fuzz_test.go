package redislog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/iotest"
)

// seeds are answers of the shapes that occur, whole and broken.
func seeds(f *testing.F) {
	for _, c := range replies {
		f.Add([]byte(c.wire))
	}
	whole := wireEntry(at(0).Entry(), "id", at(0).String(), "k", "v")
	for n := range len(whole) {
		f.Add([]byte(whole[:n]))
	}
	for _, s := range []string{
		whole + whole, wireEntry("5-0", "k", "v"), wireEntry(at(0).Entry(), "k"), "*2\r\n$3\r\n1-1\r\n*-1\r\n",
		"*1000000000\r\n", "$536870912\r\n", "*2\r\n*1000000\r\n", "$3\r\nabcXY", ":\r\n", "*-2\r\n", "\r\n", "%1\r\n+a\r\n+b\r\n",
	} {
		f.Add([]byte(s))
	}
}

// FuzzReply: measuring, decoding and the arrival in pieces agree about every
// input, and nothing panics or allocates beyond the input.
func FuzzReply(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, in []byte) {
		m := newMeasure()
		done, err := m.advance(in)
		piecewise := newMeasure()
		var doneLate bool
		var errLate error
		for n := 0; n <= len(in) && !doneLate && errLate == nil; n++ {
			doneLate, errLate = piecewise.advance(in[:n])
		}
		if done != doneLate || err == nil != (errLate == nil) || done && m.pos != piecewise.pos {
			t.Fatalf("at once %v %v %d, in pieces %v %v %d", done, err, m.pos, doneLate, errLate, piecewise.pos)
		}
		v, size, valueErr := parseValue(in, 0)
		if valueErr == nil && (!done || size != m.pos) {
			t.Fatalf("decoded %#v of %d bytes, measured %v %d", v, size, done, m.pos)
		}
		if done && errors.Is(valueErr, errShort) {
			t.Fatalf("measured %d bytes, decoding wants more", m.pos)
		}
	})
}

// FuzzEntry: an entry decodes the same from one piece and from single bytes, and
// a decoded one consists of parts of the input.
func FuzzEntry(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, in []byte) {
		whole := newReader(bytes.NewReader(in))
		a, okA, errA := whole.entry()
		pieces := newReader(iotest.OneByteReader(bytes.NewReader(in)))
		b, okB, errB := pieces.entry()
		if okA != okB || fmt.Sprintf("%#v %v", a, errA == nil) != fmt.Sprintf("%#v %v", b, errB == nil) {
			t.Fatalf("whole %#v %v %v, in pieces %#v %v %v", a, okA, errA, b, okB, errB)
		}
		var protocol protocolError
		if errA != nil && !errors.As(errA, &protocol) && !errors.Is(errA, io.EOF) && !errors.Is(errA, io.ErrUnexpectedEOF) {
			t.Fatalf("an error of another kind: %v", errA)
		}
		if !okA {
			return
		}
		if a.ID.IsZero() == (a.Raw == "") {
			t.Fatalf("neither or both of id and raw: %#v", a)
		}
		for _, field := range a.Fields {
			if !bytes.Contains(in, []byte(field.Name)) || !bytes.Contains(in, []byte(field.Value)) {
				t.Fatalf("a field that is not in the input: %q", field)
			}
		}
	})
}

// FuzzSkipped: the stored form of a range reads back as it was written.
func FuzzSkipped(f *testing.F) {
	for _, s := range []string{"0-0 1746090000000-0", "1746090000000-0 1746090000000-1", "1-1 2-2", "a b", "", " "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parseSkipped(text)
		if err != nil {
			return
		}
		if r.Empty() || r.String() != text {
			t.Fatalf("%q reads as %q", text, r)
		}
	})
}
