package archiver

import "github.com/evtlog/evtlog/evtid"

// ledger counts the entries that were added up to the watermark: by the server
// when they were compared last, and by the folds since then. When the server has
// counted more, the difference left the stream without a fold. It is how a gap of
// records that no look has seen is noticed. The zero ledger knows nothing.
type ledger struct {
	// known is true when added is the number of entries at or below through.
	known   bool
	through evtid.ID
	added   int64
	// sure is the watermark of the last comparison: up to there nothing is missing
	// that was not reported.
	sure evtid.ID
}

// folded takes in a fold of (prev, w] with n records. A fold by somebody else,
// of which the number is unknown, shows by its end.
func (l *ledger) folded(prev, w evtid.ID, n int) {
	l.known = l.known && l.through == prev
	l.through, l.added = w, l.added+int64(n)
}

// compare returns the number of records missing at or below the watermark or next
// to it, zero when none is or it cannot be told, and the ledger from now on.
func (l ledger) compare(v view) (missing int64, next ledger) {
	added, ok := v.counted()
	if !ok {
		return 0, l
	}
	if l.known && l.through == v.w {
		missing = max(added-l.added, 0)
	}
	return missing, ledger{known: true, through: v.w, added: added, sure: v.w}
}

// counted returns how many entries were added before the oldest one that is above
// the watermark now. ok is false when that cannot be told: the server does not
// count, or somewhere in the stream the watermark is passed.
func (v view) counted() (n int64, ok bool) {
	switch {
	case v.added < 0:
		return 0, false
	case v.w == v.last:
		return v.added, true
	case v.length == 0, v.w.Less(v.first):
		return v.added - v.length, true
	}
	return 0, false
}

// gap returns the range in which the missing records were. A trim takes the oldest;
// when none of those can be missing, single ones were deleted somewhere.
func (l ledger) gap(v view) (after, to evtid.ID) {
	if to = v.first.Prev(); v.length > 0 && l.sure.Less(to) {
		return l.sure, to
	}
	return l.sure, v.last
}
