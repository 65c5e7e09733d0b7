package redislog

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
)

// SkippedRange selects After < id <= To: records that left the live stream
// before a group had finished with them. With an archive they are read from
// there, without one they are lost.
type SkippedRange struct{ After, To evtid.ID }

// Empty reports whether no id lies in the range.
func (r SkippedRange) Empty() bool { return !r.After.Less(r.To) }

func (r SkippedRange) holds(id evtid.ID) bool { return r.After.Less(id) && !r.To.Less(id) }

// String returns the stored form, two entry ids: "1746090000000-0
// 1746090000003-4096". A single pending id k has its predecessor in front.
func (r SkippedRange) String() string { return r.After.Entry() + " " + r.To.Entry() }

// parseSkipped reads the stored form.
func parseSkipped(text string) (SkippedRange, error) {
	after, to, ok := strings.Cut(text, " ")
	if !ok {
		return SkippedRange{}, fmt.Errorf("%q is not two entry ids", text)
	}
	var r SkippedRange
	var err error
	if r.After, err = evtid.ParseEntry(after); err != nil {
		return SkippedRange{}, err
	}
	if r.To, err = evtid.ParseEntry(to); err != nil {
		return SkippedRange{}, err
	}
	if r.Empty() {
		return SkippedRange{}, fmt.Errorf("%q holds no id", text)
	}
	return r, nil
}

// SkippedRanges lists the ranges that are recorded for the group, in the order
// they were recorded. Take a lease on one, handle what the archive has of it,
// then RemoveSkipped: in this order a crash repeats and never loses. Elements
// that are no ranges are reported by a *SkippedError; the ranges are returned
// all the same.
func (l *Log) SkippedRanges(ctx context.Context, group string) ([]SkippedRange, error) {
	if err := keyspace.CheckGroup(group); err != nil {
		return nil, err
	}
	key := l.stream.Skipped(group)
	var texts []string
	err := l.ask(ctx, "LRANGE skipped "+group, command{"LRANGE", key, 0, -1}, func(reply any) (err error) {
		texts, err = words(reply)
		return err
	})
	if err != nil {
		return nil, err
	}
	return parseRanges(key, texts)
}

// parseRanges reads a whole list; see SkippedRanges for the error.
func parseRanges(key string, texts []string) (ranges []SkippedRange, odd error) {
	ranges = make([]SkippedRange, 0, len(texts))
	for _, text := range texts {
		r, err := parseSkipped(text)
		if err == nil {
			ranges = append(ranges, r)
		} else if odd == nil {
			odd = &SkippedError{Key: key, Text: text, Err: err}
		}
	}
	return ranges, odd
}

// AddSkipped records further ranges for the group in one step: what a member
// learns of that is no longer in the stream, such as Claimed.Deleted. Ranges
// that are in the list already are recorded twice.
func (l *Log) AddSkipped(ctx context.Context, group string, ranges ...SkippedRange) error {
	if err := keyspace.CheckGroup(group); err != nil || len(ranges) == 0 {
		return err
	}
	for _, r := range ranges {
		if r.Empty() {
			return badArgument("AddSkipped", "range", r.String()+" holds no id")
		}
	}
	return l.with(ctx, "add skipped "+group, func(s *session) error {
		replies, _, err := s.transaction(pushRanges(l.stream.Skipped(group), ranges)...)
		if err != nil {
			return err
		}
		return s.firstRefusal(replies)
	})
}

// SkippedError is an element of a list of skipped ranges that is none: another
// program wrote it. Remove it with LREM.
type SkippedError struct {
	Key, Text string
	Err       error
}

// Error implements error.
func (e *SkippedError) Error() string {
	return fmt.Sprintf("redislog: %s holds %q, which is not a range (%v); another program wrote it, remove it with LREM", e.Key, e.Text, e.Err)
}

// Unwrap returns what is wrong with the text.
func (e *SkippedError) Unwrap() error { return e.Err }

// RemoveSkipped removes one occurrence of a range that was handled. A range that
// is not in the list is no error: another member handled it too.
func (l *Log) RemoveSkipped(ctx context.Context, group string, r SkippedRange) error {
	if err := keyspace.CheckGroup(group); err != nil {
		return err
	}
	return l.ask(ctx, "LREM skipped "+group, command{"LREM", l.stream.Skipped(group), 1, r.String()}, nil)
}

// ShrinkSkipped replaces a range by what is left of it above done, in one step,
// so that a big range can be handled in chunks. done at or above r.To removes
// it. A range that is not in the list any more, because a member took out of it
// what it had finished, stays as it is: what is left of it comes again.
func (l *Log) ShrinkSkipped(ctx context.Context, group string, r SkippedRange, done evtid.ID) error {
	rest := SkippedRange{After: maxID(r.After, done), To: r.To}
	if rest.Empty() {
		return l.RemoveSkipped(ctx, group, r)
	}
	return l.replaceSkipped(ctx, group, r, rest)
}

// SplitSkipped gives each of the ids that lie in a range a range of its own, in
// one step. A range that is not in the list any more stays as it is.
func (l *Log) SplitSkipped(ctx context.Context, group string, r SkippedRange, ids []evtid.ID) error {
	parts := r.Without(ids)
	for _, id := range ids {
		if r.holds(id) {
			parts = append(parts, SkippedRange{After: id.Prev(), To: id})
		}
	}
	return l.replaceSkipped(ctx, group, r, parts...)
}

// JoinSkipped replaces ranges that follow each other by one range over all of them,
// in one step: every step of work reads the whole list. Nothing is done when one of
// them is not in the list any more, or when there is a gap between them.
func (l *Log) JoinSkipped(ctx context.Context, group string, ranges ...SkippedRange) error {
	if err := keyspace.CheckGroup(group); err != nil {
		return err
	}
	joined := normalRanges(ranges)
	if len(ranges) < 2 || len(joined) != 1 {
		return nil
	}
	key := l.stream.Skipped(group)
	cmds := pushRanges(key, joined)
	for _, r := range ranges {
		cmds = append(cmds, command{"LREM", key, 1, r.String()})
	}
	return l.watching(ctx, "join skipped "+group, []string{key}, func(s *session) (bool, error) {
		reply, err := s.do(command{"LRANGE", key, 0, -1})
		if err != nil {
			return false, err
		}
		texts, err := words(reply)
		if err != nil {
			return false, err
		}
		there := make(map[string]bool, len(texts))
		for _, text := range texts {
			there[text] = true
		}
		if slices.ContainsFunc(ranges, func(r SkippedRange) bool { return !there[r.String()] }) {
			return true, nil
		}
		replies, done, err := s.transaction(cmds...)
		if err != nil || !done {
			return false, err
		}
		return true, s.firstRefusal(replies)
	})
}

// replaceSkipped replaces a range by its parts, if it is still there.
func (l *Log) replaceSkipped(ctx context.Context, group string, r SkippedRange, parts ...SkippedRange) error {
	if err := keyspace.CheckGroup(group); err != nil {
		return err
	}
	if len(parts) == 1 && parts[0] == r {
		return nil
	}
	key := l.stream.Skipped(group)
	return l.watching(ctx, "replace skipped "+group, []string{key}, func(s *session) (bool, error) {
		reply, err := s.do(command{"LRANGE", key, 0, -1})
		if err != nil {
			return false, err
		}
		texts, err := words(reply)
		if err != nil || !slices.Contains(texts, r.String()) {
			return true, err
		}
		replies, done, err := s.transaction(append(pushRanges(key, parts), command{"LREM", key, 1, r.String()})...)
		if err != nil || !done {
			return false, err
		}
		return true, s.firstRefusal(replies)
	})
}
