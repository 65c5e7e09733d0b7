package volume

import "math/bits"

// span is a stretch of records in mint order: low is a record whose id is at or
// below what is sought, high one whose id is above it.
type span struct {
	low, high     uint64
	lowID, highID uint64
}

// firstAbove returns the first of count records whose id is above x; count when
// there is none. last is the id of the last record. id reads the id of record n;
// its error ends the search.
//
// Ids are times, and most streams run evenly, so a guess by proportion lands
// close: ten million records take about ten reads, where halving takes 24.
// Whenever two reads do not halve the span, one more read does, so the worst
// case is three times that of halving.
func firstAbove(x, count, last uint64, id func(n uint64) (uint64, error)) (uint64, error) {
	if count == 0 || last <= x {
		return count, nil
	}
	first, err := id(0)
	if err != nil {
		return 0, err
	}
	if first > x {
		return 0, nil
	}
	s := span{low: 0, high: count - 1, lowID: first, highID: last}
	for s.high-s.low > 1 {
		if err := s.narrow(x, id); err != nil {
			return 0, err
		}
	}
	return s.high, nil
}

// narrow makes the span smaller by one to three reads.
func (s *span) narrow(x uint64, id func(uint64) (uint64, error)) error {
	before := s.high - s.low
	guess := s.guess(x)
	if err := s.read(guess, x, id); err != nil {
		return err
	}
	// The true place is likely within the square root of the span: try to catch
	// it between the guess and there.
	step := isqrt(before)
	if s.low == guess {
		guess += step
	} else {
		guess -= min(step, guess)
	}
	if s.inside(guess) {
		if err := s.read(guess, x, id); err != nil {
			return err
		}
	}
	if s.high-s.low > before/2 && s.high-s.low > 1 {
		return s.read(s.low+(s.high-s.low)/2, x, id)
	}
	return nil
}

func (s *span) inside(n uint64) bool { return s.low < n && n < s.high }

// guess returns a record inside the span, by proportion.
func (s *span) guess(x uint64) uint64 {
	n := s.high - s.low
	if s.highID <= s.lowID || x < s.lowID || x >= s.highID {
		return s.low + n/2
	}
	hi, lo := bits.Mul64(x-s.lowID, n)
	quo, _ := bits.Div64(hi, lo, s.highID-s.lowID)
	return min(max(s.low+quo, s.low+1), s.high-1)
}

func (s *span) read(n, x uint64, id func(uint64) (uint64, error)) error {
	v, err := id(n)
	if err != nil {
		return err
	}
	if v <= x {
		s.low, s.lowID = n, v
	} else {
		s.high, s.highID = n, v
	}
	return nil
}

// isqrt is about the square root of n, at least 1.
func isqrt(n uint64) uint64 { return 1 << (bits.Len64(n) / 2) }
