package redislog

import (
	"cmp"
	"slices"

	"github.com/evtlog/evtlog/evtid"
)

// SeekPlan says what moving a group does. A group owes what lies above its
// position, and its recorded skipped ranges; after the move it owes exactly what
// lies above Target. Entries that are pending stay pending, wherever they are.
type SeekPlan struct {
	Group string
	// From is the position of the group before the move.
	From evtid.ID
	// Target is where the group is moved: the next record above it is delivered
	// next. It is never above the top of the stream.
	Target evtid.ID
	// At is the position the group gets in the live stream: Target, or the archived
	// floor when that is higher. What lies in between is in Ranges.
	At evtid.ID
	// Ranges are the recorded ranges of the group after the move.
	Ranges []SkippedRange
	// Skipped are the ranges that the group owed and will not be given; Repeated are
	// those that it does not owe and will be given again.
	Skipped, Repeated []SkippedRange
	// Pending counts what is delivered and not acknowledged.
	Pending int64
	// Floor is the archived floor of the stream: what lies at or below it can be
	// read only from the archive.
	Floor evtid.ID
}

// seekFacts is what a plan rests on.
type seekFacts struct {
	group  GroupInfo
	ranges []SkippedRange
	floor  evtid.ID
	top    evtid.ID // last-generated-id
}

// joinFloor decides how far records may have left the stream: up to the floor,
// and where there is none, as far as the archive reaches. An archive that reaches
// above the top of the stream belongs to a stream that was deleted or set back;
// then nothing of what it holds is sure to be live.
func joinFloor(floor, top, archived evtid.ID) evtid.ID {
	if floor.IsZero() || top.Less(archived) {
		return maxID(floor, archived)
	}
	return floor
}

// planSeek decides what moving a group to a position does.
func planSeek(f seekFacts, target evtid.ID) SeekPlan {
	// A position above the top would skip records that do not exist yet.
	target = minID(target, maxID(f.top, f.floor))
	p := SeekPlan{
		Group: f.group.Name, From: f.group.LastDelivered, Target: target,
		At: maxID(target, f.floor), Floor: f.floor, Pending: f.group.Pending,
	}
	owed := normalRanges(append(slices.Clone(f.ranges), SkippedRange{After: p.From, To: evtid.Max}))
	after := SkippedRange{After: target, To: evtid.Max}
	p.Skipped = clipRanges(owed, SkippedRange{To: target})
	p.Repeated = subtractRanges(after, owed)
	p.Ranges = clipRanges(f.ranges, after)
	if target.Less(f.floor) {
		p.Ranges = append(p.Ranges, SkippedRange{After: target, To: f.floor})
	}
	p.Ranges = normalRanges(p.Ranges)
	return p
}

// OwedRanges returns what a group with this position and these recorded ranges
// has not been given of the records up to top, in order and without overlap.
func OwedRanges(position evtid.ID, recorded []SkippedRange, top evtid.ID) []SkippedRange {
	return normalRanges(append(slices.Clone(recorded), SkippedRange{After: position, To: top}))
}

// normalRanges returns ranges that hold the same ids, in order, apart from each
// other.
func normalRanges(ranges []SkippedRange) []SkippedRange {
	ranges = slices.DeleteFunc(slices.Clone(ranges), SkippedRange.Empty)
	slices.SortFunc(ranges, func(a, b SkippedRange) int {
		return cmp.Or(a.After.Compare(b.After), a.To.Compare(b.To))
	})
	var out []SkippedRange
	for _, r := range ranges {
		if n := len(out); n > 0 && !out[n-1].To.Less(r.After) {
			out[n-1].To = maxID(out[n-1].To, r.To)
			continue
		}
		out = append(out, r)
	}
	return out
}

// clipRanges returns the parts of ranges that lie in window.
func clipRanges(ranges []SkippedRange, window SkippedRange) (parts []SkippedRange) {
	for _, r := range ranges {
		part := SkippedRange{After: maxID(r.After, window.After), To: minID(r.To, window.To)}
		if !part.Empty() {
			parts = append(parts, part)
		}
	}
	return parts
}

// subtractRanges returns the parts of window that no range holds. The ranges are
// in order and apart from each other.
func subtractRanges(window SkippedRange, ranges []SkippedRange) (rest []SkippedRange) {
	at := window.After
	for _, r := range append(slices.Clone(ranges), SkippedRange{After: window.To, To: window.To}) {
		gap := SkippedRange{After: at, To: minID(r.After, window.To)}
		if !gap.Empty() {
			rest = append(rest, gap)
		}
		at = maxID(at, r.To)
	}
	return rest
}

// seekBroken compares a plan with what the group is now, and says in words what
// does not fit, "" when everything does. Members may have gone on meanwhile, and
// so may a trim.
func seekBroken(p SeekPlan, now GroupInfo, ranges []SkippedRange) string {
	if now.LastDelivered.Less(p.At) {
		return "the group stands at " + now.LastDelivered.Entry() + ", below " + p.At.Entry()
	}
	allowed := normalRanges(append(slices.Clone(p.Ranges), SkippedRange{After: p.At, To: evtid.Max}))
	for _, r := range ranges {
		if len(subtractRanges(r, allowed)) > 0 {
			return "the range " + r.String() + " is recorded, and the plan does not hold all of it"
		}
	}
	if now.LastDelivered == p.At && len(ranges) == 0 && len(p.Ranges) > 0 && now.Pending == p.Pending {
		return "no range is recorded, and the plan has " + p.Ranges[0].String()
	}
	return ""
}
