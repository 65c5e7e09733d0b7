package explore

import (
	"cmp"
	"fmt"
)

// FoldOrder switches the archiver of the Fold model to a wrong order. The zero
// value is the right one.
type FoldOrder struct {
	// TrimByCount trims by a length computed from the one read with the page.
	TrimByCount bool
	// TrimFirst trims what it has read before the archive has it.
	TrimFirst bool
	// IgnoreRefusal goes on to trim when the archive refused the fold.
	IgnoreRefusal bool
	// NoCompare folds whatever the archive's watermark is.
	NoCompare bool
	// ClockTarget trims up to a bound that was taken from the clock and not from
	// the stream.
	ClockTarget bool
	// PlainFloor publishes the floor with a SET, which a dead connection may
	// execute late.
	PlainFloor bool
	// FloorAfterTrim trims before it has published how far.
	FloorAfterTrim bool
}

// foldRecords is how many records the writer appends, numbered from 1.
const foldRecords = 3

// set is a set of record numbers.
type set uint16

func span(after, to uint8) set { return set(1)<<(to+1) - set(1)<<(min(after, to)+1) }

func (s set) max() (n uint8) {
	for k := uint8(1); k < 16; k++ {
		if s>>k&1 == 1 {
			n = k
		}
	}
	return n
}

func (s set) count() (n uint8) {
	for ; s > 0; s &= s - 1 {
		n++
	}
	return n
}

// least returns the n smallest members.
func (s set) least(n uint8) (low set) {
	for k := uint8(0); k < 16 && n > 0; k++ {
		if s>>k&1 == 1 {
			low |= 1 << k
			n--
		}
	}
	return low
}

func (s set) String() string {
	out := "{"
	for k := range 16 {
		if s>>k&1 == 1 {
			out += fmt.Sprint(" ", k)
		}
	}
	return out + " }"
}

// What an archiver does next.
const (
	readWatermark = iota
	chooseTarget
	readPage
	fold
	publishFloor
	trim
)

var (
	foldSteps = [...]string{fold: "fold", publishFloor: "publish the floor", trim: "XTRIM"}
	archivers = [...]string{"archiver 1:", "archiver 2:"}
	outcomes  = map[bool]string{true: "", false: "refused"}
)

// archiver is one of the two archivers.
type archiver struct {
	pc uint8
	// w is the watermark in hand, target what it wants to fold up to.
	w, target uint8
	page      set
	// keep is the length that TrimByCount leaves.
	keep uint8
}

// command is one that a dead connection has sent and the server may still
// execute: fold, publishFloor or trim.
type command struct {
	kind, through, keep, prev uint8
	page                      set
}

// foldState is the whole system.
type foldState struct {
	top     uint8
	live    set
	trimmed uint8 // highest id that left the stream
	arch    set
	twice   set // archived more than once
	w       uint8
	floor   uint8
	a       [2]archiver
	late    [2]command
}

// Fold explores two archivers and a writer.
//
// Each archiver reads the watermark W from the archive, chooses a target among
// the ids it sees in the stream, reads (W, target], folds it with a
// compare-and-set on W, publishes the new W as the floor, which never goes back,
// and only then trims through min(W, target). It may crash between any two
// steps, with the next command lost, or executed at any later time.
//
// What holds: every appended record is in the stream or in the archive; none is
// archived twice, and none is passed over; no trim has gone beyond the floor, and
// the floor is not beyond what is archived.
func Fold(order FoldOrder) Model[foldState] {
	return Model[foldState]{
		Init:   []foldState{{}},
		Next:   order.next,
		Broken: order.broken,
		Ended:  func(foldState) bool { return true },
	}
}

func (o FoldOrder) broken(s foldState) string {
	all, held := span(0, s.top), s.live|s.arch
	if o.TrimFirst {
		// Show how it is lost for good, not only that it is on the way.
		held |= s.a[0].page | s.a[1].page
	}
	switch {
	case held&all != all:
		return fmt.Sprintf("lost: of %s, %s is in the stream and %s in the archive", all, s.live, s.arch)
	case s.twice != 0:
		return fmt.Sprintf("archived twice: %s", s.twice)
	case s.arch != span(0, s.w):
		return fmt.Sprintf("passed over: the watermark is %d but the archive holds %s", s.w, s.arch)
	case s.floor < s.trimmed && !o.TrimFirst:
		return fmt.Sprintf("unproved: the stream was trimmed through %d but the floor is %d, so readers pass over records", s.trimmed, s.floor)
	case s.floor > s.w && !o.IgnoreRefusal:
		return fmt.Sprintf("the floor is %d but the watermark is %d", s.floor, s.w)
	}
	return ""
}

func (o FoldOrder) next(s foldState, offer Step[foldState]) {
	step := func(next foldState, words ...any) {
		o.tidy(&next)
		offer(next, words...)
	}
	if s.top < foldRecords {
		next := s
		next.top++
		next.live |= 1 << next.top
		step(next, "writer: append", next.top)
	}
	for i := range s.a {
		o.archive(s, i, step)
		o.crash(s, i, step)
	}
	for i, c := range s.late {
		if c != (command{}) {
			next := s
			next.late[i] = command{}
			o.execute(&next, c)
			step(next, "late:", foldSteps[c.kind], c)
		}
	}
}

