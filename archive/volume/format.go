package volume

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

// The numbers of the format; docs/formats/volume.md describes it.
const (
	// ArchiveBase is the page of a stream's first record. Pages below it are
	// reserved for business data.
	ArchiveBase uint64 = 1 << 49
	// FormatVersion is the version of the file format that this package writes
	// and reads.
	FormatVersion = 1
	// MaxCommitBytes is the largest encoded commit.
	MaxCommitBytes = 64 << 20

	formatMagic = "EVTVOL"
	crcSize     = 4
	storeIDSize = 16
	formatSize  = len(formatMagic) + 2 + storeIDSize + crcSize

	// pageHeader is id and flags.
	pageHeader = 8 + 1
	// minPage is the size of a page without fields.
	minPage = pageHeader + 1 + crcSize
	// flagUnbranded marks a record whose stored id field was missing or disagreed.
	flagUnbranded = 1

	rowSize = 9*8 + sha256.Size + crcSize
)

// The buckets of a file and of a volume.
var (
	bucketMeta       = []byte("evtlog")
	bucketVolumes    = []byte("volumes")
	bucketQuarantine = []byte("quarantine")
	keyFormat        = []byte("format")
	keyRegistry      = []byte("volumes")
	keyHead          = []byte("head")
	bucketPages      = []byte("pages")
	bucketCommits    = []byte("commits")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// volumeKey is the name of a stream's bucket. Names hold no control bytes, so
// the zero byte parts them.
func volumeKey(s evtlog.StreamName) []byte {
	key := make([]byte, 0, len(s.Queue)+1+len(s.Name))
	key = append(key, s.Queue...)
	key = append(key, 0)
	return append(key, s.Name...)
}

// streamOf is the inverse of volumeKey.
func streamOf(key []byte) (evtlog.StreamName, bool) {
	for i, c := range key {
		if c == 0 {
			return evtlog.StreamName{Queue: string(key[:i]), Name: string(key[i+1:])}, true
		}
	}
	return evtlog.StreamName{}, false
}

// Every checksum begins with what the bytes are and whose: a pointer that was
// bent into another volume of the same file is then found out.
func pageSeed(volume []byte) uint32 { return seed('P', volume) }
func rowSeed(volume []byte) uint32  { return seed('C', volume) }

func seed(kind byte, volume []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte{kind}, castagnoli), castagnoli, volume)
}

// idWord maps an id to 8 bytes that are free to be "none": 0 is none, everything
// else the snowflake plus one.
func idWord(id evtid.ID) uint64 {
	if id.IsZero() {
		return 0
	}
	return id.Snowflake() + 1
}

func wordID(w uint64) (evtid.ID, bool) {
	if w == 0 {
		return evtid.ID{}, true
	}
	id, err := evtid.FromSnowflake(w - 1)
	return id, err == nil
}

// pageLen is the size of the page that holds r.
func pageLen(r *evtlog.Record) int {
	n := pageHeader + uvarintLen(len(r.Fields)) + crcSize
	for i := range r.Fields {
		f := &r.Fields[i]
		n += uvarintLen(len(f.Name)) + len(f.Name) + uvarintLen(len(f.Value)) + len(f.Value)
	}
	return n
}

func uvarintLen(n int) int {
	size := 1
	for ; n >= 0x80; n >>= 7 {
		size++
	}
	return size
}

// appendPage appends the page that holds r.
func appendPage(dst []byte, seed uint32, r *evtlog.Record) []byte {
	start := len(dst)
	dst = binary.BigEndian.AppendUint64(dst, r.ID.Snowflake())
	var flags byte
	if r.Unbranded {
		flags = flagUnbranded
	}
	dst = append(dst, flags)
	dst = binary.AppendUvarint(dst, uint64(len(r.Fields)))
	for i := range r.Fields {
		f := &r.Fields[i]
		dst = binary.AppendUvarint(dst, uint64(len(f.Name)))
		dst = append(dst, f.Name...)
		dst = binary.AppendUvarint(dst, uint64(len(f.Value)))
		dst = append(dst, f.Value...)
	}
	return binary.BigEndian.AppendUint32(dst, crc32.Update(seed, castagnoli, dst[start:]))
}

// checkPage says what is wrong with the checksum of a page, "" for nothing.
func checkPage(seed uint32, page []byte) string {
	if len(page) < minPage {
		return "the page is too short"
	}
	body := page[:len(page)-crcSize]
	if crc32.Update(seed, castagnoli, body) != binary.BigEndian.Uint32(page[len(body):]) {
		return "the checksum of the page does not match"
	}
	return ""
}

// pageID is the id a page begins with.
func pageID(page []byte) (evtid.ID, bool) {
	if len(page) < 8 {
		return evtid.ID{}, false
	}
	id, err := evtid.FromSnowflake(binary.BigEndian.Uint64(page))
	return id, err == nil
}

// decodePage reads a page whose checksum was found good. s holds the bytes of
// the page without the checksum, and the record's strings share its memory; the
// fields are taken from arena, which is returned with what is left of it.
func decodePage(s string, arena []evtlog.Field) (r evtlog.Record, left []evtlog.Field, reason string) {
	id, err := evtid.FromSnowflake(beUint64(s))
	if err != nil {
		return r, arena, "the page begins with no id"
	}
	flags := s[8]
	if flags&^flagUnbranded != 0 {
		return r, arena, "the page has flags of a newer version"
	}
	n, s, ok := cutUvarint(s[pageHeader:])
	if !ok || n > uint64(len(s))/2 {
		return r, arena, "the number of fields does not fit the page"
	}
	fields, arena := takeFields(arena, int(n))
	for i := range fields {
		if fields[i].Name, s, ok = cutString(s); !ok {
			return r, arena, "a field name does not fit the page"
		}
		if fields[i].Value, s, ok = cutString(s); !ok {
			return r, arena, "a field value does not fit the page"
		}
	}
	if len(s) != 0 {
		return r, arena, "bytes follow the last field"
	}
	r = evtlog.Record{ID: id, Fields: fields, Source: evtlog.Archived, Unbranded: flags == flagUnbranded}
	return r, arena, ""
}

// takeFields cuts n fields off the arena. The slice cannot grow into the
// next record's.
func takeFields(arena []evtlog.Field, n int) (fields, left []evtlog.Field) {
	if n == 0 {
		return nil, arena
	}
	if n > len(arena) {
		arena = make([]evtlog.Field, n)
	}
	return arena[:n:n], arena[n:]
}

func beUint64(s string) uint64 {
	_ = s[7]
	return uint64(s[0])<<56 | uint64(s[1])<<48 | uint64(s[2])<<40 | uint64(s[3])<<32 |
		uint64(s[4])<<24 | uint64(s[5])<<16 | uint64(s[6])<<8 | uint64(s[7])
}

func cutString(s string) (head, rest string, ok bool) {
	n, s, ok := cutUvarint(s)
	if !ok || n > uint64(len(s)) {
		return "", s, false
	}
	return s[:n], s[n:], true
}

func cutUvarint(s string) (v uint64, rest string, ok bool) {
	if len(s) > 0 && s[0] < 0x80 {
		return uint64(s[0]), s[1:], true
	}
	for i := 0; i < len(s) && i < 9; i++ {
		v |= uint64(s[i]&0x7f) << (7 * i)
		if s[i] < 0x80 {
			return v, s[i+1:], true
		}
	}
	return 0, s, false
}
