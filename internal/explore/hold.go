package explore

// HoldOrder switches parts of the Hold model to a wrong order. The zero value is
// the right one.
type HoldOrder struct {
	// NoHold: the owner does not name the entry.
	NoHold bool
	// NameLast: the owner looks whether the entry is its own and then names it.
	NameLast bool
	// NoWatch: the taker does not watch the hold.
	NoWatch bool
	// Sweep: somebody sends XAUTOCLAIM, which drops the entry from the pending
	// list.
	Sweep bool
	// TakeLater: the taker handles the entry and leaves it pending meanwhile.
	TakeLater bool
}

// holdState is one entry that was trimmed, and recorded, while its owner's
// handler runs.
type holdState struct {
	pending, recorded, handled bool
	// fresh: the owner was given the entry, or renewed it, less than MinIdle ago.
	fresh bool
	// named: the owner's hold is there and names it.
	named bool
	owner owner
	taker taker
}

// owner is the member that has the entry. It works on it as far as it can prove
// that it is its own; a frozen one proves it anew before it goes on.
type owner struct {
	works, gone bool
	// asks: half of a renewal is done.
	asks bool
	// acked: it has acknowledged, and has not taken the entry out of the range.
	acked bool
}

// taker hands out the range.
type taker struct {
	pc    uint8
	moved bool // the hold that it watches has changed
}

// What the taker does next.
const (
	lookPending = iota
	readHold
	lookAgain
	takeIt
	handleIt
	dropRange
)

// Hold explores a member whose entry was trimmed while its handler runs, and a
// peer that hands out the range in which the trim recorded it.
//
// The owner cannot renew the entry, because claiming it would drop it. It names
// it under a lease, and then looks whether it still is its own. The taker watches
// that lease, reads it, lists the entry once more, and takes it off the pending
// list in a transaction before it handles it. The owner acknowledges, and then
// takes the entry out of the range.
//
// What holds, whoever crashes or freezes between any two steps: the entry never
// runs with both at a time, it is not lost, and in the end it was handled.
func Hold(order HoldOrder) Model[holdState] {
	return Model[holdState]{
		Init: []holdState{{pending: true, recorded: true, fresh: true, owner: owner{works: true}}},
		Next: func(s holdState, step Step[holdState]) {
			order.own(s, step)
			order.take(s, step)
			if order.Sweep && s.pending {
				s.pending = false
				step(s, "somebody: XAUTOCLAIM")
			}
		},
		Broken: holdBroken,
		Ended:  func(s holdState) bool { return s.handled && !s.pending && !s.recorded },
	}
}

func holdBroken(s holdState) string {
	switch {
	case s.owner.works && s.taker.pc == handleIt:
		return "parallel: the entry runs with both"
	case !s.handled && !s.pending && !s.recorded && !s.owner.works:
		return "lost: nobody will ever handle it"
	}
	return ""
}

// own offers the steps of the owner.
func (o HoldOrder) own(s holdState, step Step[holdState]) {
	if s.named && s.fresh {
		next := s
		next.fresh = false
		step(next, "time: MinIdle since the owner was given the entry")
	}
	if !s.owner.works && !s.owner.acked && (s.named || s.fresh) {
		next := s
		next.named, next.fresh = false, false
		// A renewal that takes as long as that proves nothing: it counts from when it
		// began.
		next.owner.asks = false
		step(next, "time: MinIdle without a sign of the owner")
	}
	if s.owner.gone {
		return
	}
	next := s
	next.owner = owner{gone: true}
	step(next, "owner: crash")
	o.renew(s, step)
	switch {
	case s.owner.acked:
		s.recorded, s.owner = false, owner{gone: true}
		step(s, "owner: take the entry out of the range")
	case s.owner.works:
		next := s
		next.owner.works = false
		next.owner.asks = false
		step(next, "owner: freeze")
		next = s
		next.handled, next.pending, next.owner = true, false, owner{acked: true}
		step(next, "owner: the handler returns, XACK")
	}
}

// renew is naming the entry and looking whether it is its own.
func (o HoldOrder) renew(s holdState, step Step[holdState]) {
	if s.owner.acked {
		return
	}
	name := s.owner.asks == o.NameLast
	s.owner.asks = !s.owner.asks
	if name {
		if !o.NoHold {
			s.named, s.taker.moved = true, s.taker.pc != lookPending
		}
		s.owner.works = s.owner.works || o.NameLast
		step(s, "owner: SET the hold")
		return
	}
	switch {
	case !s.pending:
		s.owner = owner{gone: true}
	case !o.NameLast:
		s.owner.works = true
	}
	step(s, "owner: XPENDING says that it is its own:", s.pending)
}

// take offers the steps of the taker.
func (o HoldOrder) take(s holdState, step Step[holdState]) {
	if !s.recorded && s.taker.pc == lookPending {
		return
	}
	if s.taker.pc != lookPending {
		next := s
		next.taker = taker{}
		step(next, "taker: crash")
	}
	switch s.taker.pc {
	case lookPending:
		if s.taker.pc = readHold; !s.pending {
			s.taker.pc = handleIt
		}
		step(s, "taker: XPENDING says that it is pending:", s.pending, "; WATCH the hold")
	case readHold:
		if s.taker.pc = lookAgain; s.named {
			s.taker = taker{}
		}
		step(s, "taker: the hold names it:", s.named)
	case lookAgain:
		switch {
		case !s.pending:
			s.taker = taker{pc: handleIt}
		case s.fresh:
			s.taker = taker{}
		default:
			s.taker.pc = takeIt
		}
		step(s, "taker: XPENDING says that it is pending:", s.pending, "and fresh:", s.fresh)
	case takeIt:
		if s.taker.moved && !o.NoWatch {
			s.taker = taker{}
			step(s, "taker: EXEC fails, the hold has changed")
			return
		}
		s.taker = taker{pc: handleIt}
		s.pending = s.pending && o.TakeLater
		step(s, "taker: EXEC acknowledges it")
	case handleIt:
		s.handled, s.taker.pc = true, dropRange
		step(s, "taker: handle it")
	case dropRange:
		s.recorded, s.pending, s.taker = false, false, taker{}
		step(s, "taker: LREM the range")
	}
}
