package streamconsumer

import "github.com/evtlog/evtlog/evtid"

// listed is one entry of the own pending list, before it is read.
type listed struct {
	id       evtid.ID // zero when foreign
	raw      string   // entry id of a foreign entry
	attempts int      // deliveries so far
	waiting  bool     // its back-off is not over
}

// run is a stretch of the own pending list that one read fetches.
type run struct {
	after evtid.ID // exclusive
	n     int      // entries
	first int      // index of the first in the page
}

// alone reports whether an entry is to be read and offered by itself. Reading
// counts as a delivery for every entry of the page, also for those whose turn
// never comes because an earlier one ends the process. One such blame does no
// harm; with more, the healthy neighbours of a deadly entry would run out of
// attempts together with it. So an entry may share a read while that cannot
// use up its last attempt, and only for its first redelivery.
func alone(attempts, max int) bool {
	return attempts >= 2 || max > 0 && attempts+1 >= max
}

// planPage cuts a page of the own pending list, in order, into reads. after is
// the exclusive lower bound the page was listed with. Entries that wait for
// their back-off are left out, because reading them would count.
func planPage(after evtid.ID, page []listed, max int) []run {
	var runs []run
	open := false // the last run may be extended
	for i, e := range page {
		single := alone(e.attempts, max)
		switch {
		case e.waiting:
			open = false
		case open && !single:
			runs[len(runs)-1].n++
		default:
			runs = append(runs, run{after: after, n: 1, first: i})
			open = !single
		}
		if !e.id.IsZero() {
			after = e.id
		}
	}
	return runs
}

// lastOf returns the highest id of a page, zero when it holds foreign entries
// only.
func lastOf(page []listed) evtid.ID {
	for i := len(page) - 1; i >= 0; i-- {
		if id := page[i].id; !id.IsZero() {
			return id
		}
	}
	return evtid.ID{}
}

// batchCount returns how many new entries to read at once. With a single
// attempt per entry a shared read could not tell after a crash whose it was.
func batchCount(count, maxDeliveries int) int {
	if maxDeliveries == 1 {
		return 1
	}
	return count
}
