package evtid_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/evtlog/evtlog/evtid"
)

// refused reports whether err is of the one shape that parsers answer with.
func refused(err error, input []byte) bool {
	var pe *evtid.ParseError
	return errors.As(err, &pe) && pe.Input == string(input) &&
		(errors.Is(err, evtid.ErrMalformed) || errors.Is(err, evtid.ErrOverflow) || errors.Is(err, evtid.ErrWrongKind))
}

// An id has one written form: what parses is written back byte by byte.
func FuzzParse(f *testing.F) {
	v := loadIDs(f)
	for _, valid := range v.Valid {
		f.Add([]byte(valid.Branded))
	}
	for _, invalid := range v.Invalid {
		f.Add(invalid.Input)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		id, err := evtid.Parse(in)
		if fromString, errString := evtid.Parse(string(in)); fromString != id || (errString == nil) != (err == nil) {
			t.Errorf("%q: bytes and string differ: %s %s", in, id, fromString)
		}
		if err != nil {
			if !id.IsZero() || !refused(err, in) {
				t.Errorf("%q: %s, %v", in, id, err)
			}
			return
		}
		if got := id.AppendTo(nil); !bytes.Equal(got, in) {
			t.Errorf("%q is written back as %q", in, got)
		}
	})
}

func FuzzParseEntry(f *testing.F) {
	v := loadIDs(f)
	for _, valid := range v.Valid {
		f.Add([]byte(valid.Entry))
	}
	for _, bound := range loadBounds(f) {
		f.Add([]byte(bound.Floor))
		f.Add([]byte(bound.Ceil))
	}
	f.Add([]byte("0-0"))
	f.Add([]byte("18446744073709551615-18446744073709551615"))
	f.Fuzz(func(t *testing.T, in []byte) {
		id, err := evtid.ParseEntry(in)
		if err != nil {
			if !id.IsZero() || !refused(err, in) {
				t.Errorf("%q: %s, %v", in, id, err)
			}
			return
		}
		if got := id.AppendEntry(nil); !bytes.Equal(got, in) {
			t.Errorf("%q is written back as %q", in, got)
		}
		if branded, err := evtid.Parse(id.String()); !id.IsZero() && (branded != id || err != nil) {
			t.Errorf("%q has no branded form: %s, %v", in, branded, err)
		}
	})
}
