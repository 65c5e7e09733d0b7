package archiver

import (
	"github.com/evtlog/evtlog/actors/internal/trimline"
	"github.com/evtlog/evtlog/evtid"
)

// view is what one round knows when it decides.
type view struct {
	// w is the archive's watermark.
	w evtid.ID
	// first is the oldest entry, newest the newest, last the last generated id.
	first, newest, last evtid.ID
	// length counts the entries, added those that were ever added, -1 when the
	// server does not tell.
	length, added int64
	// below counts the entries at or below w, 0 when that is not known.
	below int64
}

// regressed reports whether the stream ends below the watermark.
func (v view) regressed() bool { return v.last.Less(v.w) }

// behind is the number of records above the watermark; when below is not known,
// the most that it can be.
func (v view) behind() int64 {
	if !v.w.Less(v.last) {
		return 0
	}
	return max(v.length-v.below, 0)
}

// unarchived returns the oldest and newest record above the watermark that are
// sure to be in the stream, zero when none is.
func (v view) unarchived() (oldest, newest evtid.ID) {
	switch {
	case !v.w.Less(v.newest):
		return evtid.ID{}, evtid.ID{}
	case v.w.Less(v.first):
		return v.first, v.newest
	}
	return v.newest, v.newest
}

// order is what a round is asked to do besides its routine.
type order struct {
	// tick is a full round; without it W is not read anew and nothing is trimmed.
	tick bool
	// trim allows trimming. It needs tick.
	trim bool
	// all folds everything, whatever the dial says; through folds up to an id.
	all     bool
	through evtid.ID
}

// pinned returns the order with "everything" made an id, so that it ends although
// appends go on.
func (o order) pinned(v view) order {
	if o.all {
		o.all, o.through = false, v.last
	}
	return o
}

// headAbove returns the oldest entry as a watch over the records above w should
// see it: as long as an entry at or below w is there, none above was trimmed.
func headAbove(w, first evtid.ID) evtid.ID {
	if first.IsZero() || w.Less(first) {
		return first
	}
	return evtid.ID{}.Next()
}

// target returns the id up to which to fold, or the zero ID when nothing is to
// be folded. line is the newest record that Keep lets go. Whatever is asked for,
// the target is not above the last generated id: a record appended after that
// was read belongs to the next round.
func target(v view, d Dial, o order, line evtid.ID) evtid.ID {
	t := trimline.Older(trimline.Newer(line, o.through), v.last)
	if v.behind() >= d.threshold() {
		t = v.last
	}
	if !v.w.Less(t) {
		return evtid.ID{}
	}
	return t
}

// belowNow returns how many entries lie at or below w, 0 when that is not known.
// below of them did when the watermark was mark, and the trims since then have
// been taken off.
func belowNow(mark, w evtid.ID, below int64, first evtid.ID) int64 {
	if mark != w || w.Less(first) {
		return 0
	}
	return below
}

// belowAfter returns how many entries lie at or below the new watermark w, 0
// when that is not known: folded of them were added to those below before.
func belowAfter(v view, w evtid.ID, folded int64) int64 {
	switch {
	case !w.Less(v.last):
		// All entries that the view counted lie at or below w.
		return v.length
	case v.below > 0 || v.w.Less(v.first):
		return v.below + folded
	}
	return 0
}
