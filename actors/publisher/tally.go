package publisher

import (
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// uncounted: the server does not tell the count, or was not asked yet.
const uncounted = -1

// tally compares two looks at the server's count of entries ever added.
type tally struct {
	// Before and Added are the counts of the last look and of this one, or
	// uncounted.
	Before, Added int64
	// Since are the appends that were committed between the looks, Open those
	// that were on their way at the last one and may have been in its count.
	Since, Open int64
}

// remade reports whether the stream was deleted between the looks: its count is
// below what it must have reached.
func (t tally) remade() bool {
	return t.Before != uncounted && t.Added != uncounted && t.Added < t.Before+max(0, t.Since-t.Open)
}

// trimmedBy returns up to where records have left a stream.
func trimmedBy(now redislog.StreamInfo) evtid.ID {
	if now.First.IsZero() {
		return now.Last
	}
	return now.First.Prev()
}

// gone returns the range of records that went with a stream that was deleted:
// those up to known which are above mark, up to which they are archived or were
// trimmed, and which are older than what is live. It is empty when after is not
// below to.
func gone(mark, known evtid.ID, now redislog.StreamInfo) (after, to evtid.ID) {
	to = known
	if !now.First.IsZero() && now.First.Prev().Less(to) {
		to = now.First.Prev()
	}
	return mark, to
}
