package redislog

import (
	"errors"
	"strconv"
	"strings"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

// Entry is one entry of a stream as a group reads it.
type Entry struct {
	evtlog.Record
	// Raw is the entry id of an entry that stands where no EVT id can, as a
	// foreign writer can put it; Record.ID is then zero. Else it is "".
	Raw string
	// Missing is true when the entry is pending but its body has left the
	// stream: it was trimmed. The archive may have it.
	Missing bool
	// Stored is the value of a leading id field that disagrees with the
	// position, else "". The field is then also kept in Fields.
	Stored string
}

// parsedEntry is what parseEntry found; the offsets point into its input.
type parsedEntry struct {
	// isNil: there is no entry at all (XCLAIM and XAUTOCLAIM of Redis 6.2 over a
	// trimmed entry).
	isNil bool
	id    bulk
	// missing: the entry has an id but no body.
	missing bool
	// size is the length of the whole reply.
	size int
}

// parseEntry reads one "[id, [name, value, …]]" at the start of b. The places of
// the names and values are appended to marks as pairs of start and end. Nothing
// is allocated but marks, whose size is bounded by that of b.
func parseEntry(b []byte, marks []int) (parsedEntry, []int, error) {
	h, err := parseHeader(b)
	if err != nil {
		return parsedEntry{}, marks, err
	}
	if (h.kind == '*' || h.kind == '$') && h.n == nilLen {
		return parsedEntry{isNil: true, size: h.size}, marks, nil
	}
	if h.kind != '*' || h.n != 2 {
		return parsedEntry{}, marks, protocolError("an entry is not a pair of id and body")
	}
	id, err := parseBulk(b, h.size)
	if err != nil {
		return parsedEntry{}, marks, err
	}
	if id.start == nilLen {
		return parsedEntry{}, marks, protocolError("an entry has no id")
	}
	return parseBody(b, id, marks)
}

func parseBody(b []byte, id bulk, marks []int) (parsedEntry, []int, error) {
	e := parsedEntry{id: id}
	h, err := parseHeader(b[id.next:])
	if err != nil {
		return e, marks, err
	}
	off := id.next + h.size
	if (h.kind == '*' || h.kind == '$') && h.n == nilLen {
		e.missing, e.size = true, off
		return e, marks, nil
	}
	if h.kind != '*' || h.n%2 != 0 {
		return e, marks, protocolError("an entry's body is not pairs of name and value")
	}
	for range h.n {
		word, err := parseBulk(b, off)
		if err != nil {
			return e, marks, err
		}
		if word.start == nilLen {
			return e, marks, protocolError("a name or value of an entry is nil")
		}
		marks = append(marks, word.start, word.end)
		off = word.next
	}
	e.size = off
	return e, marks, nil
}

// entry consumes the next entry. ok is false when the server sent a nil in its
// place.
func (rd *reader) entry() (e Entry, ok bool, err error) {
	for {
		parsed, marks, err := parseEntry(rd.buffered(), rd.marks[:0])
		rd.marks = marks
		if errors.Is(err, errShort) {
			// Waits without decoding again at every packet.
			if _, err = rd.whole(); err == nil {
				continue
			}
		}
		if err != nil {
			return Entry{}, false, err
		}
		b := rd.buffered()[:parsed.size]
		rd.r += parsed.size
		if parsed.isNil {
			return Entry{}, false, nil
		}
		e, err = makeEntry(b, parsed, marks)
		return e, err == nil, err
	}
}

// entries reads an array of entries, of which about count are expected. Places
// where the server has none to show are left out.
func (rd *reader) entries(count int) ([]Entry, error) {
	list, err := rd.line()
	if err != nil {
		return nil, err
	}
	if list.kind != '*' {
		return nil, protocolError("the entries are not an array")
	}
	if list.n <= 0 {
		return nil, nil
	}
	entries := make([]Entry, 0, min(list.n, int64(count)))
	for range list.n {
		e, ok, err := rd.entry()
		if err != nil {
			return nil, err
		}
		if ok {
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// makeEntry turns the parsed places into an Entry with one string and one slice.
func makeEntry(b []byte, parsed parsedEntry, marks []int) (Entry, error) {
	var e Entry
	position := b[parsed.id.start:parsed.id.end]
	id, err := evtid.ParseEntry(position)
	switch {
	case errors.Is(err, evtid.ErrOverflow):
		e.Raw = string(position)
	case err != nil || id.IsZero():
		return Entry{}, protocolError("an entry's id is not one")
	}
	e.ID = id
	if parsed.missing {
		e.Missing = true
		return e, nil
	}
	skip := brandedID(b, marks, id)
	if skip == 0 {
		e.Unbranded = true
		if isIDField(b, marks) {
			e.Stored = string(b[marks[2]:marks[3]])
		}
	}
	e.Fields = makeFields(b, marks[skip:])
	return e, nil
}

func isIDField(b []byte, marks []int) bool {
	return len(marks) >= 4 && string(b[marks[0]:marks[1]]) == evtlog.IDField
}

// brandedID returns how many marks the leading id field takes when it agrees
// with the position: 4, else 0.
func brandedID(b []byte, marks []int, id evtid.ID) int {
	if id.IsZero() || !isIDField(b, marks) {
		return 0
	}
	var buf [evtid.Len]byte
	if string(b[marks[2]:marks[3]]) != string(id.AppendTo(buf[:0])) {
		return 0
	}
	return 4
}

// makeFields copies the words out of the read buffer: all of them in one string,
// the protocol's bytes between them included, and the fields are parts of it.
func makeFields(b []byte, marks []int) []evtlog.Field {
	if len(marks) == 0 {
		return nil
	}
	base := marks[0]
	text := string(b[base:marks[len(marks)-1]])
	fields := make([]evtlog.Field, len(marks)/4)
	for i := range fields {
		m := marks[4*i : 4*i+4]
		fields[i] = evtlog.Field{Name: text[m[0]-base : m[1]-base], Value: text[m[2]-base : m[3]-base]}
	}
	return fields
}

// floorPosition returns the largest EVT id at or below an entry id, the zero ID
// when that lies before the first one. Redis' short forms ("5", "0") are taken.
func floorPosition(entry string) (evtid.ID, error) {
	ms, tail, ok := cutPosition(entry)
	switch {
	case !ok:
		return evtid.ID{}, protocolError("an entry's id is not one")
	case ms > uint64(evtid.MaxMillis):
		return evtid.Max, nil
	}
	return evtid.Bound{Millis: int64(ms), Tail: uint32(min(tail, evtid.MaxTail))}.Last(), nil
}

// cutPosition splits "<ms>-<seq>" or "<ms>".
func cutPosition(entry string) (ms, seq uint64, ok bool) {
	first, second, paired := strings.Cut(entry, "-")
	ms, err := strconv.ParseUint(first, 10, 64)
	if err != nil || !paired {
		return ms, 0, err == nil
	}
	seq, err = strconv.ParseUint(second, 10, 64)
	return ms, seq, err == nil
}
