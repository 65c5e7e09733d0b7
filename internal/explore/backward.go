package explore

import (
	"fmt"

	"github.com/evtlog/evtlog/archive"
)

// BackwardOrder switches the reader of the Backward model to a wrong order. The
// zero value is the right one, with the library's own decision.
type BackwardOrder struct {
	// ArchiveFirst takes what the archive has before the stream is read.
	ArchiveFirst bool
	// FloorFirst reads the floor before the stream.
	FloorFirst bool
	// NoWait reads from a node whether or not it has applied the floor.
	NoWait bool
	// ShortEnds ends the read at a short page.
	ShortEnds bool
	// Decide replaces archive.DecideBelow.
	Decide func(archive.BelowFacts) archive.Step
}

// backwardState is the whole system.
type backwardState struct {
	seam
	pc uint8
	// The window is after < n <= to, read in pages of size.
	after, to, size uint8
	// high: nothing above it is left to do. known is the watermark in hand.
	high, known uint8
	proof       proof
	// held is how far the archive reached when ArchiveFirst read it.
	held uint8
	// looked: the stream was read; seen is the top at that first moment.
	looked bool
	seen   uint8
	// begun: something was yielded, so that next is the record that must follow.
	begun  bool
	next   uint8
	broken backwardFault
}

type backwardFault uint8

const (
	backSkipped backwardFault = iota + 1
	backTwice
	backShort
)

func (s backwardState) fault() string {
	switch s.broken {
	case backSkipped:
		return fmt.Sprintf("missed: record %d was passed over", s.next)
	case backTwice:
		return fmt.Sprintf("twice: a record above %d came again", s.next)
	case backShort:
		return fmt.Sprintf("missed: the read of (%d, %d] ended with record %d to come", s.after, s.to, s.next)
	}
	return ""
}

// Backward explores a reader that goes downwards: pages of the stream until one
// is short, then the floor, then an archive node that has applied that floor.
//
// What holds: the reader yields the records of its window in order, none twice
// and none passed over, down to the first of the window; and it begins with the
// newest record there was at its first page, or with a newer one of the window.
func Backward(order BackwardOrder) Model[backwardState] {
	if order.Decide == nil {
		order.Decide = archive.DecideBelow
	}
	return Model[backwardState]{
		Init:   []backwardState{{}},
		Next:   order.step,
		Broken: backwardState.fault,
		Ended:  func(s backwardState) bool { return s.pc == ended },
	}
}

func (o BackwardOrder) step(s backwardState, step Step[backwardState]) {
	if s.pc == ended || s.broken != 0 {
		return
	}
	s.seam.next(func(e seam, words ...any) {
		next := s
		next.seam = e
		step(next, words...)
	})
	next := s
	switch s.pc {
	case begin:
		o.begin(s, step)
	case beforePage:
		o.page(s, step)
	case lookAtFloor:
		next.proof.floor = s.floor
		if o.FloorFirst && !s.looked {
			next.pc = beforePage
		} else {
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

// begin offers every window, to a reader that knows a watermark and to one that
// does not.
func (o BackwardOrder) begin(s backwardState, step Step[backwardState]) {
	for _, window := range windows {
		for _, known := range []uint8{0, s.w} {
			for _, size := range []uint8{1, 2} {
				next := s
				next.after, next.to, next.size, next.known = window[0], window[1], size, known
				if next.to == 0 {
					next.to = s.top
				}
				next.high = next.to
				next.pc = beforePage
				switch {
				case next.after >= next.to:
					next.pc = ended
				case known >= next.to:
					next.pc, next.seen = readArchive, s.top
				case o.FloorFirst:
					next.pc = lookAtFloor
				case o.ArchiveFirst:
					next.held = s.w
				}
				step(next, "reader: begin with", next.after, "< n <=", next.to, "in pages of", size, "knowing the watermark", known)
			}
		}
	}
}

// page reads a page of the stream, downwards from high.
func (o BackwardOrder) page(s backwardState, step Step[backwardState]) {
	if !s.looked {
		s.looked, s.seen = true, s.top
	}
	var page run
	if low, high := max(s.after, s.trimmed)+1, min(s.high, s.top); low <= high {
		page = run{high, max(low, high-min(high, s.size)+1)}
		s.yield(page)
		s.high = page.last - 1
	}
	switch {
	case s.high <= s.after:
		s.end()
	case page.len() < int(s.size) && o.ShortEnds:
		s.end()
	case page.len() < int(s.size) && o.ArchiveFirst:
		s.pc = readArchive
	case page.len() < int(s.size) && o.FloorFirst:
		o.decide(&s)
	case page.len() < int(s.size):
		s.pc = lookAtFloor
	}
	step(s, "reader: XREVRANGE gives", page)
}

// decide takes the library's decision about what lies below the stream.
func (o BackwardOrder) decide(s *backwardState) {
	switch o.Decide(archive.BelowFacts{After: ids[s.after], High: ids[s.high], Proof: s.proof.real()}) {
	case archive.AskWatermark:
		s.pc = askArchive
	case archive.ReadArchive:
		s.known = max(s.known, s.proof.bound())
		s.pc = readArchive
	default:
		s.end()
	}
}

// archive reads the archive below the stream, once the node has applied what is
// known to be there.
func (o BackwardOrder) archive(s backwardState, step Step[backwardState]) {
	reaches := s.applied
	if o.ArchiveFirst && s.looked {
		reaches = s.held
	} else if s.applied < min(s.known, s.high) && !o.NoWait {
		return
	}
	if high := min(reaches, s.high); high > s.after {
		s.yield(run{high, s.after + 1})
	}
	s.end()
	step(s, "reader: the archive node gives what it has, up to", reaches)
}

// expect makes next the record that must come next. The first of all is the
// newest of the window at the first look, or newer when the stream showed none.
func (s *backwardState) expect(newest uint8) {
	if !s.begun {
		s.next = max(newest, min(s.to, s.seen))
	}
}

// yield gives records to the caller, newest first.
func (s *backwardState) yield(r run) {
	s.expect(r.first)
	switch {
	case r.first < s.next:
		s.broken = backSkipped
	case r.first > s.next:
		s.broken = backTwice
	default:
		s.begun, s.next = true, r.last-1
	}
}

func (s *backwardState) end() {
	s.pc = ended
	s.expect(0)
	if s.next > s.after && s.broken == 0 {
		s.broken = backShort
	}
}
