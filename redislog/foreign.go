package redislog

import (
	"context"
	"fmt"
	"iter"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

// ForeignEntry is an entry at a position that no EVT id can have: before 2024, past
// the last id, or with a sequence above 4194303. A foreign writer that makes its
// own ids put it there, and readers stop in front of it.
type ForeignEntry struct {
	// Entry is the entry id as the server writes it.
	Entry string
	// Fields is the whole body, an id field included.
	Fields []evtlog.Field
	// Newest is the newest record that stands below it in the stream, zero when none
	// does; Records counts them.
	Newest  evtid.ID
	Records int64
}

// foreignPage is how many entries one look reads.
const foreignPage = 1000

// Foreign finds the foreign entries of the live stream, oldest first. It reads the
// whole stream, page by page: for operators, not for a hot loop. The sequence ends
// after the first error. Fields belong to the receiver.
func (l *Log) Foreign(ctx context.Context) iter.Seq2[ForeignEntry, error] {
	return func(yield func(ForeignEntry, error) bool) {
		var below ForeignEntry
		for from := "-"; from != ""; {
			page, next, err := l.rawPage(ctx, from)
			if err != nil {
				yield(ForeignEntry{}, err)
				return
			}
			for _, e := range page {
				if e.Raw == "" {
					below.Newest = e.ID
					below.Records++
					continue
				}
				if !yield(ForeignEntry{Entry: e.Raw, Fields: e.Fields, Newest: below.Newest, Records: below.Records}, nil) {
					return
				}
			}
			from = next
		}
	}
}

// rawPage reads entries of any position; next is "" behind the last page.
func (l *Log) rawPage(ctx context.Context, from string) (page []Entry, next string, err error) {
	op := l.op("XRANGE")
	err = l.with(ctx, "XRANGE", func(s *session) error {
		return s.byHand(func(w *wire) (err error) {
			w.encodeRange("XRANGE", l.stream.Key(), from, "+", foreignPage)
			if err := w.flush(op, 0); err != nil {
				return err
			}
			page, err = w.rawEntries(op)
			return err
		})
	})
	if err != nil || len(page) < foreignPage {
		return page, "", err
	}
	last := page[len(page)-1]
	if last.Raw != "" {
		return page, "(" + last.Raw, nil
	}
	return page, "(" + last.ID.Entry(), nil
}

// rawEntries reads the answer of a range, foreign entries included.
func (w *wire) rawEntries(op string) ([]Entry, error) {
	count, err := w.array(op)
	if err != nil || count <= 0 {
		return nil, err
	}
	page := make([]Entry, 0, min(count, foreignPage))
	for range count {
		e, ok, err := w.in.entry()
		if err == nil && (!ok || e.Missing) {
			err = protocolError("a range holds an entry without a body")
		}
		if err != nil {
			return nil, w.fail(op, err)
		}
		page = append(page, e)
	}
	return page, nil
}

// ForeignHeldError says that a foreign entry was not removed because it is not the
// oldest of the stream. Archive and trim what stands below it first.
type ForeignHeldError struct {
	Stream evtlog.StreamName
	// Entry is the foreign entry, Oldest the oldest of the stream; "" when the stream
	// is empty.
	Entry, Oldest string
}

// Error implements error.
func (e *ForeignHeldError) Error() string {
	return fmt.Sprintf("redislog: foreign entry %s of %s is not removed: the oldest entry is %q; archive and trim what stands below it first", e.Entry, e.Stream, e.Oldest)
}

// RemoveForeign removes a foreign entry that is the oldest of the stream, by a
// trim, and acknowledges it for every group. An entry further up is left in peace
// (*ForeignHeldError): a deletion in the middle of a stream can make newer servers
// write snapshots that they cannot load. A position that an EVT id can have is
// refused, whatever stands there.
func (l *Log) RemoveForeign(ctx context.Context, entry string) error {
	next, err := afterForeign(entry)
	if err != nil {
		return err
	}
	return l.with(ctx, "remove foreign "+entry, func(s *session) error {
		key := l.stream.Key()
		replies, err := s.pipeline(command{"XRANGE", key, "-", "+", "COUNT", 1}, command{"XINFO", "GROUPS", key})
		if err != nil {
			return err
		}
		if err := s.refusal(replies[0]); err != nil {
			return err
		}
		if _, oldest, _, err := firstID(replies[0]); err != nil || oldest != entry {
			return orHeld(err, &ForeignHeldError{Stream: l.name(), Entry: entry, Oldest: oldest})
		}
		groups, err := groupsOf(replies[1])
		if err != nil {
			return err
		}
		var cmds []command
		for _, g := range groups {
			cmds = append(cmds, command{"XACK", key, g.Name, entry})
		}
		// Nothing can have come below it meanwhile: entries are added at the top.
		replies, err = s.all(append(cmds, command{"XTRIM", key, "MINID", "=", next})...)
		if err != nil {
			return err
		}
		if n := intOr(replies[len(cmds)], 0); n != 1 {
			return fmt.Errorf("redislog: %s: the trim removed %d entries, not 1: another program trims the stream, or the server trims wrongly; look at the stream before going on", s.op, n)
		}
		return nil
	})
}

func orHeld(err error, held *ForeignHeldError) error {
	if err != nil {
		return err
	}
	return held
}

// afterForeign returns the first position above a foreign one.
func afterForeign(entry string) (next string, err error) {
	ms, seq, ok := cutPosition(entry)
	if !ok {
		return "", badArgument("RemoveForeign", "entry", fmt.Sprintf("%q is not an entry id", entry))
	}
	full := fmt.Sprintf("%d-%d", ms, seq)
	if id, err := evtid.ParseEntry(full); err == nil {
		return "", badArgument("RemoveForeign", "entry", fmt.Sprintf("%s is the record %s, and records are not removed", full, id))
	}
	return positionAfter(full), nil
}
