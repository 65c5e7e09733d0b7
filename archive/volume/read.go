package volume

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"sync"

	"go.etcd.io/bbolt"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
)

// A read copies a chunk of pages out of the file and lets go of the transaction
// before it hands out the first record, so that a slow reader never keeps the
// file from growing. The first chunk is small, for short windows.
const (
	firstChunk    = 128
	maxChunk      = 512
	maxChunkBytes = 256 << 10
)

// Records that were read together share their memory. That spares two
// allocations for each, and bounds what one record that is kept for long keeps.
const (
	groupRecords = 32
	groupBytes   = 16 << 10
)

// Read implements archive.Archive. It sees the volume as it was when the read
// began, however many folds happen meanwhile. With AtLeast it waits until the
// volume has that watermark; when the context ends first, the error wraps
// archive.ErrBehind. Damage met on the way is a *CorruptError after the records
// before it. A volume that is set aside in the middle is archive.ErrBehind.
//
// Neighbouring records share memory, at most 32 of them or 16 KiB: copy one that
// is kept for long.
func (s *Store) Read(ctx context.Context, stream evtlog.StreamName, r archive.Range) iter.Seq2[evtlog.Record, error] {
	return func(yield func(evtlog.Record, error) bool) {
		if err := s.reach(ctx, stream, r.AtLeast); err != nil {
			yield(evtlog.Record{}, err)
			return
		}
		rd := readers.Get().(*reader)
		*rd = reader{Range: r, stream: stream, size: firstChunk, buf: rd.buf, ends: rd.ends}
		defer rd.free()
		for !rd.ended {
			rd.buf, rd.ends = rd.buf[:0], rd.ends[:0]
			err := s.ready(ctx, stream)
			if err == nil {
				err = s.viewVolume(stream, rd.fill)
			}
			if !rd.yield(yield) {
				return
			}
			if err != nil {
				yield(evtlog.Record{}, err)
				return
			}
		}
	}
}

