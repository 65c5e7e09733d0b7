package evtid

import (
	"cmp"
	"strconv"
	"time"
)

// Layout of an id. The numbers are part of the wire format.
const (
	// EpochMillis is the first instant an id can name, in Unix milliseconds:
	// 2024-01-01T00:00:00Z.
	EpochMillis int64 = 1704067200000
	// MaxSnowflake is the largest 63-bit payload, 2^63-1.
	MaxSnowflake uint64 = 1<<63 - 1
	// MaxNode is the largest node number.
	MaxNode = 1<<nodeBits - 1
	// MaxSeq is the largest sequence number inside one millisecond of one node.
	MaxSeq = 1<<seqBits - 1
	// MaxTail is the largest second half of an entry id: node and sequence, all ones.
	MaxTail = 1<<tailBits - 1
	// MaxMillis is the last Unix millisecond an id can name, in the year 2093.
	MaxMillis = EpochMillis + maxMS

	// Brand is the namespace of event ids.
	Brand = "EVT"
	// Len is the length of a branded id in bytes. It never varies.
	Len = 14

	nodeBits = 10
	seqBits  = 12
	tailBits = nodeBits + seqBits
	brandLen = 3
	maxMS    = 1<<41 - 1
)

// ID names one event. It is a small comparable value: use it as a map key,
// compare it with ==, pass it by value.
//
// The zero ID means "no id" (nothing archived yet, read from the start). It
// orders before every real id and IsZero reports it; it is not the id
// EVT00000000000, which is the first real one.
type ID struct {
	// n is the snowflake plus one, so that the zero value is free to mean "none".
	n uint64
}

// fromPayload returns the id of a payload that is known to fit.
func fromPayload(v uint64) ID { return ID{v + 1} }

// pack returns the id of parts that are known to fit.
func pack(ms, node, seq uint64) ID { return fromPayload(ms<<tailBits | node<<seqBits | seq) }

// Max is the largest id, EVTAzL8n0Y58m7.
var Max = ID{MaxSnowflake + 1}

// FromSnowflake returns the id with the 63-bit payload v.
// A larger v is ErrOverflow.
func FromSnowflake(v uint64) (ID, error) {
	if v > MaxSnowflake {
		return ID{}, &ParseError{Input: strconv.FormatUint(v, 10), Reason: "the payload is larger than 2^63-1", Err: ErrOverflow}
	}
	return fromPayload(v), nil
}

// Make returns the id of the given Unix millisecond, node and sequence.
// A millisecond outside EpochMillis..MaxMillis, a node outside 0..MaxNode or a
// sequence outside 0..MaxSeq is ErrOverflow.
func Make(unixMilli int64, node, seq int) (ID, error) {
	if unixMilli < EpochMillis || unixMilli > MaxMillis || node < 0 || node > MaxNode || seq < 0 || seq > MaxSeq {
		in := strconv.FormatInt(unixMilli, 10) + "/" + strconv.Itoa(node) + "/" + strconv.Itoa(seq)
		return ID{}, &ParseError{Input: in, Reason: "the millisecond, the node or the sequence lies outside an id's range", Err: ErrOverflow}
	}
	return pack(uint64(unixMilli-EpochMillis), uint64(node), uint64(seq)), nil
}

// IsZero reports whether id is the zero ID, "no id".
func (id ID) IsZero() bool { return id.n == 0 }

// Compare returns -1, 0 or +1 in mint order; the zero ID comes first.
func (id ID) Compare(other ID) int { return cmp.Compare(id.n, other.n) }

// Less reports whether id was minted before other.
func (id ID) Less(other ID) bool { return id.n < other.n }

// Next returns the smallest id above id. Next of the zero ID is the first real
// id; Next of Max is Max.
func (id ID) Next() ID { return ID{min(id.n+1, Max.n)} }

// Prev returns the largest id below id. Prev of the first real id, and of the
// zero ID, is the zero ID. It turns an inclusive lower bound into the exclusive
// one that windows use.
func (id ID) Prev() ID { return ID{max(id.n, 1) - 1} }

// Snowflake returns the 63-bit payload. It is 0 for the zero ID as well as for
// the first real id.
func (id ID) Snowflake() uint64 { return max(id.n, 1) - 1 }

// UnixMilli returns the Unix millisecond the id was minted in. It, Time, Node
// and Seq answer for the zero ID as for the first real one.
func (id ID) UnixMilli() int64 { return int64(id.Snowflake()>>tailBits) + EpochMillis }

// Time returns the instant the id was minted at, in UTC, to the millisecond.
func (id ID) Time() time.Time { return time.UnixMilli(id.UnixMilli()).UTC() }

// Node returns the number of the node that minted the id, 0..MaxNode.
func (id ID) Node() int { return int(id.Snowflake() >> seqBits & MaxNode) }

// Seq returns the sequence inside the millisecond, 0..MaxSeq.
func (id ID) Seq() int { return int(id.Snowflake() & MaxSeq) }
