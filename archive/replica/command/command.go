// Package command is what one entry of the replicated log says, and the pure
// decisions of the state machine that applies it.
package command

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/evtlog/evtlog"
)

// Op says what a command does.
type Op uint8

// The operations. Their numbers are part of the format.
const (
	// OpFold appends one commit to a volume.
	OpFold Op = 1
	// OpDigest states the chain of volumes at given LSNs, as the leader has them,
	// so that every node can compare.
	OpDigest Op = 2
)

// MaxBytes is the largest encoded command of several records. A bigger one holds
// up heartbeats behind it.
const MaxBytes = 512 << 10

// MaxLoneBytes is the largest encoded command of a single record, which cannot
// be cut: the largest record that a stream accepts, and its framing.
const MaxLoneBytes = evtlog.DefaultMaxRecordBytes + 64<<10

// Command is one entry of the replicated log.
type Command struct {
	Op Op
	// Incarnation is the cluster's: 16 random bytes drawn at bootstrap.
	Incarnation [16]byte
	// Stream names the volume; zero for OpDigest.
	Stream evtlog.StreamName
	// Body is what Op needs.
	Body []byte
}

// Layout; docs/formats/replication.md describes it.
const (
	magic   = 0xEB
	version = 1
	// fixed is the size of magic, version, op, and incarnation.
	fixed   = 3 + 16
	crcSize = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrBad is wrapped by every *BadError.
var ErrBad = errors.New("bad command")

// BadError is an entry that cannot be applied: damaged, or from a newer version.
type BadError struct {
	// Stream is the volume it was meant for, zero when that cannot be trusted.
	Stream evtlog.StreamName
	// Damaged is true when the bytes are not what was written, false when they
	// are whole but mean nothing to this version.
	Damaged bool
	Reason  string
}

// Error implements error.
func (e *BadError) Error() string {
	if e.Stream == (evtlog.StreamName{}) {
		return "replica: command refused: " + e.Reason
	}
	return fmt.Sprintf("replica: command for %s refused: %s", e.Stream, e.Reason)
}

// Unwrap returns ErrBad.
func (e *BadError) Unwrap() error { return ErrBad }

// Append appends the encoded command to dst. Header and body have checksums of
// their own, so that a damaged body still names its volume.
func (c Command) Append(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, magic, version, byte(c.Op))
	dst = append(dst, c.Incarnation[:]...)
	dst = appendName(dst, c.Stream.Queue)
	dst = appendName(dst, c.Stream.Name)
	dst = binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
	bodyStart := len(dst)
	dst = append(dst, c.Body...)
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[bodyStart:], castagnoli))
}

// Names have at most 128 bytes, so one byte holds their length.
func appendName(dst []byte, s string) []byte {
	dst = append(dst, byte(len(s)))
	return append(dst, s...)
}

// Decode reads an encoded command. Body aliases b. The error is a *BadError;
// Decode never panics, whatever it is given. The header up to its checksum, and
// the two checksums, are laid out alike in every version, so that damage can be
// told from a version that this node does not know.
func Decode(b []byte) (Command, error) {
	var c Command
	if len(b) < fixed+2+2*crcSize || b[0] != magic {
		return c, &BadError{Damaged: true, Reason: "it is not a command of this log"}
	}
	c.Op = Op(b[2])
	copy(c.Incarnation[:], b[3:])
	queue, rest, ok := cutName(b[fixed:])
	if !ok {
		return c, &BadError{Damaged: true, Reason: "the header is cut short"}
	}
	name, rest, ok := cutName(rest)
	if !ok || len(rest) < 2*crcSize {
		return c, &BadError{Damaged: true, Reason: "the header is cut short"}
	}
	header := b[:len(b)-len(rest)]
	if crc32.Checksum(header, castagnoli) != binary.BigEndian.Uint32(rest) {
		return c, &BadError{Damaged: true, Reason: "the checksum of the header does not match"}
	}
	c.Stream = evtlog.StreamName{Queue: queue, Name: name}
	body := rest[crcSize : len(rest)-crcSize]
	if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(rest[len(rest)-crcSize:]) {
		return c, &BadError{Stream: c.Stream, Damaged: true, Reason: "the checksum of the body does not match"}
	}
	if b[1] != version {
		return c, &BadError{Stream: c.Stream, Reason: fmt.Sprintf("version %d is not %d; upgrade this node", b[1], version)}
	}
	if c.Op != OpFold && c.Op != OpDigest {
		return c, &BadError{Stream: c.Stream, Reason: fmt.Sprintf("operation %d is unknown; upgrade this node", c.Op)}
	}
	c.Body = body
	return c, nil
}

func cutName(b []byte) (name string, rest []byte, ok bool) {
	if len(b) == 0 || len(b) < 1+int(b[0]) {
		return "", nil, false
	}
	n := int(b[0])
	return string(b[1 : 1+n]), b[1+n:], true
}
