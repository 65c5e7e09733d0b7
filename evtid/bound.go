package evtid

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Bound is a position in a stream at the edge of a millisecond. Unlike an ID it
// may lie outside the range that ids can have, so any instant from 1970 on has
// its bounds.
type Bound struct {
	// Millis is the Unix millisecond, 0 or more.
	Millis int64
	// Tail is the second half of the entry id: 0 for a lower bound and MaxTail
	// for an upper one.
	Tail uint32
}

// Floor returns the first position of the millisecond that t falls in: the
// lower bound of a window that includes t. The millisecond rounds toward minus
// infinity. Before 1970 it is ErrBeforeUnixEpoch.
func Floor(t time.Time) (Bound, error) { return bound(t, 0) }

// Ceil returns the last position of the millisecond that t falls in: the upper
// bound of a window that includes t. Errors are those of Floor.
func Ceil(t time.Time) (Bound, error) { return bound(t, MaxTail) }

func bound(t time.Time, tail uint32) (Bound, error) {
	if t.Unix() < 0 {
		return Bound{}, fmt.Errorf("evtid: %w: %s has no position in a stream; use an instant from 1970 on", ErrBeforeUnixEpoch, t.Format(time.RFC3339Nano))
	}
	millis := t.UnixMilli()
	if t.Unix() >= math.MaxInt64/1000 {
		millis = math.MaxInt64 // UnixMilli does not reach that far
	}
	return Bound{Millis: millis, Tail: tail}, nil
}

// AppendTo appends "<unix ms>-<tail>" to dst.
func (b Bound) AppendTo(dst []byte) []byte {
	dst = strconv.AppendInt(dst, b.Millis, 10)
	dst = append(dst, '-')
	return strconv.AppendUint(dst, uint64(b.Tail), 10)
}

// String returns the form that XRANGE and XTRIM MINID take.
func (b Bound) String() string { return string(b.AppendTo(nil)) }

// Last returns the largest id at or below b: the zero ID when b lies before
// 2024, Max when it lies after 2093.
func (b Bound) Last() ID {
	switch {
	case b.Millis < EpochMillis:
		return ID{}
	case b.Millis > MaxMillis:
		return Max
	}
	return fromPayload(uint64(b.Millis-EpochMillis)<<tailBits | uint64(min(b.Tail, MaxTail)))
}

// Before returns the largest id strictly below b: the exclusive lower bound of
// a window that begins at b. It is the zero ID when b lies at or before the
// first id, Max when b lies after 2093.
func (b Bound) Before() ID {
	last := b.Last()
	if b.Millis > MaxMillis || b.Tail > MaxTail {
		return last // b is no id's position, so last lies strictly below it
	}
	return last.Prev()
}
