package evtid

import (
	"fmt"
	"strconv"
	"time"
)

// Bound is a position in a stream at the edge of a millisecond. Unlike an ID it
// may lie outside the range that ids can have, so any instant from 1970 on has
// its bounds.
type Bound struct {
	// Millis is the Unix millisecond.
	Millis int64
	// Tail is 0 for a lower bound and MaxTail for an upper one.
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
	return Bound{Millis: t.UnixMilli(), Tail: tail}, nil
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
	return ID{uint64(b.Millis-EpochMillis)<<tailBits | uint64(b.Tail) + 1}
}

// Before returns the largest id strictly below b: the exclusive lower bound of
// a window that begins at b.
func (b Bound) Before() ID {
	if b.Millis > MaxMillis {
		return Max
	}
	return b.Last().Prev()
}
