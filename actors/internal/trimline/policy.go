package trimline

import (
	"errors"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

// NodeEntries is what an approximate policy may leave over: entries are trimmed
// only once so many are due. It is Redis's default number of entries in one
// node of a stream, which is what XTRIM's own approximation leaves.
const NodeEntries = 100

// maxWalk bounds how many records one step walks over from the oldest end, so
// that a long backlog is worked off in steps that each free memory.
const maxWalk = 1 << 16

// Slack returns how many records must be due before the policy trims.
func Slack(keep evtlog.Keep) int64 {
	if keep.Exact {
		return 1
	}
	return NodeEntries
}

type way uint8

const (
	// nothing is due.
	nothing way = iota
	// fromHead: the n oldest records may go.
	fromHead
	// fromTop: the n newest records stay.
	fromTop
	// byTime: what is at or below bound may go.
	byTime
)

// step is how the newest record that may go is to be found.
type step struct {
	way   way
	n     int64
	bound evtid.ID
	// more is true when the step does not go all the way.
	more bool
}

// facts are what a policy is applied to.
type facts struct {
	now    time.Time
	length int64
	// foreign is true when the stream holds entries that cannot be walked over.
	foreign bool
	slack   int64
}

// decide turns a policy into a step.
//
// A count is turned into an id in the cheaper of two ways: over the entries that
// are due, from the oldest end, or over the entries that stay, from the newest.
// Neither can be misled by an append in between: the id it ends at was seen, and
// appends only add records above it.
func decide(keep evtlog.Keep, f facts) (step, error) {
	if keep.Last > 0 {
		return byCount(keep.Last, f), nil
	}
	from, ok := oldestKept(keep, f.now)
	if !ok {
		return step{}, nil
	}
	floor, err := evtid.Floor(from)
	if errors.Is(err, evtid.ErrBeforeUnixEpoch) {
		return step{}, nil
	}
	if err != nil {
		return step{}, err
	}
	if bound := floor.Before(); !bound.IsZero() {
		return step{way: byTime, bound: bound}, nil
	}
	return step{}, nil
}

func byCount(keep int64, f facts) step {
	due := f.length - keep
	switch {
	case due < f.slack:
		return step{}
	case f.foreign || keep < due:
		return step{way: fromTop, n: keep}
	}
	return step{way: fromHead, n: min(due, maxWalk), more: due > maxWalk}
}

// oldestKept returns the instant whose millisecond is the first that a policy by
// time keeps.
func oldestKept(keep evtlog.Keep, now time.Time) (time.Time, bool) {
	switch {
	case keep.For > 0:
		return now.Add(-keep.For), true
	case !keep.Since.IsZero():
		return keep.Since, true
	}
	return time.Time{}, false
}

// confirmed reports whether at least keep entries lie above the last of walked
// entries. length was read after the walk. Whatever else may have been trimmed
// meanwhile, at most the walked entries lie at or below the last of them.
func confirmed(keep, walked, length int64) bool { return length-walked >= keep }

// Holds reports whether a policy allows the loss, given the number of entries
// that are left. It is how a trim by somebody else under the same policy is told
// from records that are really missing.
func Holds(keep evtlog.Keep, now time.Time, l Loss, length int64) bool {
	if keep.Last > 0 {
		return !l.Top && length >= keep.Last
	}
	from, ok := oldestKept(keep, now)
	return ok && l.Known.UnixMilli() < from.UnixMilli()
}
