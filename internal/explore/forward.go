package explore

import (
	"fmt"

	"github.com/evtlog/evtlog/archive"
)

// ForwardOrder switches the reader of the Forward model to a wrong order. The
// zero value is the right one, with the library's own decision.
type ForwardOrder struct {
	// FloorFirst reads the floor before the page.
	FloorFirst bool
	// AskFirst asks for the watermark, which stands in for a lost floor, before
	// the page.
	AskFirst bool
	// JumpAhead reads from a node that is behind and then goes on above the
	// watermark asked for.
	JumpAhead bool
	// ReadAgain reads from a node that is behind and tries the page again.
	ReadAgain bool
	// FloorGoesBack lets the floor go back, as a late SET would make it.
	FloorGoesBack bool
	// NoPin leaves an open window open while it is read.
	NoPin bool
	// Decide replaces archive.DecidePage.
	Decide func(archive.PageFacts) archive.Step
}

// What the reader does next.
const (
	begin = iota
	beforePage
	lookAtFloor
	askArchive
	readArchive
	ended
)

// forwardState is the whole system.
type forwardState struct {
	seam
	pc uint8
	// The window is after < n <= to, read in pages of size.
	after, to, size uint8
	cursor, known   uint8
	// out: everything of the window up to here was yielded.
	out uint8
	// pinned is the newest record there was when an open window was begun, 0 for
	// other windows.
	pinned uint8
	page   run
	proof  proof
	// seen is the top at the last look at the stream.
	seen uint8
	// discarded says that a page was discarded and nothing yielded since.
	discarded bool
	broken    forwardFault
}

type forwardFault uint8

const (
	skipped forwardFault = iota + 1
	twice
	spinning
	short
	endless
)

func (s forwardState) fault() string {
	switch s.broken {
	case skipped:
		return fmt.Sprintf("missed: record %d was passed over", s.out+1)
	case twice:
		return fmt.Sprintf("twice: record %d was yielded again", s.out)
	case spinning:
		return "spinning: a second page was discarded with nothing yielded in between"
	case endless:
		return fmt.Sprintf("endless: record %d was appended after the read began; it goes on as long as the writer does", s.out)
	case short:
		return fmt.Sprintf("missed: the read of (%d, %d] ended behind record %d, and there were %d", s.after, s.to, s.out, s.seen)
	}
	return ""
}

// Forward explores a reader that goes upwards through archive and live stream.
//
// A page is read from the stream and the floor after it. A page above the floor
// is whole; otherwise it is discarded and read from an archive node, which is
// waited for until it has applied the floor.
//
// What holds: the reader yields the records of its window in order, none twice
// and none passed over; when it ends, it has yielded every record that was there
// when it last looked at the stream; and it never discards two pages without
// yielding in between, so it ends although folding never does.
func Forward(order ForwardOrder) Model[forwardState] {
	if order.Decide == nil {
		order.Decide = archive.DecidePage
	}
	return Model[forwardState]{
		Init:   []forwardState{{}},
		Next:   order.next,
		Broken: forwardState.fault,
		Ended:  func(s forwardState) bool { return s.pc == ended },
	}
}

// windows are the windows that are read; 0 is an open end.
var windows = [][2]uint8{{0, 0}, {1, 0}, {0, 2}, {0, seamRecords}, {1, 3}}

func (o ForwardOrder) next(s forwardState, step Step[forwardState]) {
	if s.pc == ended || s.broken != 0 {
		return
	}
	s.seam.next(func(e seam, words ...any) {
		next := s
		next.seam = e
		step(next, words...)
	})
	if o.FloorGoesBack && s.floor > 1 {
		next := s
		next.floor--
		step(next, "dead archiver: its SET of the floor", next.floor, "is executed late")
	}
	o.read(s, step)
}

// read offers the reader's next step.
func (o ForwardOrder) read(s forwardState, step Step[forwardState]) {
	next := s
	switch s.pc {
	case begin:
		for _, window := range windows {
			for _, size := range []uint8{1, 2} {
				o.start(s, window, size, 0, step)
				if s.w > 0 {
					o.start(s, window, size, s.w, step)
				}
			}
		}
	case beforePage:
		o.page(s, step)
	case lookAtFloor:
		next.proof.floor = s.floor
		next.pc = beforePage
		if !o.FloorFirst {
			o.decide(&next)
		}
		step(next, "reader: the floor is", s.floor)
	case askArchive:
		next.proof.watermark, next.proof.asked = s.w, true
		o.decide(&next)
		step(next, "reader: the watermark is", s.w)
	case readArchive:
		o.archive(s, step)
	}
}