// reach waits until the watermark of a volume is at least id.
func (s *Store) reach(ctx context.Context, stream evtlog.StreamName, id evtid.ID) error {
	if id.IsZero() {
		return nil
	}
	for {
		next := s.changed.next()
		w, err := s.Watermark(ctx, stream)
		if err == nil && !w.Less(id) {
			return nil
		}
		if err == nil {
			select {
			case <-next:
				continue
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		if ctx.Err() != nil {
			return fmt.Errorf("volume: %s: %w: its watermark is %q, %q was asked for: %w", stream, archive.ErrBehind, w, id, err)
		}
		return err
	}
}

// readers holds the memory of chunks between reads.
var readers = sync.Pool{New: func() any { return new(reader) }}

// reader reads one range, chunk by chunk.
type reader struct {
	archive.Range
	stream  evtlog.StreamName
	started bool
	ended   bool
	// count is the number of records when the read began.
	count uint64
	// next is the next record going forward; in reverse, the one behind it.
	next uint64
	// edge is the id of the record read last.
	edge evtid.ID

	// size is how many pages the next chunk has at most.
	size int
	// buf holds the pages of a chunk without their checksums; ends says where
	// each of them ends.
	buf  []byte
	ends []int
}

func (rd *reader) free() {
	if cap(rd.buf) <= maxPooled {
		readers.Put(rd)
	}
}

// fill reads the next chunk.
func (rd *reader) fill(v *vol, last row) error {
	h := last.head(rd.stream)
	if !rd.started {
		if err := rd.start(v, h); err != nil {
			return err
		}
	}
	if h.Count < rd.count {
		return replaced(rd.stream)
	}
	if rd.Reverse && rd.next == 0 || !rd.Reverse && rd.next >= rd.count {
		rd.ended = true
		return nil
	}
	c := v.pages.Cursor()
	key, page, err := rd.seek(v, c)
	for err == nil && !rd.ended && len(rd.ends) < rd.size && len(rd.buf) < maxChunkBytes {
		if err = rd.take(v, key, page); err != nil {
			break
		}
		if rd.Reverse {
			key, page = c.Prev()
		} else {
			key, page = c.Next()
		}
	}
	rd.size = min(2*rd.size, maxChunk)
	return err
}

func replaced(stream evtlog.StreamName) error {
	return fmt.Errorf("volume: %s: %w: the volume was replaced while it was read; read again", stream, archive.ErrBehind)
}

// start fixes what the read will see and finds its first record.
func (rd *reader) start(v *vol, h Head) (err error) {
	rd.started = true
	if h.Watermark.Less(rd.AtLeast) {
		return replaced(rd.stream)
	}
	rd.count = h.Count
	if rd.To.IsZero() || h.Watermark.Less(rd.To) {
		rd.To = h.Watermark
	}
	bound := rd.After
	if rd.Reverse {
		bound = rd.To
	}
	if v.pages == nil || !rd.After.Less(rd.To) {
		rd.ended = true
		return nil
	}
	if bound.IsZero() {
		return nil
	}
	c := v.pages.Cursor()
	rd.next, err = firstAbove(bound.Snowflake(), h.Count, h.Watermark.Snowflake(), func(n uint64) (uint64, error) {
		return v.probe(c, n)
	})
	return err
}

// probe reads the id of record n without its checksum: what the search finds is
// checked with the record before it.
func (v *vol) probe(c *bbolt.Cursor, n uint64) (uint64, error) {
	var key [8]byte
	binary.BigEndian.PutUint64(key[:], ArchiveBase+n)
	k, page := c.Seek(key[:])
	if !isKey(k, ArchiveBase+n) || len(page) < minPage {
		return 0, v.corrupt(0, ArchiveBase+n, "the page is missing")
	}
	return binary.BigEndian.Uint64(page), nil
}

// seek sets the cursor on the next record. It goes by way of the record before
// it (behind it, in reverse), whose id tells that this is the right place: that
// the search was not misled, and that the volume is still the one that was read.
func (rd *reader) seek(v *vol, c *bbolt.Cursor) (key, page []byte, err error) {
	neighbour := rd.next
	switch {
	case rd.Reverse && rd.next >= rd.count:
		key, page = v.seek(c, rd.next-1)
		return key, page, nil
	case !rd.Reverse && rd.next == 0:
		key, page = v.seek(c, 0)
		return key, page, nil
	case !rd.Reverse:
		neighbour--
	}
	key, page = v.seek(c, neighbour)
	id, err := v.check(neighbour, key, page)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case !rd.edge.IsZero() && id != rd.edge:
		return nil, nil, replaced(rd.stream)
	case rd.edge.IsZero() && rd.within(id):
		return nil, nil, v.corrupt(0, ArchiveBase+neighbour, misordered)
	}
	if rd.Reverse {
		key, page = c.Prev()
	} else {
		key, page = c.Next()
	}
	return key, page, nil
}

const misordered = "the ids around the page do not increase"

// within reports whether an id is on the inner side of the bound that the read
// starts at.
func (rd *reader) within(id evtid.ID) bool {
	if rd.Reverse {
		return !rd.To.Less(id)
	}
	return rd.After.Less(id)
}

// beyond reports whether an id is past the bound that the read ends at.
func (rd *reader) beyond(id evtid.ID) bool {
	if rd.Reverse {
		return !rd.After.Less(id)
	}
	return rd.To.Less(id)
}

func (v *vol) seek(c *bbolt.Cursor, n uint64) (key, page []byte) {
	var k [8]byte
	binary.BigEndian.PutUint64(k[:], ArchiveBase+n)
	return c.Seek(k[:])
}

// check checks that a page is record n and sound, and returns its id.
func (v *vol) check(n uint64, key, page []byte) (evtid.ID, error) {
	reason := "the page is missing"
	if isKey(key, ArchiveBase+n) {
		reason = checkPage(v.pageSeed, page)
	}
	id, ok := pageID(page)
	if reason == "" && !ok {
		reason = "the page begins with no id"
	}
	if reason != "" {
		return id, v.corrupt(0, ArchiveBase+n, reason)
	}
	return id, nil
}

// take adds a page to the chunk, or ends the read.
func (rd *reader) take(v *vol, key, page []byte) error {
	n := rd.next
	if rd.Reverse {
		n--
	}
	id, err := v.check(n, key, page)
	if err != nil {
		return err
	}
	if !rd.within(id) || id == rd.edge || !rd.edge.IsZero() && rd.edge.Less(id) == rd.Reverse {
		return v.corrupt(0, ArchiveBase+n, misordered)
	}
	if rd.beyond(id) {
		rd.ended = true
		return nil
	}
	rd.edge = id
	rd.buf = append(rd.buf, page[:len(page)-crcSize]...)
	rd.ends = append(rd.ends, len(rd.buf))
	if rd.Reverse {
		rd.next = n
		rd.ended = n == 0
	} else {
		rd.next = n + 1
		rd.ended = rd.next >= rd.count
	}
	return nil
}

// yield hands out the records of the chunk; false when the receiver has enough.
func (rd *reader) yield(yield func(evtlog.Record, error) bool) bool {
	start := 0
	for from := 0; from < len(rd.ends); {
		to := groupEnd(rd.ends, from, start)
		shared := string(rd.buf[start:rd.ends[to-1]])
		arena := make([]evtlog.Field, countFields(shared, rd.ends[from:to], start))
		at := 0
		for _, end := range rd.ends[from:to] {
			var r evtlog.Record
			var reason string
			r, arena, reason = decodePage(shared[at:end-start], arena)
			at = end - start
			if reason != "" {
				yield(evtlog.Record{}, &CorruptError{Stream: rd.stream, Reason: reason})
				return false
			}
			if !yield(r, nil) {
				return false
			}
		}
		from, start = to, rd.ends[to-1]
	}
	return true
}

// groupEnd returns the end of the group of pages that begins with page from, at
// byte start.
func groupEnd(ends []int, from, start int) int {
	to := from + 1
	for to < len(ends) && to-from < groupRecords && ends[to]-start <= groupBytes {
		to++
	}
	return to
}

// countFields returns how many fields the pages of a group have, at most.
func countFields(s string, ends []int, start int) int {
	total, at := 0, 0
	for _, end := range ends {
		n, rest, ok := cutUvarint(s[at+pageHeader : end-start])
		if ok && n <= uint64(len(rest)) {
			total += int(n)
		}
		at = end - start
	}
	return total
}
