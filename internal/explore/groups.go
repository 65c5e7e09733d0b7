package explore

import (
	"fmt"
	"slices"
)

// GroupOrder switches parts of the Groups model to a wrong order. The zero value
// is the right one.
type GroupOrder struct {
	// The trimmer:

	// MoveGroup lets the trimmer also move a group that lags up to where it
	// trims, with XCLAIM LASTID in the same transaction. It is right too.
	MoveGroup bool
	// BareTrim trims without recording anything.
	BareTrim bool
	// TrimThenRecord records after the trim and not with it.
	TrimThenRecord bool
	// NoPending records what the group has not read, but not what it has pending.
	NoPending bool
	// PendingFirst reads what is pending before how far the group is.
	PendingFirst bool
	// NoWatch trims whether or not a group was created meanwhile.
	NoWatch bool

	// The consumers:

	// PopFirst takes a range off the list and then handles it.
	PopFirst bool
	// AckNil acknowledges an entry without a body, unhandled.
	AckNil bool
	// IgnoreDeleted ignores the ids that XAUTOCLAIM says are deleted.
	IgnoreDeleted bool

	// The creation of the group:

	// CreateAtStart creates it at the start of the stream, with no range.
	CreateAtStart bool
	// CreateNoWatch creates it whether or not a trim went on meanwhile.
	CreateNoWatch bool
	// Recreate destroys and creates the group again under running consumers.
	Recreate bool
}

const (
	groupRecords  = 2
	groupMembers  = 2
	maxRangesHeld = 6
)

// groupState is the whole system: one stream, one group, two members. Whatever
// is trimmed is in the archive.
type groupState struct {
	top, trimmed, floor uint8
	exists              bool
	recreated           bool
	// last is the group's last delivered id, owner who has an entry pending.
	last  uint8
	owner [groupRecords + 1]uint8
	// handled are the records that a handler of this group has seen.
	handled set
	// ranges is the list of what was skipped, sorted, 0 where there is none.
	ranges  [maxRangesHeld]set
	m       [groupMembers]member
	trimmer trimmer
	creator creator
}

// member is a consumer at work on something.
type member struct {
	// doing says what was taken, and done that the handler has seen it.
	doing memberWork
	done  bool
	hand  set
}

type memberWork uint8

// What a member can have in hand.
const (
	idle memberWork = iota
	// entries were delivered to it and are acknowledged after the handler.
	entries
	// skippedRange is taken off the list after the handler.
	skippedRange
	// deleted ids came in the third part of the answer of XAUTOCLAIM, and are
	// pending no more.
	deleted
)

// Groups explores two members of a group, a trimmer that follows the archiver,
// and whoever creates the group.
//
// The trimmer reads how far the group is and then what it has pending, and in
// one transaction, which fails when a group was created or a trim made
// meanwhile, it records both as ranges and trims. A member handles what it is
// given before it acknowledges it, and a range before it takes it off the list;
// an entry whose body is gone it reads from the archive. The group is created at
// the floor, with what lies below as a range.
//
// What holds, whoever crashes between any two steps: a record that the group has
// not handled is live and still to be delivered, or pending, or in a range, or
// in the hands of a member that is alive. Nothing is skipped. And once
// everything stands still, all has been handled.
func Groups(order GroupOrder) Model[groupState] {
	return Model[groupState]{
		Init:   []groupState{{}},
		Next:   order.next,
		Broken: order.broken,
		Ended: func(s groupState) bool {
			return s.handled == span(0, groupRecords) && s.owner == [groupRecords + 1]uint8{} && s.ranges == [maxRangesHeld]set{}
		},
	}
}

func (o GroupOrder) broken(s groupState) string {
	if !s.exists {
		return ""
	}
	reach := s.handled
	reach |= span(0, s.top) &^ span(0, max(s.last, s.trimmed))
	for id, owner := range s.owner {
		if owner > 0 {
			reach |= 1 << id
		}
	}
	for _, r := range s.ranges {
		reach |= r
	}
	for _, m := range s.m {
		reach |= m.hand
	}
	if s.trimmer.pc == record {
		reach |= s.trimmer.unread | s.trimmer.pending
	}
	if missing := span(0, s.top) &^ reach; missing != 0 {
		return fmt.Sprintf("skipped: nobody will ever handle %s", missing)
	}
	return ""
}

