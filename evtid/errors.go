package evtid

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Why an id was refused. Branch on them with errors.Is.
var (
	// ErrMalformed: wrong length, namespace or characters. The input is not an id.
	ErrMalformed = errors.New("malformed id")
	// ErrOverflow: the shape is right but the number does not fit an id.
	ErrOverflow = errors.New("id out of range")
	// ErrWrongKind: a well-formed id of another namespace.
	ErrWrongKind = errors.New("id of another kind")
	// ErrBeforeUnixEpoch: an instant before 1970 has no position in a stream.
	ErrBeforeUnixEpoch = errors.New("instant before 1970")
)

// ParseError tells which input was refused and why. It wraps ErrMalformed,
// ErrOverflow or ErrWrongKind.
type ParseError struct {
	// Input is the refused text.
	Input string
	// Reason says which rule it breaks.
	Reason string
	// Err is the class.
	Err error
}

// Error implements error.
func (e *ParseError) Error() string {
	return fmt.Sprintf("evtid: %s %s: %s", e.Err, quote(e.Input), e.Reason)
}

// quote shows a text in a message. What is no id may be of any length.
func quote(s string) string {
	const most = 64
	if len(s) <= most {
		return strconv.Quote(s)
	}
	return fmt.Sprintf("%q… (%d bytes)", s[:most], len(s))
}

// Unwrap returns the class.
func (e *ParseError) Unwrap() error { return e.Err }

// SkewError says that an id is further ahead of this clock than allowed: either
// this clock is slow (or was never set) or the writer of that id had a fast one.
// Nothing was minted. Correct the clock, or raise MaxSkew when the ids are known
// to be good; minting goes on by itself once the clock has come near enough.
type SkewError struct {
	// ID is the id that is ahead: the top that Seed was given, or the next id
	// that Mint would have made.
	ID ID
	// Skew is how far it is ahead of the clock.
	Skew time.Duration
	// Max is the limit that it passes.
	Max time.Duration
}

// Error implements error.
func (e *SkewError) Error() string {
	return fmt.Sprintf("evtid: id %s of node %d is %s ahead of this clock (limit %s): correct the slow or fast clock, or raise MaxSkew", e.ID, e.ID.Node(), e.Skew, e.Max)
}

// NodeError says that a node number is outside 0..MaxNode.
type NodeError struct{ Node int }

// Error implements error.
func (e *NodeError) Error() string {
	return fmt.Sprintf("evtid: node %d is outside 0..%d: give each writer its own number", e.Node, MaxNode)
}

// SkewLimitError says that MaxSkew is negative, which no clock could satisfy.
type SkewLimitError struct{ MaxSkew time.Duration }

// Error implements error.
func (e *SkewLimitError) Error() string {
	return fmt.Sprintf("evtid: MaxSkew %s is negative: give the time that ids may be ahead of the clock, or 0 for %s", e.MaxSkew, DefaultMaxSkew)
}
