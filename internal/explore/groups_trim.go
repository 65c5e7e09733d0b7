package explore

// What the trimmer does next.
const (
	chooseThrough = iota
	firstLook
	secondLook
	execute
	record
)

// trimmer trims behind the archiver: everything up to the top is archived.
type trimmer struct {
	pc uint8
	// through is how far it trims. moved says that the epoch it watches has
	// changed.
	through uint8
	moved   bool
	// unread is what the group has not been given of what is to be trimmed, and
	// pending what it has pending of it.
	unread, pending set
}

// creator creates the group, to begin with the first record there ever was.
type creator struct {
	pc, floor uint8
	moved     bool
}

// trim offers the trimmer's next step.
func (o GroupOrder) trim(s groupState, step Step[groupState]) {
	if s.trimmer.pc != chooseThrough {
		next := s
		next.trimmer = trimmer{}
		step(next, "trimmer: crash")
	}
	t := &s.trimmer
	switch t.pc {
	case chooseThrough:
		for through := s.trimmed + 1; through <= s.top; through++ {
			next := s
			next.floor = max(s.floor, through)
			next.trimmer = trimmer{pc: firstLook, through: through}
			if o.BareTrim {
				next.trimmer.pc = execute
			}
			step(next, "trimmer: publish the floor", next.floor, "and WATCH the epoch")
		}
	case firstLook, secondLook:
		o.lookAtGroup(s, step)
	case execute:
		o.executeTrim(s, step)
	case record:
		s.push(t.unread)
		s.push(t.pending)
		s.trimmer = trimmer{}
		step(s, "trimmer: RPUSH what was skipped")
	}
}

// lookAtGroup reads how far the group is, and then what it has pending; or the
// other way round.
func (o GroupOrder) lookAtGroup(s groupState, step Step[groupState]) {
	t := &s.trimmer
	first := t.pc == firstLook
	t.pc++
	if first != o.PendingFirst {
		if s.exists {
			t.unread = span(s.last, t.through)
		}
		step(s, "trimmer: XINFO says that", t.unread, "is unread")
		return
	}
	for id, owner := range s.owner {
		if owner > 0 && uint8(id) <= t.through && !o.NoPending {
			t.pending |= 1 << id
		}
	}
	step(s, "trimmer: XPENDING says that", t.pending, "is pending")
}

// executeTrim is the transaction: record and trim, unless the epoch has moved.
func (o GroupOrder) executeTrim(s groupState, step Step[groupState]) {
	t := s.trimmer
	if t.moved && !o.NoWatch && !o.BareTrim {
		s.trimmer = trimmer{}
		step(s, "trimmer: EXEC fails, the epoch has moved")
		return
	}
	s.incr()
	s.trimmed = max(s.trimmed, t.through)
	if s.exists && o.MoveGroup {
		s.last = max(s.last, t.through)
	}
	if o.TrimThenRecord {
		s.trimmer.pc = record
		step(s, "trimmer: XTRIM through", t.through)
		return
	}
	s.trimmer = trimmer{}
	s.push(t.unread)
	s.push(t.pending)
	step(s, "trimmer: EXEC records", t.unread, "and", t.pending, "and trims through", t.through)
}

// create offers the next step of whoever creates the group.
func (o GroupOrder) create(s groupState, step Step[groupState]) {
	switch {
	case s.exists && o.Recreate && !s.recreated:
		s.recreated = true
		s.last, s.owner, s.handled = s.trimmed, [groupRecords + 1]uint8{}, span(0, s.trimmed)
		step(s, "somebody: XGROUP DESTROY, and CREATE where the stream begins")
	case s.exists:
	case s.creator.pc == 0:
		s.creator = creator{pc: 1}
		step(s, "creator: WATCH the epoch")
	case s.creator.pc == 1:
		s.creator.pc, s.creator.floor = 2, s.floor
		step(s, "creator: the floor is", s.floor)
	case s.creator.moved && !o.CreateNoWatch:
		s.creator = creator{}
		step(s, "creator: EXEC fails, the epoch has moved")
	default:
		floor := s.creator.floor
		s.creator = creator{}
		s.exists = true
		s.incr()
		if !o.CreateAtStart {
			s.last = floor
			s.push(span(0, floor))
		}
		step(s, "creator: EXEC creates the group at", s.last)
	}
}

// incr is INCR of the epoch: whoever watches it will see that it moved.
func (s *groupState) incr() {
	s.trimmer.moved = s.trimmer.pc != chooseThrough
	s.creator.moved = s.creator.pc != 0
}
