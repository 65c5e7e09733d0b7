// Package manifest is the content of a snapshot of the replicated archive: not
// the records, only how far each volume had come. A snapshot therefore costs
// the same for a thousand records and for a billion, and a node that restores
// from one pulls just the commits it lacks.
//
// The package is pure: no I/O, no raft.
package manifest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/evtid"
)

// ErrBad: the bytes are not a manifest, or were damaged. Take the manifest from
// another node.
var ErrBad = errors.New("bad manifest")

// Manifest says how far the volumes of one node had come.
type Manifest struct {
	// Identity is the cluster the volumes belong to.
	Identity api.Identity
	// Source is the api.Address of the node that took the snapshot: one that has
	// all of it.
	Source string
	// Volumes are ordered by stream.
	Volumes []Volume
}

// Volume is the head of one volume.
type Volume struct {
	Stream evtlog.StreamName
	// LSN counts the commits, Count the records.
	LSN, Count uint64
	Watermark  evtid.ID
	// Chain is the hash over every commit up to LSN.
	Chain [32]byte
	// RaftIndex and RaftTerm are those of the log entry of the last commit.
	RaftIndex, RaftTerm uint64
}

// Layout of the encoded form; docs/formats/replication.md describes it.
const (
	magic   = "EVTLOGMF"
	version = 1
	// PadTo is the size an encoded manifest has at least. The time limit of the
	// call that carries a snapshot grows with its size only, so a manifest of a
	// few hundred bytes would get no time for the pull that follows it.
	PadTo      = 64 << 10
	headerSize = len(magic) + 2 + 4 + 4
	// maxBody bounds what a damaged length can make a reader allocate.
	maxBody = 64 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Encode returns the manifest, padded with zeros to PadTo or to the next power
// of two of it.
func (m Manifest) Encode() []byte {
	var body []byte
	for _, s := range []string{m.Identity.Cluster, m.Identity.Incarnation, m.Source} {
		body = appendString(body, s)
	}
	body = binary.AppendUvarint(body, uint64(len(m.Volumes)))
	for _, v := range m.Volumes {
		body = appendString(body, v.Stream.Queue)
		body = appendString(body, v.Stream.Name)
		for _, n := range []uint64{v.LSN, v.Count, positionOf(v.Watermark), v.RaftIndex, v.RaftTerm} {
			body = binary.AppendUvarint(body, n)
		}
		body = append(body, v.Chain[:]...)
	}
	size := PadTo
	for size < headerSize+len(body) {
		size *= 2
	}
	out := make([]byte, 0, size)
	out = append(out, magic...)
	out = binary.BigEndian.AppendUint16(out, version)
	out = binary.BigEndian.AppendUint32(out, uint32(len(body)))
	out = binary.BigEndian.AppendUint32(out, crc32.Checksum(body, castagnoli))
	out = append(out, body...)
	return out[:size]
}

// Decode reads what Encode wrote. The error wraps ErrBad.
func Decode(b []byte) (Manifest, error) {
	if len(b) < headerSize || string(b[:len(magic)]) != magic {
		return Manifest{}, fmt.Errorf("manifest: %w: it does not begin with %q", ErrBad, magic)
	}
	h := b[len(magic):]
	if v := binary.BigEndian.Uint16(h); v != version {
		return Manifest{}, fmt.Errorf("manifest: %w: version %d is not %d; upgrade this node", ErrBad, v, version)
	}
	size := binary.BigEndian.Uint32(h[2:])
	if size > maxBody || int(size) > len(b)-headerSize {
		return Manifest{}, fmt.Errorf("manifest: %w: it says %d bytes but has %d", ErrBad, size, len(b)-headerSize)
	}
	body := b[headerSize : headerSize+int(size)]
	if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(h[6:]) {
		return Manifest{}, fmt.Errorf("manifest: %w: the checksum does not match", ErrBad)
	}
	r := reader{b: body}
	m := Manifest{Identity: api.Identity{Cluster: r.string(), Incarnation: r.string()}, Source: r.string()}
	n := r.uvarint()
	for range min(n, uint64(len(body))) {
		v := Volume{Stream: evtlog.StreamName{Queue: r.string(), Name: r.string()}, LSN: r.uvarint(), Count: r.uvarint()}
		v.Watermark = r.id()
		v.RaftIndex, v.RaftTerm = r.uvarint(), r.uvarint()
		copy(v.Chain[:], r.take(len(v.Chain)))
		m.Volumes = append(m.Volumes, v)
	}
	if r.bad || len(r.b) != 0 || n != uint64(len(m.Volumes)) {
		return Manifest{}, fmt.Errorf("manifest: %w: the body does not parse", ErrBad)
	}
	return m, nil
}

// Sort puts the volumes in order, so that equal states encode equally.
func (m *Manifest) Sort() {
	slices.SortFunc(m.Volumes, func(a, b Volume) int { return compareStreams(a.Stream, b.Stream) })
}

func compareStreams(a, b evtlog.StreamName) int {
	switch {
	case a.Queue != b.Queue && a.Queue < b.Queue, a.Queue == b.Queue && a.Name < b.Name:
		return -1
	case a == b:
		return 0
	}
	return 1
}

// positionOf maps an id to its position, 0 for none.
func positionOf(id evtid.ID) uint64 {
	if id.IsZero() {
		return 0
	}
	return id.Snowflake() + 1
}

func appendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// reader takes a body apart; bad is set for good by the first thing that does
// not fit.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if r.bad || n > len(r.b) {
		r.bad = true
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if r.bad || n <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) string() string {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.bad = true
		return ""
	}
	return string(r.take(int(n)))
}

func (r *reader) id() evtid.ID {
	p := r.uvarint()
	if p == 0 {
		return evtid.ID{}
	}
	id, err := evtid.FromSnowflake(p - 1)
	if err != nil {
		r.bad = true
	}
	return id
}
