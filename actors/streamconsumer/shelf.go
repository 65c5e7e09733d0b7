package streamconsumer

import (
	"slices"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

const (
	// shelfRecords and shelfBytes bound what one read of the archive brings. A read
	// costs a round trip or two over the network, whatever it brings.
	shelfRecords = 1000
	shelfBytes   = 1 << 20
	// shelfGap is how far apart, in milliseconds, two ranges may lie that one read
	// covers.
	shelfGap = 1000
)

// shelf is what was read of the archive and not handed out yet: all its records
// with after < id <= to.
type shelf struct {
	after, to evtid.ID
	records   []evtlog.Record
}

// covers reports whether the records behind a position are on the shelf.
func (s *shelf) covers(after evtid.ID) bool { return !after.Less(s.after) && after.Less(s.to) }

// take returns up to n records of a range whose beginning is covered, and up to
// where they are all of it. What lies before the range goes off the shelf.
func (s *shelf) take(rg redislog.SkippedRange, n int) (records []evtlog.Record, end evtid.ID) {
	first := slices.IndexFunc(s.records, func(rec evtlog.Record) bool { return rg.After.Less(rec.ID) })
	if first < 0 {
		first = len(s.records)
	}
	s.after, s.records = rg.After, s.records[first:]
	for _, rec := range s.records {
		if rg.To.Less(rec.ID) {
			break
		}
		if records = append(records, rec); len(records) == n {
			return records, rec.ID
		}
	}
	if end = rg.To; s.to.Less(end) {
		end = s.to
	}
	return records, end
}

// reach returns up to where one read may go that begins with the first of these
// ranges, which are in order: over those that follow closely.
func reach(open []redislog.SkippedRange) evtid.ID {
	to := open[0].To
	for _, rg := range open[1:] {
		if rg.After.UnixMilli()-to.UnixMilli() > shelfGap {
			break
		}
		if to.Less(rg.To) {
			to = rg.To
		}
	}
	return to
}
