package redislog

import (
	"context"
	"errors"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
)

// Writer is the append pipeline of one stream, on a connection of its own.
// Append, Publish and Wait encode; Flush sends everything encoded in one write;
// the Receive methods read the answers, one for each command and in the same
// order. Several flushes may be on their way before the first answer is read;
// the caller bounds how much.
//
// One goroutine uses a Writer; Close may be called by any and unblocks it. After
// a *ConnError it is unusable: close it, and settle what was sent with Lookup.
type Writer struct {
	w        *wire
	log      *Log
	clientID int64
	// head are the constant words of an append: XADD and the key.
	head []byte
	// publish are those of an announcement: PUBLISH and the channel.
	publish []byte
	// patience is the longest WAIT among what is encoded.
	patience  time.Duration
	op, opPub string
}

// NewWriter dials the connection. Errors are those of any command.
func (l *Log) NewWriter(ctx context.Context) (*Writer, error) {
	w, id, err := l.private(ctx, "writer", "")
	if err != nil {
		return nil, err
	}
	return &Writer{
		w: w, log: l, clientID: id,
		head:    appendBulk(appendBulk(nil, "XADD"), l.stream.Key()),
		publish: appendBulk(appendBulk(appendArray(nil, 3), "PUBLISH"), keyspace.Events(l.stream.Queue())),
		op:      l.op("XADD"), opPub: l.op("PUBLISH or WAIT"),
	}, nil
}

// ClientID is the server's number of the connection, for KillClient; 0 when the
// server does not tell.
func (w *Writer) ClientID() int64 { return w.clientID }

// Append encodes an append under this id, with the stored id field in front of
// the caller's fields. It sends nothing and allocates nothing once its buffer
// has grown. The fields are copied.
func (w *Writer) Append(id evtid.ID, fields []evtlog.Field) {
	var entry, branded [24]byte
	out := appendArray(w.w.out, 5+2*len(fields))
	out = append(out, w.head...)
	out = appendBulk(out, id.AppendEntry(entry[:0]))
	out = append(out, "$2\r\n"+evtlog.IDField+"\r\n"...)
	out = appendBulk(out, id.AppendTo(branded[:0]))
	for _, f := range fields {
		out = appendBulk(out, f.Name)
		out = appendBulk(out, f.Value)
	}
	w.w.out = out
	w.w.unanswered++
}

// Publish encodes an announcement to the channel of the stream's queue.
func (w *Writer) Publish(payload []byte) {
	w.w.out = appendBulk(append(w.w.out, w.publish...), payload)
	w.w.unanswered++
}

// Wait encodes a WAIT: its answer comes when so many replicas have everything
// that was sent before, or after timeout, and is the number that have it. A
// timeout below 1 ms is 1 ms; there is no unlimited one.
func (w *Writer) Wait(replicas int, timeout time.Duration) {
	out := appendBulk(appendArray(w.w.out, 3), "WAIT")
	w.w.out = appendInt(appendInt(out, int64(replicas)), millis(timeout))
	w.w.unanswered++
	w.patience = max(w.patience, timeout)
}

// Buffered returns the bytes that are encoded and not sent.
func (w *Writer) Buffered() int { return len(w.w.out) }

// Unanswered returns how many commands have been encoded whose answers have not
// been read.
func (w *Writer) Unanswered() int { return w.w.unanswered }

// Flush sends what is encoded. All answers that are outstanding then are due
// within CommandTimeout (and the longest Wait among them). The error is a
// *ConnError.
func (w *Writer) Flush() error {
	patience := w.patience
	w.patience = 0
	return w.w.flush(w.op, patience)
}

// Await waits at most d for an answer, and reports whether the next one has come
// and is that of an accepted append. When it is false, nothing is known yet: the
// Receive methods go on as if Await had not been called.
func (w *Writer) Await(d time.Duration) bool { return w.w.await(w.op, d) }

// ReceiveAppend reads the answer of the oldest unanswered command, an Append of
// id. nil means that the stream has the record. A refusal is a *ServerError (it
// wraps evtlog.ErrOutOfMemory, ErrWrongType, ErrReadOnly, …) or a
// *evtlog.NonMonotonicError with a zero Top; the record was not written by this
// command, and the answers behind it can still be read. Everything else is a
// *ConnError: the outcome is open.
func (w *Writer) ReceiveAppend(id evtid.ID) error {
	if w.accepted(id) {
		return nil
	}
	h, err := w.w.answer(w.op)
	if errors.Is(lookUpErr(err), evtlog.ErrNonMonotonic) {
		return &evtlog.NonMonotonicError{Stream: w.log.name(), ID: id}
	}
	if err != nil {
		return err
	}
	return w.checkReceipt(h, id)
}

// accepted takes the answer when it is already buffered and is the id, byte for
// byte, which is nearly always.
func (w *Writer) accepted(id evtid.ID) bool {
	if w.w.err != nil || w.w.unanswered == 0 {
		return false
	}
	var buf [40]byte
	var entry [24]byte
	want := appendBulk(buf[:0], id.AppendEntry(entry[:0]))
	got := w.w.in.buffered()
	if len(got) < len(want) || string(got[:len(want)]) != string(want) {
		return false
	}
	w.w.in.r += len(want)
	w.w.unanswered--
	return true
}

// checkReceipt reads the rest of an answer that did not come in one piece.
func (w *Writer) checkReceipt(h header, id evtid.ID) error {
	if h.kind != '$' || h.n == nilLen || h.n > 64 {
		return w.w.fail(w.op, protocolError("the answer to an append is not an id"))
	}
	for len(w.w.in.buffered()) < int(h.n)+2 {
		if err := w.w.in.fill(); err != nil {
			return w.w.fail(w.op, err)
		}
	}
	got := string(w.w.in.buffered()[:h.n+2])
	w.w.in.r += len(got)
	if want := id.Entry() + "\r\n"; got != want {
		return w.w.fail(w.op, protocolError("the answer to the append of "+id.Entry()+" is of another one"))
	}
	return nil
}

// ReceiveInt reads the answer of the oldest unanswered command, a Publish or a
// Wait. Errors are those of ReceiveAppend.
func (w *Writer) ReceiveInt() (int64, error) { return w.w.integer(w.opPub) }

// Close closes the connection. It may be called twice, and by any goroutine.
func (w *Writer) Close() error { return w.w.close() }
