package explore

import "fmt"

// SettleFacts is what the writer has learned about an append whose reply was
// lost: the id k was sent with some fields.
type SettleFacts struct {
	// Found: the stream holds an entry at k. Same: its fields are the ones sent.
	Found, Same bool
	// TopReached: the stream's top, read in one step with the entry or before it,
	// is k or above.
	TopReached bool
	// Asked: the archive was asked for k, after that look-up. Archived: it holds
	// a record at k. ArchivedSame: with the fields that were sent.
	Asked, Archived, ArchivedSame bool
}

// SettleVerdict is what the writer does with them.
type SettleVerdict uint8

// The verdicts of a settle decision.
const (
	// Committed: the caller is told that the record is in the log.
	Committed SettleVerdict = iota
	// Rejected: the caller is told that it is not and never will be.
	Rejected
	// AskArchive: ask the archive, then decide again.
	AskArchive
	// Resend: send the same id and fields again.
	Resend
)

// DecideSettle is the rule of the protocol, written down here so that the model
// stands on its own. Settle takes any other function in its place.
func DecideSettle(f SettleFacts) SettleVerdict {
	switch {
	case f.Found && f.Same, f.Asked && f.ArchivedSame:
		return Committed
	case f.Found, f.Asked:
		return Rejected
	case f.TopReached:
		return AskArchive
	}
	return Resend
}

// SettleOrder switches the writer of the Settle model to another order. The zero
// value is the right one.
type SettleOrder struct {
	// Decide replaces DecideSettle.
	Decide func(SettleFacts) SettleVerdict
	// TopThenEntry looks the top up first and then the entry, in two steps. It is
	// right too.
	TopThenEntry bool
	// EntryThenTop is the wrong way round.
	EntryThenTop bool
	// ArchiveThenEntry asks the archive before the look-up.
	ArchiveThenEntry bool
	// NewID retries under the next id.
	NewID bool
	// MemoryRejects takes a resend that was refused for lack of memory for a
	// rejection.
	MemoryRejects bool
	// Fence ends the former connection before each look-up, so that nothing sent
	// on it can be executed late.
	Fence bool
}

const (
	// sentID is the id k of the append. One id below it and two above are free.
	sentID = 2
	lastID = 4
	// maxSends is how often the writer sends.
	maxSends = 3
)

// Who wrote an entry.
const (
	nobody = iota
	ours
	theirs
)

// What the writer does next.
const (
	send = iota
	fence
	lookUp
	lookUpSecond
	askAboutIt
	settled
)

// What the caller was told.
const (
	nothing = iota
	toldCommitted
	toldRejected
	toldUncertain
)

// settleState is the whole system. stream and arch hold who wrote each id.
type settleState struct {
	stream, arch [lastID + 1]uint8
	top, w       uint8
	full         bool // out of memory
	turns        uint8
	pc           uint8
	sends        uint8
	// late counts copies that a dead connection may still deliver, by id.
	late [lastID + 1]uint8
	// id is the one sent last.
	id    uint8
	facts SettleFacts
	told  uint8
}

// Settle explores one append by a writer whose connection may break at any time,
// a second writer, an archiver that folds and trims, and a server that runs out
// of memory and recovers.
//
// A command sent on a connection that broke was executed, or is executed at any
// later time, or never. The writer looks its id up on a new connection and
// decides; the caller's deadline may end that at any time with "uncertain".
//
// What holds: when the caller is told "committed" the record is in the log; when
// told "rejected" it is not, and never will be; and it is never there twice.
func Settle(order SettleOrder) Model[settleState] {
	if order.Decide == nil {
		order.Decide = DecideSettle
	}
	return Model[settleState]{
		Init:   []settleState{{id: sentID}},
		Next:   order.next,
		Broken: settleBroken,
		Ended:  func(s settleState) bool { return s.pc == settled },
	}
}

func settleBroken(s settleState) string {
	copies := 0
	for id := range s.stream {
		if s.stream[id] == ours || s.arch[id] == ours {
			copies++
		}
	}
	switch {
	case copies > 1:
		return "doubled: the record is in the log under two ids"
	case s.told == toldCommitted && copies == 0:
		return "lost: the caller was told that the record is committed, and it is not in the log"
	case s.told == toldRejected && copies > 0:
		return "revived: the caller was told that the record is rejected, and it is in the log"
	}
	return ""
}

func (o SettleOrder) next(s settleState, step Step[settleState]) {
	o.others(s, step)
	if s.pc == settled {
		return
	}
	if s.pc != send {
		next := s
		next.tell(toldUncertain)
		step(next, "writer: the deadline has come, tell the caller that it is uncertain")
	}
	switch s.pc {
	case send:
		o.send(s, step)
	case fence:
		s.late = [lastID + 1]uint8{}
		s.pc = lookUp
		step(s, "writer: CLIENT KILL the former connection")
	case lookUp:
		o.lookUp(s, step)
	case lookUpSecond:
		o.lookUpSecond(s, step)
	case askAboutIt:
		s.askArchive()
		o.decide(&s)
		step(s, "writer: the archive has", owners[s.arch[s.id]], "at", s.id)
	}
}

