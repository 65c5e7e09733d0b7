package command

import (
	"encoding/binary"

	"github.com/evtlog/evtlog"
)

// Digest states the chain of one volume at one LSN.
type Digest struct {
	Stream evtlog.StreamName
	LSN    uint64
	Chain  [32]byte
}

// MaxDigests is how many digests one command carries at most.
const MaxDigests = 1024

// EncodeDigests returns the body of an OpDigest.
func EncodeDigests(ds []Digest) []byte {
	b := binary.AppendUvarint(nil, uint64(len(ds)))
	for _, d := range ds {
		b = appendName(b, d.Stream.Queue)
		b = appendName(b, d.Stream.Name)
		b = binary.AppendUvarint(b, d.LSN)
		b = append(b, d.Chain[:]...)
	}
	return b
}

// DecodeDigests reads the body of an OpDigest. The error is a *BadError.
func DecodeDigests(b []byte) ([]Digest, error) {
	bad := &BadError{Reason: "the list of digests does not parse"}
	n, used := binary.Uvarint(b)
	if used <= 0 || n > MaxDigests {
		return nil, bad
	}
	b = b[used:]
	out := make([]Digest, 0, n)
	for range n {
		var d Digest
		var ok bool
		if d.Stream.Queue, b, ok = cutName(b); !ok {
			return nil, bad
		}
		if d.Stream.Name, b, ok = cutName(b); !ok {
			return nil, bad
		}
		lsn, used := binary.Uvarint(b)
		if used <= 0 || len(b) < used+len(d.Chain) {
			return nil, bad
		}
		d.LSN = lsn
		copy(d.Chain[:], b[used:])
		b = b[used+len(d.Chain):]
		out = append(out, d)
	}
	if len(b) != 0 {
		return nil, bad
	}
	return out, nil
}
