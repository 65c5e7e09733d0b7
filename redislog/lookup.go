package redislog

import (
	"context"

	"github.com/gomodule/redigo/redis"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

// Lookup is the answer to "is this id in the stream".
type Lookup struct {
	// Found says whether the stream holds an entry at the position. Record is
	// that entry.
	Found  bool
	Record evtlog.Record
	// Exists says whether the stream exists at all. Top is its
	// last-generated-id; the entry and the top were read in one step.
	Exists bool
	Top    evtid.ID
}

// Lookup reads one id back, for an append whose answer was lost. It dials a
// connection of its own: what was sent on a former one may still be executed
// after the look-up, so an absent id above the top is not a rejection.
func (l *Log) Lookup(ctx context.Context, id evtid.ID) (Lookup, error) {
	op := l.op("look up " + id.String())
	if id.IsZero() {
		return Lookup{}, badArgument("Lookup", "id", "it is the zero id")
	}
	w, _, err := l.private(ctx, "lookup", "")
	if err != nil {
		return Lookup{}, err
	}
	defer w.close()
	stop := w.until(ctx)
	found, err := l.lookupOn(w, op, id)
	if stop() && err != nil {
		err = &ConnError{Op: op, Addr: l.c.ep.addr, Err: context.Cause(ctx)}
	}
	return found, err
}

func (l *Log) lookupOn(w *wire, op string, id evtid.ID) (Lookup, error) {
	entry := id.Entry()
	w.out = appendCommand(w.out, "MULTI")
	w.out = appendCommand(w.out, "XINFO", "STREAM", l.stream.Key())
	w.out = appendCommand(w.out, "XRANGE", l.stream.Key(), entry, entry)
	w.out = appendCommand(w.out, "EXEC")
	w.unanswered += 4
	if err := w.flush(op, 0); err != nil {
		return Lookup{}, err
	}
	for range 3 {
		if _, err := w.answer(op); err != nil {
			return Lookup{}, err
		}
	}
	count, err := w.array(op)
	if err != nil {
		return Lookup{}, err
	}
	if count != 2 {
		return Lookup{}, w.fail(op, protocolError("EXEC did not answer both commands"))
	}
	// Inside EXEC both answers belong to one command.
	w.unanswered += 2
	return l.lookupParts(w, op)
}

func (l *Log) lookupParts(w *wire, op string) (found Lookup, err error) {
	info, err := w.value(op)
	if err != nil {
		return Lookup{}, err
	}
	if refused, ok := info.(redis.Error); ok {
		if err := serverError(op, w.addr, string(refused)); !isNoKey(err) {
			return Lookup{}, err
		}
	} else {
		found.Exists = true
		if found.Top, err = topOf(info); err != nil {
			return Lookup{}, w.fail(op, err)
		}
	}
	records, err := w.records(op, l.name(), 1)
	if err != nil {
		return Lookup{}, err
	}
	if len(records) == 1 {
		found.Found, found.Record = true, records[0]
	}
	return found, nil
}

// value reads any answer in redigo's terms: string, int64, []byte, []any, nil or
// redis.Error.
func (w *wire) value(op string) (any, error) {
	size, err := w.in.whole()
	if err != nil {
		return nil, w.fail(op, err)
	}
	v, _, err := parseValue(w.in.buffered()[:size], 0)
	if err != nil {
		return nil, w.fail(op, err)
	}
	w.in.r += size
	w.unanswered--
	return v, nil
}

// maxDepth bounds the recursion of parseValue; no answer comes near it.
const maxDepth = 32

// parseValue decodes the reply at the start of b, which holds all of it.
func parseValue(b []byte, depth int) (v any, size int, err error) {
	if depth > maxDepth {
		return nil, 0, protocolError("an answer nests too deep")
	}
	h, err := parseHeader(b)
	if err != nil {
		return nil, 0, err
	}
	switch h.kind {
	case '+':
		return string(h.text), h.size, nil
	case '-':
		return redis.Error(h.text), h.size, nil
	case ':':
		return h.n, h.size, nil
	case '$':
		word, err := parseBulk(b, 0)
		if err != nil || word.start == nilLen {
			return nil, h.size, err
		}
		return append([]byte{}, b[word.start:word.end]...), word.next, nil
	}
	if h.n == nilLen {
		return nil, h.size, nil
	}
	// An element takes at least three bytes, so b bounds what is allocated.
	list := make([]any, 0, min(h.n, int64(len(b)/3)))
	size = h.size
	for range h.n {
		element, n, err := parseValue(b[size:], depth+1)
		if err != nil {
			return nil, 0, err
		}
		list = append(list, element)
		size += n
	}
	return list, size, nil
}

// KillClient ends another connection by its ClientID, so that nothing that was
// sent on it can be executed any more: after it returned, a Lookup is final. It
// is no error when that connection is gone already. It does not reach through a
// proxy that shares connections between clients.
func (l *Log) KillClient(ctx context.Context, clientID int64) error {
	if clientID <= 0 {
		return badArgument("KillClient", "client id", "the server did not tell it; append a later record instead, and look up again")
	}
	return l.ask(ctx, "CLIENT KILL", command{"CLIENT", "KILL", "ID", clientID}, nil)
}