func (o GroupOrder) next(s groupState, step Step[groupState]) {
	if s.top < groupRecords {
		next := s
		next.top++
		step(next, "writer: append", next.top)
	}
	o.create(s, step)
	o.trim(s, step)
	if !s.exists {
		return
	}
	for i := range s.m {
		if s.m[i].doing == idle {
			o.take(s, i, step)
			continue
		}
		o.finish(s, i, step)
		next := s
		next.m[i] = member{}
		step(next, members[i], "crash")
	}
}

var members = [...]string{"member 1:", "member 2:"}

// take offers everything that an idle member can begin with.
func (o GroupOrder) take(s groupState, i int, step Step[groupState]) {
	o.readNew(s, i, step)
	o.readOwn(s, i, step)
	o.claim(s, i, step)
	for at, r := range s.ranges {
		if r == 0 {
			continue
		}
		next := s
		next.m[i] = member{doing: skippedRange, hand: r}
		if o.PopFirst {
			next.remove(at)
		}
		step(next, members[i], "take the range", r)
	}
}

// readNew is XREADGROUP >, of one entry or of two.
func (o GroupOrder) readNew(s groupState, i int, step Step[groupState]) {
	for count := range uint8(2) {
		first := max(s.last, s.trimmed) + 1
		if first+count > s.top {
			return
		}
		next := s
		for id := first; id <= first+count; id++ {
			next.owner[id] = uint8(i + 1)
			next.last = id
		}
		next.m[i] = member{doing: entries, hand: span(first-1, next.last)}
		step(next, members[i], "XREADGROUP > gives", next.m[i].hand)
	}
}

// readOwn reads what is pending under the member's own name. An entry that was
// trimmed comes without a body, which is then read from the archive.
func (o GroupOrder) readOwn(s groupState, i int, step Step[groupState]) {
	for id, owner := range s.owner {
		if owner != uint8(i+1) {
			continue
		}
		next := s
		if o.AckNil && uint8(id) <= s.trimmed {
			next.owner[id] = 0
			step(next, members[i], "XACK its own pending entry", id, "unhandled, as it has no body")
			continue
		}
		next.m[i] = member{doing: entries, hand: 1 << id}
		step(next, members[i], "read its own pending entry", id)
	}
}

// claim is XAUTOCLAIM: it takes over what others have pending, and drops from
// everybody's pending list what was trimmed, naming it in its answer.
func (o GroupOrder) claim(s groupState, i int, step Step[groupState]) {
	var gone, claimed set
	next := s
	for id, owner := range s.owner {
		switch {
		case owner == 0:
		case uint8(id) <= s.trimmed:
			gone |= 1 << id
			next.owner[id] = 0
		case owner != uint8(i+1):
			claimed |= 1 << id
			next.owner[id] = uint8(i + 1)
		}
	}
	if gone|claimed == 0 {
		return
	}
	// The claimed entries are found again as own pending ones; what matters is
	// what only this answer knows.
	if gone > 0 && !o.IgnoreDeleted {
		next.m[i] = member{doing: deleted, hand: gone}
	}
	step(next, members[i], "XAUTOCLAIM takes over", claimed, "and says that", gone, "is deleted")
}

// finish hands what a member holds to the handler, and then lets go of it.
func (o GroupOrder) finish(s groupState, i int, step Step[groupState]) {
	m := s.m[i]
	if !m.done {
		s.handled |= m.hand
		s.m[i].done = true
		if m.doing == deleted {
			s.m[i] = member{}
		}
		step(s, members[i], "handle", m.hand)
		return
	}
	s.m[i] = member{}
	switch m.doing {
	case entries:
		for id := range s.owner {
			if m.hand>>id&1 == 1 {
				s.owner[id] = 0
			}
		}
		step(s, members[i], "XACK", m.hand)
	case skippedRange:
		if at := slices.Index(s.ranges[:], m.hand); at >= 0 {
			s.remove(at)
		}
		step(s, members[i], "LREM the range", m.hand)
	}
}

func (s *groupState) push(r set) {
	if r == 0 {
		return
	}
	at := slices.Index(s.ranges[:], 0)
	if at < 0 {
		panic("explore: more ranges than the model has room for")
	}
	s.ranges[at] = r
	s.sortRanges()
}

func (s *groupState) remove(at int) {
	s.ranges[at] = 0
	s.sortRanges()
}

// sortRanges keeps equal lists equal, whatever the order they grew in.
func (s *groupState) sortRanges() {
	slices.SortFunc(s.ranges[:], func(a, b set) int { return int(b) - int(a) })
}
