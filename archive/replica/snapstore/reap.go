package snapstore

import "slices"

// entry is what the decisions below know of one stored snapshot.
type entry struct {
	name        string
	index, term uint64
	// own: this node took it, so it had the content when it was written.
	own bool
	// covered: the node holds everything the manifest names, now.
	covered bool
}

// newestFirst orders snapshots as raft wants to see them.
func newestFirst(entries []entry) {
	slices.SortFunc(entries, func(a, b entry) int {
		switch {
		case a.index != b.index && a.index > b.index, a.index == b.index && a.term > b.term:
			return -1
		case a.index == b.index && a.term == b.term:
			// The name ends in the time of creation.
			if a.name > b.name {
				return -1
			}
			return 1
		}
		return 1
	})
}

// reapable returns the snapshots that may be deleted. Kept are: the one just
// written, which raft opens next, be it older than another (a new leader may have
// an older one to send than the leader before it); the newest retain of the node's
// own; the newest covered one of any kind; and the newest pending one while it is
// above everything covered.
func reapable(entries []entry, retain int, written string) []entry {
	sorted := slices.Clone(entries)
	newestFirst(sorted)
	var out []entry
	own, sawCovered, sawPending := 0, false, false
	for _, e := range sorted {
		keep := e.name == written
		if e.own && own < retain {
			own++
			keep = true
		}
		if e.covered && !sawCovered {
			sawCovered = true
			keep = true
		}
		if !e.covered && !sawPending && !sawCovered {
			sawPending = true
			keep = true
		}
		if !keep {
			out = append(out, e)
		}
	}
	return out
}
