package volume

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"iter"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
)

// Layout of the canonical bytes of a commit.
const (
	commitMagic = "EVC\x01"
	// commitHeader is magic, prev, watermark, and the number of records.
	commitHeader = 4 + 8 + 8 + 4
	pageLenSize  = 4
	// minCommit is a commit of one record without fields.
	minCommit = commitHeader + pageLenSize + minPage
)

// commitView is a commit in its canonical bytes, taken apart. data is shared.
type commitView struct {
	prev, watermark evtid.ID
	count           int
	data            []byte
}

// EncodedSize returns how many bytes EncodeCommit makes of the records.
func EncodedSize(records []evtlog.Record) int {
	n := commitHeader + len(records)*pageLenSize
	for i := range records {
		n += pageLen(&records[i])
	}
	return n
}

// EncodeCommit appends to dst the canonical bytes of the commit that moves the
// stream's watermark from prev to the last record. They are what Apply takes
// and what the chain is computed over, and the volume gives them back byte for
// byte. Errors wrap archive.ErrRejected: the rules of archive.CheckFold, and
// MaxCommitBytes.
func EncodeCommit(dst []byte, stream evtlog.StreamName, prev evtid.ID, records []evtlog.Record) ([]byte, error) {
	if err := archive.CheckFold(stream, prev, records); err != nil {
		return dst, err
	}
	size := EncodedSize(records)
	if size > MaxCommitBytes {
		return dst, fmt.Errorf("volume: fold into %s: %w: it has %d bytes, the limit is %d; fold fewer records at a time", stream, archive.ErrRejected, size, MaxCommitBytes)
	}
	if cap(dst)-len(dst) < size {
		dst = append(make([]byte, 0, len(dst)+size), dst...)
	}
	last := records[len(records)-1].ID
	dst = appendCommitHeader(dst, prev, last, len(records))
	seed := pageSeed(volumeKey(stream))
	for i := range records {
		at := len(dst)
		dst = appendPage(append(dst, 0, 0, 0, 0), seed, &records[i])
		binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-pageLenSize))
	}
	return dst, nil
}

func appendCommitHeader(dst []byte, prev, watermark evtid.ID, count int) []byte {
	dst = append(dst, commitMagic...)
	dst = binary.BigEndian.AppendUint64(dst, idWord(prev))
	dst = binary.BigEndian.AppendUint64(dst, idWord(watermark))
	return binary.BigEndian.AppendUint32(dst, uint32(count))
}

// parseCommitHeader reads the header and trusts the rest. It is for bytes that
// EncodeCommit has just made.
func parseCommitHeader(data []byte) (c commitView, ok bool) {
	if len(data) < minCommit || string(data[:4]) != commitMagic {
		return c, false
	}
	var okPrev, okW bool
	c.prev, okPrev = wordID(binary.BigEndian.Uint64(data[4:]))
	c.watermark, okW = wordID(binary.BigEndian.Uint64(data[12:]))
	c.count = int(binary.BigEndian.Uint32(data[20:]))
	c.data = data
	return c, okPrev && okW
}

// parseCommit reads canonical bytes that came from elsewhere and checks all of
// them; reason says what is wrong, "" for nothing. It never panics.
func parseCommit(data []byte, seed uint32) (c commitView, reason string) {
	c, ok := parseCommitHeader(data)
	if !ok {
		return c, "commit: it does not begin with a header of version 1"
	}
	if len(data) > MaxCommitBytes {
		return c, "commit: it is larger than allowed"
	}
	last, n, rest := c.prev, 0, data[commitHeader:]
	for len(rest) > 0 {
		page, after, ok := cutPage(rest)
		if !ok {
			return c, "commit: a page does not fit it"
		}
		if reason := checkPage(seed, page); reason != "" {
			return c, "commit: " + reason
		}
		id, ok := pageID(page)
		if !ok || !last.Less(id) {
			return c, "commit: its ids do not increase"
		}
		last, n, rest = id, n+1, after
	}
	if n != c.count || last != c.watermark {
		return c, "commit: its header does not fit its pages"
	}
	return c, ""
}

