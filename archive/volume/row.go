package volume

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

// Head is the state of a volume after one of its commits. The head of a volume
// that nothing was folded into has only Stream set.
type Head struct {
	Stream evtlog.StreamName
	// LSN numbers the commits from 1.
	LSN uint64
	// Count is the number of records, Bytes the size of their pages.
	Count, Bytes uint64
	// Watermark is the id of the newest record.
	Watermark evtid.ID
	// Chain is the hash over every commit up to LSN.
	Chain [sha256.Size]byte
	// Index and Term are the position in the replicated log that the commit came
	// from; zero in a local archive.
	Index, Term uint64
}

// row is one line of the commit table. The head is a copy of the last one.
type row struct {
	lsn uint64
	// first is the page of the commit's first record, count their number, and
	// size the length of the commit's canonical bytes.
	first, count, size uint64
	prev, watermark    evtid.ID
	// total is the size of all pages up to and including this commit.
	total       uint64
	index, term uint64
	chain       [sha256.Size]byte
}

// end is the page after the commit's last.
func (r *row) end() uint64 { return r.first + r.count }

func (r *row) head(stream evtlog.StreamName) Head {
	if r.lsn == 0 {
		return Head{Stream: stream}
	}
	return Head{
		Stream: stream, LSN: r.lsn, Count: r.end() - ArchiveBase, Bytes: r.total,
		Watermark: r.watermark, Chain: r.chain, Index: r.index, Term: r.term,
	}
}

// next is the row of commit c behind r. data are c's canonical bytes.
func (r *row) next(c commitView, index, term uint64) row {
	n := row{
		lsn: r.lsn + 1, first: ArchiveBase, count: uint64(c.count), size: uint64(len(c.data)),
		prev: c.prev, watermark: c.watermark, index: index, term: term,
		total: r.total + uint64(len(c.data)-commitHeader-c.count*pageLenSize),
	}
	if r.lsn > 0 {
		n.first = r.end()
	}
	n.chain = nextChain(r.chain, c.data)
	return n
}

func nextChain(prev [sha256.Size]byte, commit []byte) (chain [sha256.Size]byte) {
	h := sha256.New()
	h.Write(prev[:])
	h.Write(commit)
	h.Sum(chain[:0])
	return chain
}

func appendRow(dst []byte, seed uint32, r *row) []byte {
	start := len(dst)
	for _, v := range [...]uint64{r.lsn, r.first, r.count, r.size, idWord(r.prev), idWord(r.watermark), r.total, r.index, r.term} {
		dst = binary.BigEndian.AppendUint64(dst, v)
	}
	dst = append(dst, r.chain[:]...)
	return binary.BigEndian.AppendUint32(dst, crc32.Update(seed, castagnoli, dst[start:]))
}

// parseRow reads a row and says what is wrong with it, "" for nothing.
func parseRow(b []byte, seed uint32) (r row, reason string) {
	if len(b) != rowSize {
		return r, "the row has a wrong size"
	}
	if crc32.Update(seed, castagnoli, b[:rowSize-crcSize]) != binary.BigEndian.Uint32(b[rowSize-crcSize:]) {
		return r, "the checksum of the row does not match"
	}
	word := func(i int) uint64 { return binary.BigEndian.Uint64(b[8*i:]) }
	var okPrev, okW bool
	r = row{lsn: word(0), first: word(1), count: word(2), size: word(3), total: word(6), index: word(7), term: word(8)}
	r.prev, okPrev = wordID(word(4))
	r.watermark, okW = wordID(word(5))
	copy(r.chain[:], b[9*8:])
	if !okPrev || !okW || r.lsn == 0 || r.count == 0 || r.first < ArchiveBase {
		return r, "the row holds numbers that no commit has"
	}
	return r, ""
}
