package streamconsumer

import (
	"slices"

	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

const (
	// joinFrom is how many ranges that follow each other are made one: a group that
	// was late for many trims has one for each, and each step reads them all.
	joinFrom = 16
	// joinMost is how many are joined at once.
	joinMost = 1000
)

// following returns the first of the ranges, which are in order, with those that
// follow it without a gap. A single one ends it: it has a record of its own, whose
// attempts are counted.
func following(ranges []redislog.SkippedRange) []redislog.SkippedRange {
	n := 0
	var to evtid.ID
	for n < min(len(ranges), joinMost) && !isSingle(ranges[n]) && (n == 0 || !to.Less(ranges[n].After)) {
		if to.Less(ranges[n].To) {
			to = ranges[n].To
		}
		n++
	}
	return ranges[:n]
}

// firstOwed returns the lowest id that ranges hold, zero when there are none.
func firstOwed(ranges []redislog.SkippedRange) (first evtid.ID) {
	for _, rg := range ranges {
		if id := rg.After.Next(); first.IsZero() || id.Less(first) {
			first = id
		}
	}
	return first
}

// archivedPart returns up to where an archive with watermark w can serve a
// range, zero when it has nothing of it. A recorded trim never passes the
// watermark; one by a foreign program may.
func archivedPart(rg redislog.SkippedRange, w evtid.ID) evtid.ID {
	if w.Compare(rg.After) <= 0 {
		return evtid.ID{}
	}
	if w.Less(rg.To) {
		return w
	}
	return rg.To
}

// isSingle reports whether a range names exactly one position.
func isSingle(rg redislog.SkippedRange) bool { return rg.After.Next() == rg.To }

func singleRange(id evtid.ID) redislog.SkippedRange {
	return redislog.SkippedRange{After: id.Prev(), To: id}
}

// uncovered returns a range for each id that no range holds.
func uncovered(ids []evtid.ID, ranges []redislog.SkippedRange) (missing []redislog.SkippedRange) {
	for _, id := range ids {
		if !slices.ContainsFunc(ranges, func(rg redislog.SkippedRange) bool {
			return rg.After.Less(id) && !rg.To.Less(id)
		}) {
			missing = append(missing, singleRange(id))
		}
	}
	return missing
}

// spanning widens a range until it holds the ids.
func spanning(rg redislog.SkippedRange, ids ...evtid.ID) redislog.SkippedRange {
	for _, id := range ids {
		if rg.Empty() || !rg.After.Less(id) {
			rg.After = id.Prev()
		}
		if rg.To.Less(id) {
			rg.To = id
		}
	}
	return rg
}

// rangeVerdict is what to do with a range, or a part of it, once what is pending
// of it was looked at.
type rangeVerdict uint8

const (
	rangeMine  rangeVerdict = iota // handle it, or report it as lost
	rangeSplit                     // somebody works on some of it: give that ranges of its own
	rangeLater                     // somebody did a moment ago, and may take it off the list
)

// decideRange reads how many of a range's records are in a member's hand, how
// many nobody works on any more and were taken off the pending list, and whether
// its one record was in a hand when last looked at. A member that finished it has
// acknowledged it and takes it out of the list next; one that died left it
// pending, to be taken.
func decideRange(held, taken int, wasHeld bool) rangeVerdict {
	switch {
	case held > 0:
		return rangeSplit
	case wasHeld && taken == 0:
		return rangeLater
	}
	return rangeMine
}
