package redislog

import (
	"slices"

	"github.com/evtlog/evtlog/evtid"
)

// groupState is what a trimmer knows about one group before it trims.
type groupState struct {
	name string
	// last is the group's last-delivered-id.
	last evtid.ID
	// pending are the ids at or below the target that were delivered and not
	// acknowledged, and that no earlier trim has recorded.
	pending []evtid.ID
}

// Skipped is what a trim took away from one group.
type Skipped struct {
	Group string
	// Range is what the group had not been given yet, zero when nothing.
	Range SkippedRange
	// Pending are the ids that a member had been given and not acknowledged.
	Pending []evtid.ID
}

// planSkips decides what a trim through target must record. from is exclusive:
// what lies at or below it left the stream earlier, and was recorded then.
func planSkips(groups []groupState, from, target evtid.ID) []Skipped {
	var plan []Skipped
	for _, g := range groups {
		s := Skipped{Group: g.name, Pending: g.pending}
		if after := maxID(g.last, from); after.Less(target) {
			s.Range = SkippedRange{After: after, To: target}
		}
		if !s.Range.Empty() || len(s.Pending) > 0 {
			plan = append(plan, s)
		}
	}
	return plan
}

// uncovered returns those of ids that no range holds.
func uncovered(ids []evtid.ID, ranges []SkippedRange) (rest []evtid.ID) {
	for _, id := range ids {
		if !slices.ContainsFunc(ranges, func(r SkippedRange) bool { return r.holds(id) }) {
			rest = append(rest, id)
		}
	}
	return rest
}

// ranges lists what is written for one group: the range it was not given, and
// its pending ids, where neighbours become one range.
func (s Skipped) ranges() []SkippedRange {
	list := pendingRanges(s.Pending)
	if !s.Range.Empty() {
		list = append(list, s.Range)
	}
	return list
}

// pendingRanges writes single ids as ranges: id k is (k-1, k].
func pendingRanges(ids []evtid.ID) []SkippedRange {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, evtid.ID.Compare)
	var list []SkippedRange
	for _, id := range ids {
		if n := len(list); n > 0 && !list[n-1].To.Less(id.Prev()) {
			list[n-1].To = id
			continue
		}
		list = append(list, SkippedRange{After: id.Prev(), To: id})
	}
	return list
}

// safeTarget is how far a trim may go without recording anything: below what
// any group has not been given, and below its oldest pending entry that is still
// in the stream, which begins above from.
func safeTarget(groups []groupState, from, target evtid.ID) evtid.ID {
	for _, g := range groups {
		target = minID(target, g.last)
		for _, id := range g.pending {
			if from.Less(id) {
				target = minID(target, id.Prev())
			}
		}
	}
	return target
}

func maxID(a, b evtid.ID) evtid.ID {
	if a.Less(b) {
		return b
	}
	return a
}

func minID(a, b evtid.ID) evtid.ID {
	if a.Less(b) {
		return a
	}
	return b
}