var owners = [...]string{"nothing", "our record", "their record"}

// others offers the steps of everybody else.
func (o SettleOrder) others(s settleState, step Step[settleState]) {
	for id := s.top + 1; id <= lastID; id++ {
		next := s
		next.stream[id], next.top = theirs, id
		step(next, "other writer: append", id)
	}
	for w := s.w + 1; w <= s.top; w++ {
		next := s
		for id := s.w + 1; id <= w; id++ {
			next.arch[id], next.stream[id] = s.stream[id], nobody
		}
		next.w = w
		step(next, "archiver: fold and trim through", w)
	}
	for id, copies := range s.late {
		if copies > 0 {
			next := s
			next.late[id]--
			next.execute(uint8(id))
			step(next, "dead connection: XADD", id, "arrives late")
		}
	}
	if s.turns < 2 {
		next := s
		next.full, next.turns = !s.full, s.turns+1
		step(next, "server: out of memory", next.full)
	}
}

// execute runs XADD id on the server.
func (s *settleState) execute(id uint8) (done bool) {
	if s.full || s.top >= id {
		return false
	}
	s.stream[id], s.top = ours, id
	return true
}

func (s *settleState) tell(what uint8) {
	s.told, s.pc, s.facts = what, settled, SettleFacts{}
}

// doubt is where the writer goes on after a reply was lost.
func (o SettleOrder) doubt(s *settleState) {
	s.facts = SettleFacts{}
	s.pc = lookUp
	if o.Fence {
		s.pc = fence
	}
	if o.NewID && s.id < lastID && s.sends < maxSends {
		s.id, s.pc = s.id+1, send
	}
}

// send offers every way in which an XADD can go.
func (o SettleOrder) send(s settleState, step Step[settleState]) {
	if s.sends == maxSends {
		s.tell(toldUncertain)
		step(s, "writer: give up, tell the caller that it is uncertain")
		return
	}
	again := s.sends > 0
	s.sends++
	next := s
	switch {
	case next.execute(s.id):
		next.tell(toldCommitted)
		step(next, "writer: XADD", s.id, "is answered: committed")
	case !s.full && again:
		o.doubt(&next)
		step(next, "writer: XADD", s.id, "again is answered: equal or smaller")
	case s.full && again && !o.MemoryRejects:
		o.doubt(&next)
		step(next, "writer: XADD", s.id, "again is answered: OOM")
	default:
		// The only copy was refused, or so the writer believes.
		next.tell(toldRejected)
		step(next, "writer: XADD", s.id, "is refused: rejected")
	}
	next = s
	next.execute(s.id)
	o.doubt(&next)
	step(next, "writer: XADD", s.id, "is executed, its reply is lost")
	next = s
	next.late[s.id]++
	o.doubt(&next)
	step(next, "writer: XADD", s.id, "is under way when the connection breaks")
}

// lookUp reads the entry and the top on a new connection, in one step or two.
func (o SettleOrder) lookUp(s settleState, step Step[settleState]) {
	switch {
	case o.ArchiveThenEntry && !s.facts.Asked:
		s.askArchive()
		step(s, "writer: the archive has", owners[s.arch[s.id]], "at", s.id)
	case o.EntryThenTop:
		s.lookAtEntry()
		s.pc = lookUpSecond
		step(s, "writer: the stream has", owners[s.stream[s.id]], "at", s.id)
	case o.TopThenEntry:
		s.facts.TopReached = s.top >= s.id
		s.pc = lookUpSecond
		step(s, "writer: the top is", s.top)
	default:
		s.lookAtEntry()
		s.facts.TopReached = s.top >= s.id
		o.decide(&s)
		step(s, "writer: the stream has", owners[s.stream[s.id]], "at", s.id, "and the top is", s.top)
	}
}

func (o SettleOrder) lookUpSecond(s settleState, step Step[settleState]) {
	if o.EntryThenTop {
		s.facts.TopReached = s.top >= s.id
		o.decide(&s)
		step(s, "writer: the top is", s.top)
		return
	}
	s.lookAtEntry()
	o.decide(&s)
	step(s, "writer: the stream has", owners[s.stream[s.id]], "at", s.id)
}

func (s *settleState) lookAtEntry() {
	s.facts.Found, s.facts.Same = s.stream[s.id] != nobody, s.stream[s.id] == ours
}

func (s *settleState) askArchive() {
	s.facts.Asked = true
	s.facts.Archived, s.facts.ArchivedSame = s.arch[s.id] != nobody, s.arch[s.id] == ours
}

func (o SettleOrder) decide(s *settleState) {
	if !s.facts.TopReached && o.ArchiveThenEntry {
		// Its answer matters only when the id can no longer be appended.
		s.facts.Asked = false
	}
	switch verdict := o.Decide(s.facts); verdict {
	case Committed:
		s.tell(toldCommitted)
	case Rejected:
		s.tell(toldRejected)
	case AskArchive:
		s.pc = askAboutIt
	case Resend:
		s.pc, s.facts = send, SettleFacts{}
	default:
		panic(fmt.Sprintf("explore: settle verdict %d is unknown", verdict))
	}
}
