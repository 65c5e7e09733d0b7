package explore

import (
	"fmt"

	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
)

// seamRecords is how many records there are in the models of reading.
const seamRecords = 3

// ids maps a record's number to its id; 0 is the zero ID.
var ids = func() (t [seamRecords + 2]evtid.ID) {
	for n := range len(t) - 1 {
		// A small snowflake is in range.
		t[n+1], _ = evtid.FromSnowflake(uint64(n))
	}
	return t
}()

// number is the inverse of ids.
func number(id evtid.ID) uint8 {
	for n := range ids {
		if ids[n] == id {
			return uint8(n)
		}
	}
	return 0
}

// seam is the stream and the archive around a reader, moved by writer, archivers
// and followers that keep the promises of the Fold model in every way there is:
// the records trimmed < n <= top are in the stream, those up to w in the archive.
type seam struct {
	top, w, trimmed uint8
	// floor is what the stream's floor says, 0 when there is none.
	floor uint8
	// applied is how far the archive node that is read from has come.
	applied uint8
	// lost says that the floor key was lost once.
	lost bool
}

// next offers every step of everybody but the reader.
func (e seam) next(step func(e seam, words ...any)) {
	if e.top < seamRecords {
		next := e
		next.top++
		step(next, "writer: append", next.top)
	}
	for w := e.w + 1; w <= e.top; w++ {
		next := e
		next.w = w
		step(next, "archiver: fold through", w)
	}
	for applied := e.applied + 1; applied <= e.w; applied++ {
		next := e
		next.applied = applied
		step(next, "archive node: apply through", applied)
	}
	// Once the floor was lost, a late command of a dead archiver could publish one
	// that is too low; that much is not promised.
	for floor := max(e.floor+1, e.trimmed); floor <= e.w; floor++ {
		next := e
		next.floor = floor
		step(next, "archiver: publish the floor", floor)
	}
	for trimmed := e.trimmed + 1; trimmed <= e.floor; trimmed++ {
		next := e
		next.trimmed = trimmed
		step(next, "archiver: XTRIM through", trimmed)
	}
	if e.floor > 0 && !e.lost {
		next := e
		next.floor, next.lost = 0, true
		step(next, "somebody: DEL the floor")
	}
}

// proof is archive.Proof in record numbers.
type proof struct {
	floor, watermark uint8
	asked            bool
}

func (p proof) real() archive.Proof {
	return archive.Proof{Floor: ids[p.floor], Watermark: ids[p.watermark], Asked: p.asked}
}

func (p proof) bound() uint8 {
	bound, _ := p.real().Bound()
	return number(bound)
}

// run is the records first..last, in either direction; first is 0 when there
// are none.
type run struct{ first, last uint8 }

func (r run) String() string {
	switch {
	case r.first == 0:
		return "nothing"
	case r.first == r.last:
		return fmt.Sprint(r.first)
	}
	return fmt.Sprintf("%d to %d", r.first, r.last)
}

func (r run) len() int {
	switch {
	case r.first == 0:
		return 0
	case r.first > r.last:
		return int(r.first-r.last) + 1
	}
	return int(r.last-r.first) + 1
}