// start begins to read a window. A reader that has read before knows a watermark.
func (o ForwardOrder) start(s forwardState, window [2]uint8, size, known uint8, step Step[forwardState]) {
	s.after, s.to, s.size, s.known = window[0], window[1], size, known
	if s.to == 0 {
		s.to, s.pinned = s.top, s.top
		if o.NoPin {
			s.to = seamRecords
		}
	}
	s.cursor, s.out, s.seen = s.after, s.after, s.top
	s.turn()
	step(s, "reader: begin with", s.after, "< n <=", s.to, "in pages of", size, "knowing the watermark", known)
}

// turn begins another round of the loop.
func (s *forwardState) turn() {
	s.page, s.proof = run{}, proof{}
	switch {
	case s.cursor >= s.to:
		s.end()
	case s.cursor < s.known:
		s.pc = readArchive
	default:
		s.pc = beforePage
	}
}

func (s *forwardState) end() {
	s.pc = ended
	if s.out < min(s.to, s.seen) && s.broken == 0 {
		s.broken = short
	}
}

// page reads a page from the stream; the wrong orders look at the proof before.
func (o ForwardOrder) page(s forwardState, step Step[forwardState]) {
	next := s
	switch {
	case o.FloorFirst && s.proof == (proof{}):
		next.proof.floor, next.proof.asked = s.floor, true
		next.proof.watermark = s.w
		step(next, "reader: the floor is", s.floor)
		return
	case o.AskFirst && !s.proof.asked:
		next.proof.watermark, next.proof.asked = s.w, true
		step(next, "reader: the watermark is", s.w)
		return
	}
	next.seen = s.top
	if low := max(s.cursor, s.trimmed) + 1; low <= min(s.top, s.to) {
		next.page = run{low, min(low+s.size-1, s.top, s.to)}
	}
	next.pc = lookAtFloor
	if o.FloorFirst {
		o.decide(&next)
	}
	step(next, "reader: XRANGE gives", next.page)
}

// decide takes the library's decision about the page in hand.
func (o ForwardOrder) decide(s *forwardState) {
	decision := o.Decide(archive.PageFacts{
		Cursor: ids[s.cursor], To: ids[s.to],
		Records: s.page.len(), Asked: int(s.size), Last: ids[s.page.last],
		Proof: s.proof.real(),
	})
	switch decision {
	case archive.AskWatermark:
		s.pc = askArchive
	case archive.ReadArchive:
		if s.discarded {
			s.broken = spinning
		}
		s.discarded = true
		s.known = max(s.known, s.proof.bound())
		s.turn()
	default:
		if s.page.len() > 0 {
			s.yield(s.page)
			s.cursor = s.page.last
		}
		s.turn()
		if decision == archive.YieldLast && s.pc != ended {
			s.end()
		}
	}
}

// yield gives records to the caller.
func (s *forwardState) yield(r run) {
	switch {
	case r.first > s.out+1:
		s.broken = skipped
	case r.first <= s.out:
		s.broken = twice
	default:
		s.out, s.discarded = r.last, false
		if s.pinned > 0 && s.out > s.pinned {
			s.broken = endless
		}
	}
}

// archive reads the archive above the cursor, once the node has applied what is
// known to be there.
func (o ForwardOrder) archive(s forwardState, step Step[forwardState]) {
	behind := s.applied < min(s.known, s.to)
	if behind && !o.JumpAhead && !o.ReadAgain {
		return
	}
	next := s
	if last := min(s.applied, s.to); last > s.cursor {
		next.yield(run{s.cursor + 1, last})
		next.cursor = last
	}
	if o.ReadAgain {
		next.known = next.cursor
	} else {
		next.cursor = max(next.cursor, s.known)
	}
	next.turn()
	step(next, "reader: the archive node gives what it has up to", s.applied)
}
