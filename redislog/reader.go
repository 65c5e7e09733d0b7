package redislog

import (
	"errors"
	"io"
)

const (
	// readBuffer is the size a reader starts with; keepBuffer the largest it
	// keeps when all of it has been read.
	readBuffer = 64 << 10
	keepBuffer = 1 << 20
)

// reader buffers the replies of one connection. It is not safe for concurrent
// use. What it returns as []byte is valid until the next call.
type reader struct {
	src io.Reader
	buf []byte
	// buf[r:w] has come and is not consumed.
	r, w int
	// marks is scratch for the entry parser.
	marks []int
}

func newReader(src io.Reader) reader { return reader{src: src} }

// buffered returns what has come and is not consumed.
func (rd *reader) buffered() []byte { return rd.buf[rd.r:rd.w] }

// fill reads once, at least one byte.
func (rd *reader) fill() error {
	rd.room()
	n, err := rd.src.Read(rd.buf[rd.w:])
	rd.w += n
	if n > 0 {
		return nil
	}
	if err == nil {
		return io.ErrNoProgress
	}
	if err == io.EOF && rd.r < rd.w {
		return io.ErrUnexpectedEOF
	}
	return err
}

// room makes space behind w: by starting over, by moving what is left to the
// front, or by growing.
func (rd *reader) room() {
	switch {
	case rd.r == rd.w:
		rd.r, rd.w = 0, 0
		if rd.buf == nil || len(rd.buf) > keepBuffer {
			rd.buf = make([]byte, readBuffer)
		}
	case rd.w < len(rd.buf):
	case rd.r >= len(rd.buf)/2:
		rd.w = copy(rd.buf, rd.buf[rd.r:rd.w])
		rd.r = 0
	default:
		grown := make([]byte, 2*len(rd.buf))
		rd.w = copy(grown, rd.buf[rd.r:rd.w])
		rd.r = 0
		rd.buf = grown
	}
}

// line consumes the first line of the next reply. The parts of an array are not
// consumed; the string of a bulk is neither.
func (rd *reader) line() (header, error) {
	for {
		h, err := parseHeader(rd.buffered())
		if err == nil {
			rd.r += h.size
			return h, nil
		}
		if !errors.Is(err, errShort) {
			return header{}, err
		}
		if err := rd.fill(); err != nil {
			return header{}, err
		}
	}
}

// whole waits until the next reply, nested parts included, is buffered, and
// returns its length. It does not consume it.
func (rd *reader) whole() (int, error) {
	m := newMeasure()
	for {
		done, err := m.advance(rd.buffered())
		if err != nil {
			return 0, err
		}
		if done {
			return m.pos, nil
		}
		if err := rd.fill(); err != nil {
			return 0, err
		}
	}
}

// skip consumes n replies.
func (rd *reader) skip(n int64) error {
	for range n {
		size, err := rd.whole()
		if err != nil {
			return err
		}
		rd.r += size
	}
	return nil
}