// pages yields the pages of a commit whose framing is known to be good.
func (c commitView) pages() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for rest := c.data[commitHeader:]; len(rest) > 0; {
			page, after, ok := cutPage(rest)
			if !ok || !yield(page) {
				return
			}
			rest = after
		}
	}
}

func cutPage(b []byte) (page, rest []byte, ok bool) {
	if len(b) < pageLenSize {
		return nil, nil, false
	}
	n := uint64(binary.BigEndian.Uint32(b))
	b = b[pageLenSize:]
	if n > uint64(len(b)) {
		return nil, nil, false
	}
	return b[:n], b[n:], true
}

// Commit is one commit of a volume, as it is copied from node to node.
type Commit struct {
	LSN uint64
	// Prev and Watermark are the watermark before and after.
	Prev, Watermark evtid.ID
	// Count is the number of records.
	Count int
	// Index and Term are the commit's position in the replicated log, if any.
	Index, Term uint64
	// Chain is the hash over every commit up to this one.
	Chain [sha256.Size]byte
	// Data are the canonical bytes: what EncodeCommit made of the records.
	Data []byte
}

const (
	copyMagic = "EVX\x01"
	// copyHeader is magic, LSN, index, term, and chain.
	copyHeader = 4 + 3*8 + sha256.Size
)

// AppendBinary appends the form in which a commit travels. It implements
// encoding.BinaryAppender and never fails.
func (c Commit) AppendBinary(dst []byte) ([]byte, error) {
	start := len(dst)
	dst = append(dst, copyMagic...)
	dst = binary.BigEndian.AppendUint64(dst, c.LSN)
	dst = binary.BigEndian.AppendUint64(dst, c.Index)
	dst = binary.BigEndian.AppendUint64(dst, c.Term)
	dst = append(dst, c.Chain[:]...)
	dst = append(dst, c.Data...)
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli)), nil
}

// MarshalBinary implements encoding.BinaryMarshaler.
func (c Commit) MarshalBinary() ([]byte, error) {
	return c.AppendBinary(make([]byte, 0, copyHeader+len(c.Data)+crcSize))
}

// UnmarshalBinary reads what AppendBinary wrote; Data shares the memory of b.
// The pages are not looked at: Adopt does that. The error wraps
// archive.ErrCorrupt: fetch the commit again.
func (c *Commit) UnmarshalBinary(b []byte) error {
	if len(b) < copyHeader+minCommit+crcSize || string(b[:4]) != copyMagic {
		return &CorruptError{Reason: "a copied commit does not begin with a header of version 1"}
	}
	body := b[:len(b)-crcSize]
	if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(b[len(body):]) {
		return &CorruptError{Reason: "the checksum of a copied commit does not match"}
	}
	view, ok := parseCommitHeader(body[copyHeader:])
	if !ok {
		return &CorruptError{Reason: "a copied commit holds no commit"}
	}
	*c = Commit{
		LSN: binary.BigEndian.Uint64(b[4:]), Index: binary.BigEndian.Uint64(b[12:]), Term: binary.BigEndian.Uint64(b[20:]),
		Prev: view.prev, Watermark: view.watermark, Count: view.count, Data: view.data,
	}
	copy(c.Chain[:], b[28:])
	return nil
}

// Records decodes the commit's records for an export. stream is the volume the
// commit is from. The error is a *CorruptError.
func (c Commit) Records(stream evtlog.StreamName) ([]evtlog.Record, error) {
	view, reason := parseCommit(c.Data, pageSeed(volumeKey(stream)))
	if reason != "" {
		return nil, &CorruptError{Stream: stream, LSN: c.LSN, Reason: reason}
	}
	records := make([]evtlog.Record, 0, view.count)
	for page := range view.pages() {
		r, _, reason := decodePage(string(page[:len(page)-crcSize]), nil)
		if reason != "" {
			return nil, &CorruptError{Stream: stream, LSN: c.LSN, Reason: reason}
		}
		records = append(records, r)
	}
	return records, nil
}
