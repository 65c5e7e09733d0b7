package redislog

import (
	"context"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// keepOut is the largest write buffer that is kept between flushes.
const keepOut = 4 << 20

// wire speaks the protocol by hand on one socket: commands are encoded into out,
// flushed with one write, and answers are read from one buffer. One goroutine
// uses it; close may be called by any.
type wire struct {
	conn    net.Conn
	addr    string
	timeout time.Duration
	in      reader
	out     []byte
	// unanswered counts the commands encoded and not yet answered.
	unanswered int
	// doomed is set when the server said that it is not the one to talk to:
	// nothing new is sent, and the connection closes with its last answer.
	doomed error
	// due is when the answers to what was flushed last must be there.
	due time.Time
	// err is what ended the connection.
	err    error
	closed atomic.Bool
}

func newWire(conn net.Conn, addr string, timeout time.Duration) *wire {
	return &wire{conn: conn, addr: addr, timeout: timeout, in: newReader(conn)}
}

// flush writes what was encoded and gives the answers until now+timeout+block.
// Setting that limit here, and not at every answer, keeps clock and timer out of
// the path of a single reply.
func (w *wire) flush(op string, block time.Duration) error {
	if w.err == nil && w.doomed != nil {
		_ = w.fail(op, w.doomed)
	}
	if w.err != nil {
		return w.err
	}
	if len(w.out) == 0 {
		return nil
	}
	now := time.Now()
	err := w.conn.SetWriteDeadline(now.Add(w.timeout))
	if err == nil {
		_, err = w.conn.Write(w.out)
	}
	if err == nil {
		w.due = now.Add(w.timeout + block)
		err = w.conn.SetReadDeadline(w.due)
	}
	if err != nil {
		return w.fail(op, err)
	}
	if w.out = w.out[:0]; cap(w.out) > keepOut {
		w.out = nil
	}
	return nil
}

// await waits at most d until the next answer has begun to come, and reports
// whether it is a string that is there as a whole.
func (w *wire) await(op string, d time.Duration) bool {
	if w.unanswered == 0 {
		return false
	}
	if w.err == nil && len(w.in.buffered()) == 0 {
		err := w.conn.SetReadDeadline(time.Now().Add(d))
		if err == nil {
			err = w.in.fill()
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = w.conn.SetReadDeadline(w.due)
		}
		if err != nil {
			_ = w.fail(op, err)
		}
	}
	if w.err != nil {
		return false
	}
	answer, err := parseBulk(w.in.buffered(), 0)
	return err == nil && answer.start != nilLen
}

// answer consumes the first line of the next answer. A refusal is a
// *ServerError.
func (w *wire) answer(op string) (header, error) {
	if w.err != nil {
		return header{}, w.err
	}
	if w.unanswered == 0 {
		return header{}, w.fail(op, protocolError("an answer was read that no command asked for"))
	}
	h, err := w.in.line()
	if err != nil {
		return header{}, w.fail(op, err)
	}
	w.unanswered--
	if h.kind == '-' {
		return header{}, w.refused(op, string(h.text))
	}
	return h, nil
}

// refused makes the typed error and lets go of a server that is not the primary.
func (w *wire) refused(op, message string) error {
	if lookUp(message).closes {
		w.doomed = serverError(op, w.addr, message)
	}
	if w.doomed != nil && w.unanswered == 0 {
		_ = w.fail(op, w.doomed)
	}
	return serverError(op, w.addr, message)
}

// integer reads an integer answer.
func (w *wire) integer(op string) (int64, error) {
	h, err := w.answer(op)
	if err != nil {
		return 0, err
	}
	if h.kind != ':' {
		return 0, w.fail(op, protocolError("the answer is not an integer"))
	}
	return h.n, nil
}

// array reads the first line of an array answer; nilLen is a nil one.
func (w *wire) array(op string) (int64, error) {
	h, err := w.answer(op)
	if err != nil {
		return 0, err
	}
	if h.kind != '*' && !(h.kind == '$' && h.n == nilLen) {
		return 0, w.fail(op, protocolError("the answer is not an array"))
	}
	return h.n, nil
}

// settled ends the connection unless every command was answered and nothing else
// came: what is left over would be taken for the answer to a later command.
func (w *wire) settled(err error) error {
	if w.err == nil && (w.unanswered != 0 || len(w.in.buffered()) != 0) {
		return w.fail("settle", protocolError("answers and commands do not match"))
	}
	return err
}

// fail ends the connection. The first failure is the one that is remembered.
func (w *wire) fail(op string, err error) error {
	if w.err == nil {
		if w.closed.Load() {
			err = net.ErrClosed
		}
		w.err = &ConnError{Op: op, Addr: w.addr, Err: err}
		_ = w.conn.Close()
	}
	return w.err
}

// close ends the connection and unblocks whoever waits on it.
func (w *wire) close() error {
	if w.closed.Swap(true) {
		return nil
	}
	_ = w.conn.Close()
	return nil
}

// until closes the connection when ctx ends. The caller runs stop when it is
// done; stop reports whether the context ended before.
func (w *wire) until(ctx context.Context) (stop func() (ended bool)) {
	detach := context.AfterFunc(ctx, func() { _ = w.conn.Close() })
	return func() bool { return !detach() }
}
