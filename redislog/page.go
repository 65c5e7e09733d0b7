package redislog

import (
	"context"

	"github.com/gomodule/redigo/redis"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

// firstEntry is the position of the first id there can be. Reads begin there, so
// that what a foreign writer put before 2024 is outside of every window.
const firstEntry = "1704067200000-0"

// Last returns the stream's last-generated-id: the newest id that was ever
// appended, trimmed or not. It is the zero ID when the stream does not exist. A
// top that no EVT id can have is rounded down to the largest id below it.
func (l *Log) Last(ctx context.Context) (evtid.ID, error) {
	var last evtid.ID
	err := l.ask(ctx, "XINFO STREAM", command{"XINFO", "STREAM", l.stream.Key()}, func(reply any) (err error) {
		last, err = topOf(reply)
		return err
	})
	if isNoKey(err) {
		return evtid.ID{}, nil
	}
	return last, err
}

// topOf reads last-generated-id out of an answer of XINFO STREAM.
func topOf(reply any) (evtid.ID, error) {
	top, err := redis.String(flatMap(reply)["last-generated-id"], nil)
	if err != nil {
		return evtid.ID{}, protocolError("no last-generated-id")
	}
	if top == "" {
		// What miniredis says of a stream that was made but never written.
		return evtid.ID{}, nil
	}
	return floorPosition(top)
}

// Page returns up to n records with after < id <= to in mint order, and then, in
// the same round trip and read after them, the floor: the newest archived id as
// the archiver has published it, the zero ID when there is none. A zero to
// selects nothing.
//
// An entry in the range whose position no EVT id can have ends the page with a
// *evtlog.ForeignEntryError; the records before it are returned with it.
func (l *Log) Page(ctx context.Context, after, to evtid.ID, n int) ([]evtlog.Record, evtid.ID, error) {
	if n <= 0 {
		return nil, evtid.ID{}, badArgument("Page", "n", "it must be positive")
	}
	var page []evtlog.Record
	var floor evtid.ID
	op := l.op("XRANGE")
	err := l.with(ctx, "XRANGE", func(s *session) error {
		return s.byHand(func(w *wire) error {
			w.encodeRange("XRANGE", l.stream.Key(), lowerBound(after), to.Entry(), n)
			w.encodeRange("XREVRANGE", l.stream.Floor(), "+", "-", 1)
			if err := w.flush(op, 0); err != nil {
				return err
			}
			var pageErr, floorErr error
			page, pageErr = w.records(op, l.name(), n)
			if floor, floorErr = w.floor("XREVRANGE " + l.stream.Floor()); pageErr == nil {
				pageErr = floorErr
			}
			return pageErr
		})
	})
	return page, floor, err
}

// PageBefore returns up to n records with after < id <= to, newest first. Errors
// and bounds are those of Page.
func (l *Log) PageBefore(ctx context.Context, after, to evtid.ID, n int) ([]evtlog.Record, error) {
	if n <= 0 {
		return nil, badArgument("PageBefore", "n", "it must be positive")
	}
	var page []evtlog.Record
	op := l.op("XREVRANGE")
	err := l.with(ctx, "XREVRANGE", func(s *session) error {
		return s.byHand(func(w *wire) (err error) {
			w.encodeRange("XREVRANGE", l.stream.Key(), to.Entry(), lowerBound(after), n)
			if err := w.flush(op, 0); err != nil {
				return err
			}
			page, err = w.records(op, l.name(), n)
			return err
		})
	})
	return page, err
}

// lowerBound is the exclusive bound of XRANGE, or the first position of all.
func lowerBound(after evtid.ID) string {
	if after.IsZero() {
		return firstEntry
	}
	return "(" + after.Entry()
}

func (w *wire) encodeRange(verb, key, from, to string, n int) {
	w.out = appendArray(w.out, 6)
	for _, word := range [...]string{verb, key, from, to, "COUNT"} {
		w.out = appendBulk(w.out, word)
	}
	w.out = appendInt(w.out, int64(n))
	w.unanswered++
}

// records reads the answer of a range. It always reads it to the end, so that
// the connection stays usable after a foreign entry.
func (w *wire) records(op string, stream evtlog.StreamName, n int) ([]evtlog.Record, error) {
	count, err := w.array(op)
	if err != nil || count <= 0 {
		return nil, err
	}
	page := make([]evtlog.Record, 0, min(count, int64(n)))
	var foreign error
	for range count {
		e, ok, err := w.in.entry()
		switch {
		case err != nil:
			return nil, w.fail(op, err)
		case !ok || e.Missing:
			return nil, w.fail(op, protocolError("a range holds an entry without a body"))
		case foreign != nil:
		case e.Raw != "":
			foreign = &evtlog.ForeignEntryError{Stream: stream, Entry: e.Raw}
		default:
			page = append(page, e.Record)
		}
	}
	return page, foreign
}

// floor reads the answer of the look at the floor.
func (w *wire) floor(op string) (evtid.ID, error) {
	count, err := w.array(op)
	if err != nil || count <= 0 {
		return evtid.ID{}, err
	}
	if count > 1 {
		return evtid.ID{}, w.fail(op, protocolError("more entries than asked for"))
	}
	e, ok, err := w.in.entry()
	if err == nil && (!ok || e.Raw != "") {
		err = protocolError("the floor is not an id")
	}
	if err != nil {
		return evtid.ID{}, w.fail(op, err)
	}
	return e.ID, nil
}