// archive offers the next step of archiver i.
func (o FoldOrder) archive(s foldState, i int, step Step[foldState]) {
	next := s
	a := &next.a[i]
	switch a.pc {
	case readWatermark:
		*a = archiver{pc: chooseTarget, w: s.w}
		step(next, archivers[i], "read the watermark", s.w)
	case chooseTarget:
		o.choose(s, i, step)
	case readPage:
		o.read(s, i, step)
	default:
		c := o.command(*a)
		done := o.execute(&next, c)
		o.advance(a, done)
		step(next, archivers[i], foldSteps[c.kind], c, outcomes[done])
	}
}

// choose offers every target there is. With nothing above the watermark the
// archiver makes sure that floor and trim were done, as it does at its start.
func (o FoldOrder) choose(s foldState, i int, step Step[foldState]) {
	above := s.live &^ span(0, s.a[i].w)
	if o.ClockTarget && above != 0 {
		above = 1 << foldRecords
	}
	for target := uint8(1); target <= foldRecords; target++ {
		if above>>target&1 == 1 {
			next := s
			next.a[i].pc, next.a[i].target = readPage, target
			step(next, archivers[i], "choose target", target)
		}
	}
	if above == 0 && s.a[i].w > 0 && !o.TrimByCount {
		next := s
		next.a[i].pc, next.a[i].target = publishFloor, s.a[i].w
		step(next, archivers[i], "nothing to fold, see to the floor")
	}
}

// read offers a page of one record and one of all of them.
func (o FoldOrder) read(s foldState, i int, step Step[foldState]) {
	inRange := s.live & span(s.a[i].w, s.a[i].target)
	for _, page := range []set{inRange.least(1), inRange} {
		next := s
		a := &next.a[i]
		a.page, a.pc = page, fold
		switch {
		case page == 0:
			*a = archiver{}
		case o.TrimFirst:
			a.w, a.target, a.pc = page.max(), page.max(), trim
		case o.TrimByCount:
			a.keep = s.live.count() - page.count()
		}
		step(next, archivers[i], "XRANGE gives", page)
	}
}

// command is what archiver a sends next.
func (o FoldOrder) command(a archiver) command {
	switch a.pc {
	case fold:
		c := command{kind: fold, prev: a.w, page: a.page}
		if o.TrimFirst {
			c.prev = a.page.least(1).max() - 1
		}
		return c
	case publishFloor:
		return command{kind: publishFloor, through: a.w}
	}
	c := command{kind: trim, through: min(a.w, a.target)}
	if o.ClockTarget {
		c.through = a.target
	}
	if o.TrimByCount {
		c.keep = a.keep + 1
	}
	return c
}

func (c command) String() string {
	switch {
	case c.kind == fold:
		return fmt.Sprintf("%s on %d", c.page, c.prev)
	case c.keep > 0:
		return fmt.Sprintf("MAXLEN %d", c.keep-1)
	}
	return fmt.Sprintf("through %d", c.through)
}

// execute runs a command on the server or the archive. done is false when a
// fold was refused.
func (o FoldOrder) execute(s *foldState, c command) (done bool) {
	switch c.kind {
	case fold:
		if s.w != c.prev && !o.NoCompare {
			return false
		}
		s.twice |= s.arch & c.page
		s.arch |= c.page
		s.w = max(s.w, c.page.max())
	case publishFloor:
		if s.floor < c.through || o.PlainFloor {
			s.floor = c.through
		}
	case trim:
		gone := s.live & span(0, c.through)
		if c.keep > 0 {
			gone = s.live.least(max(s.live.count(), c.keep-1) - (c.keep - 1))
		}
		s.live &^= gone
		s.trimmed = max(s.trimmed, gone.max())
	}
	return true
}

// advance moves an archiver on after its command.
func (o FoldOrder) advance(a *archiver, done bool) {
	switch {
	case a.pc == fold && !done && !o.IgnoreRefusal:
		*a = archiver{}
	case a.pc == fold:
		a.w, a.pc = a.page.max(), publishFloor
		if o.FloorAfterTrim {
			a.pc = trim
		}
	case o.TrimFirst && a.pc == trim:
		a.pc = fold
	case a.pc == publishFloor && !o.FloorAfterTrim && !o.TrimFirst:
		a.pc = trim
	case a.pc == trim && o.FloorAfterTrim:
		a.pc = publishFloor
	default:
		*a = archiver{}
	}
}

// crash offers the ways in which archiver i can die: its next command is lost,
// or it was sent and is executed at any later time.
func (o FoldOrder) crash(s foldState, i int, step Step[foldState]) {
	if s.a[i].pc < fold {
		return
	}
	next := s
	next.a[i] = archiver{}
	step(next, archivers[i], "crash before", foldSteps[s.a[i].pc])
	for slot, c := range s.late {
		if c == (command{}) {
			next.late[slot] = o.command(s.a[i])
			step(next, archivers[i], "crash with a command under way:", foldSteps[s.a[i].pc])
			return
		}
	}
}

// tidy makes states equal that differ only in late commands which can do nothing
// any more, or in their order.
func (o FoldOrder) tidy(s *foldState) {
	for i, c := range s.late {
		switch {
		case c.kind == fold && !o.NoCompare && c.prev < s.w,
			c.kind == publishFloor && !o.PlainFloor && c.through <= s.floor,
			c.kind == trim && c.keep == 0 && c.through <= s.trimmed:
			s.late[i] = command{}
		}
	}
	if s.late[0].less(s.late[1]) {
		s.late[0], s.late[1] = s.late[1], s.late[0]
	}
}

func (c command) less(d command) bool {
	return cmp.Or(cmp.Compare(c.kind, d.kind), cmp.Compare(c.through, d.through), cmp.Compare(c.keep, d.keep), cmp.Compare(c.prev, d.prev), cmp.Compare(c.page, d.page)) < 0
}
