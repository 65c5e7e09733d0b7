package redislog

import (
	"bytes"
	"errors"
	"strconv"
)

// The largest reply parts that are believed. They bound what a broken or
// hostile peer can make this side wait for or allocate.
const (
	maxBulk  = 512 << 20
	maxArray = 1 << 30
	maxLine  = 64 << 10
	// nilLen is the length of a nil bulk or array.
	nilLen = -1
)

// errShort: the bytes end before the reply does.
var errShort = errors.New("incomplete reply")

// header is the first line of a reply: its kind ('+', '-', ':', '$' or '*'), the
// number in it (length, count or value), and where the line ends.
type header struct {
	kind byte
	n    int64
	// text is the line without kind and CRLF.
	text []byte
	// size is the length of the line with its CRLF.
	size int
}

// parseHeader reads the first line of b. It returns errShort when b holds no
// whole line, and a protocolError when the line is none.
func parseHeader(b []byte) (header, error) {
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		if len(b) > maxLine {
			return header{}, protocolError("a line is longer than 64 KiB")
		}
		return header{}, errShort
	}
	if end < 2 || b[end-1] != '\r' {
		return header{}, protocolError("a line does not end in CRLF")
	}
	h := header{kind: b[0], text: b[1 : end-1], size: end + 1}
	switch h.kind {
	case '+', '-':
		return h, nil
	case ':', '$', '*':
		n, ok := parseNumber(h.text)
		if !ok {
			return header{}, protocolError("a length or integer is not a number")
		}
		h.n = n
		return h, checkLength(h.kind, n)
	}
	return header{}, protocolError("unknown reply type " + strconv.QuoteRune(rune(h.kind)))
}

func checkLength(kind byte, n int64) error {
	switch {
	case kind == ':':
		return nil
	case n < nilLen, kind == '$' && n > maxBulk, kind == '*' && n > maxArray:
		return protocolError("length " + strconv.FormatInt(n, 10) + " is out of range")
	}
	return nil
}

// parseNumber reads a decimal with an optional sign. It takes no more digits
// than an int64 surely holds.
func parseNumber(b []byte) (n int64, ok bool) {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 19 {
		return 0, false
	}
	var v uint64
	for _, c := range b {
		d := c - '0'
		if d > 9 {
			return 0, false
		}
		v = v*10 + uint64(d)
	}
	if v > 1<<63-1 {
		return 0, false
	}
	if negative {
		return -int64(v), true
	}
	return int64(v), true
}

// bulk is the place of one bulk string: b[start:end], and next is where what
// follows begins. A nil bulk has start -1.
type bulk struct{ start, end, next int }

// parseBulk reads the bulk string at b[off:].
func parseBulk(b []byte, off int) (bulk, error) {
	n, start, plain := shortLength(b, off)
	if !plain {
		h, err := parseHeader(b[off:])
		if err != nil {
			return bulk{}, err
		}
		if h.kind != '$' {
			return bulk{}, protocolError("expected a string, got type " + strconv.QuoteRune(rune(h.kind)))
		}
		n, start = int(h.n), off+h.size
	}
	if n == nilLen {
		return bulk{start: nilLen, next: start}, nil
	}
	end := start + n
	if len(b) < end+2 {
		return bulk{}, errShort
	}
	if b[end] != '\r' || b[end+1] != '\n' {
		return bulk{}, protocolError("a string does not end in CRLF")
	}
	return bulk{start: start, end: end, next: end + 2}, nil
}

// shortLength reads the first line of a string of less than a million bytes
// without a search for its end: names and values of entries are read here. Any
// other line is not ok, and left to parseHeader.
func shortLength(b []byte, off int) (n, next int, ok bool) {
	if off >= len(b) || b[off] != '$' {
		return 0, 0, false
	}
	i := off + 1
	for ; i < len(b) && i < off+7 && b[i]-'0' <= 9; i++ {
		n = n*10 + int(b[i]-'0')
	}
	if i == off+1 || i+1 >= len(b) || b[i] != '\r' || b[i+1] != '\n' {
		return 0, 0, false
	}
	return n, i + 2, true
}

// measure finds where a reply ends, however deep it nests, without decoding it.
// It can go on where it stopped when more bytes have come, so that a large reply
// costs one pass.
type measure struct {
	// pos is how far the reply has been looked at; missing counts the parts that
	// have not begun yet.
	pos     int
	missing int64
}

func newMeasure() measure { return measure{missing: 1} }

// advance reports whether b holds the whole reply; its length is then m.pos.
func (m *measure) advance(b []byte) (bool, error) {
	for m.missing > 0 {
		h, err := parseHeader(b[m.pos:])
		if errors.Is(err, errShort) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		switch {
		case h.kind == '$' && h.n >= 0:
			word, err := parseBulk(b, m.pos)
			if errors.Is(err, errShort) {
				return false, nil
			}
			if err != nil {
				return false, err
			}
			m.pos = word.next
		case h.kind == '*' && h.n > 0:
			m.pos += h.size
			m.missing += h.n
			if m.missing > maxArray {
				return false, protocolError("an array has too many parts")
			}
		default:
			m.pos += h.size
		}
		m.missing--
	}
	return true, nil
}

func appendHeader(dst []byte, kind byte, n int) []byte {
	dst = append(dst, kind)
	dst = strconv.AppendInt(dst, int64(n), 10)
	return append(dst, '\r', '\n')
}

// appendArray begins a command of n words.
func appendArray(dst []byte, n int) []byte { return appendHeader(dst, '*', n) }

// appendBulk appends one word.
func appendBulk[T string | []byte](dst []byte, word T) []byte {
	dst = appendHeader(dst, '$', len(word))
	dst = append(dst, word...)
	return append(dst, '\r', '\n')
}

// appendInt appends a number as a word.
func appendInt(dst []byte, n int64) []byte {
	var buf [20]byte
	return appendBulk(dst, strconv.AppendInt(buf[:0], n, 10))
}

// appendCommand appends a whole command.
func appendCommand(dst []byte, words ...string) []byte {
	dst = appendArray(dst, len(words))
	for _, w := range words {
		dst = appendBulk(dst, w)
	}
	return dst
}
