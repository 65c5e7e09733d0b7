package archiver

import (
	"iter"

	"github.com/evtlog/evtlog"
)

const (
	// maxRecords is the most records read at once, and so folded at once.
	maxRecords = 1000
	// firstRecords is the size of the first page, before anything is known of
	// how large records are.
	firstRecords = 64
	// maxBytes bounds the records of one fold as an archive stores them: 512 KiB,
	// less what surrounds the records of a commit.
	maxBytes = 512<<10 - 1<<10
	// roundRecords bounds what one round folds before it seals and trims, so
	// that a long backlog frees memory as it goes.
	roundRecords = 64 << 10

	// recordBytes and fieldBytes are what a stored record and field cost at most
	// besides names and values.
	recordBytes = 64
	fieldBytes  = 10
)

// stored is the most bytes that a record takes in an archive.
func stored(r evtlog.Record) int {
	return recordBytes + fieldBytes*len(r.Fields) + evtlog.Size(r.Fields)
}

// chunks cuts a page into folds of at most limit bytes. A larger record is a
// fold of its own.
func chunks(page []evtlog.Record, limit int) iter.Seq[[]evtlog.Record] {
	return func(yield func([]evtlog.Record) bool) {
		for len(page) > 0 {
			n := fitting(page, limit)
			if !yield(page[:n]) {
				return
			}
			page = page[n:]
		}
	}
}

func fitting(page []evtlog.Record, limit int) int {
	bytes := 0
	for i, r := range page {
		if bytes += stored(r); bytes > limit && i > 0 {
			return i
		}
	}
	return len(page)
}

// nextCount returns how many records to read next, after a page that was asked
// for count: as many as make about one fold, judged by the size of that page,
// and at most four times as many as before.
func nextCount(count int, page []evtlog.Record) int {
	if len(page) == 0 {
		return count
	}
	bytes := 0
	for _, r := range page {
		bytes += stored(r)
	}
	return max(1, min(maxBytes*len(page)/bytes, 4*count, maxRecords))
}
