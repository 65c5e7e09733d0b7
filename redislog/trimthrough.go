package redislog

import (
	"context"
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

const (
	// optimisticTries bounds how often a transaction is built anew because
	// another trimmer, or the creation of a group, came in between.
	optimisticTries = 16
	// pendingPage is how many pending ids one XPENDING lists.
	pendingPage = 1000
	// pushWords is how many ranges one RPUSH carries.
	pushWords = 500
	// moverName is the member under whose name a group's position is moved. The
	// ':' keeps it apart from every member there can be.
	moverName = "evtlog:trim"
)

// TrimResult is the outcome of TrimThrough.
type TrimResult struct {
	// Through is the newest entry that was removed, zero when nothing was.
	Through evtid.ID
	// Removed counts the entries removed.
	Removed int64
	// Skipped lists, per group, what it was not given or had not acknowledged.
	// It has been recorded in the group's list of skipped ranges.
	Skipped []Skipped
}

// TrimThrough removes all entries at or below through, and records in the same
// transaction what each group is skipped over. The caller has made sure that the
// records are in the archive and has sealed the watermark (Seal), or has no
// archive. A group that was recorded has its position moved to the newest
// removed entry, so that it is recorded once.
//
// When the server is out of memory the same steps run as one script, because
// the server then refuses transactions whole; without that, room could not be
// made. A user that may not run scripts gets evtlog.ErrOutOfMemory, unless all
// groups are past the target: then the entries go without a record.
//
// A *TrimEffectError says that the server removed other entries than asked.
func (l *Log) TrimThrough(ctx context.Context, through evtid.ID) (result TrimResult, err error) {
	if through.IsZero() {
		return TrimResult{}, badArgument("TrimThrough", "through", "it is the zero id")
	}
	err = l.with(ctx, "trim", func(s *session) error {
		for range optimisticTries {
			done := false
			if result, done, err = l.tryTrim(s, through); done || err != nil {
				return err
			}
		}
		return s.contended(l.stream.Epoch())
	})
	return result, err
}

// contended is the error of an optimistic transaction that never got through.
func (s *session) contended(key string) error {
	return fmt.Errorf("redislog: %s gave up after %d tries, other transactions keep changing %s; try again: %w", s.op, optimisticTries, key, evtlog.ErrUnavailable)
}

// trimFacts is what a trimmer reads before it decides.
type trimFacts struct {
	epoch string
	// first is the oldest live entry, as the server writes it, and from the
	// largest id below it.
	first string
	from  evtid.ID
	// target is the newest live entry at or below what was asked; found is false
	// when there is none.
	target evtid.ID
	found  bool
	groups []groupState
}

func (l *Log) tryTrim(s *session, through evtid.ID) (TrimResult, bool, error) {
	if _, err := s.do(command{"WATCH", l.stream.Epoch()}); err != nil {
		return TrimResult{}, false, err
	}
	facts, err := l.readTrimFacts(s, through)
	if err != nil || !facts.found {
		return TrimResult{}, !facts.found, err
	}
	from := facts.from
	if s.c.canMoveGroups {
		// The group's position tells exactly; what foreign trims took from below
		// is recorded as well.
		from = evtid.ID{}
	}
	skips := planSkips(facts.groups, from, facts.target)
	cmds := l.trimCommands(s.c.canMoveGroups, skips, facts.target)
	replies, done, err := s.optimistic(l.stream, facts.epoch, cmds...)
	if outOfMemory(err) {
		return l.trimUnrecorded(s, facts, err)
	}
	if err != nil || !done {
		return TrimResult{}, false, err
	}
	result := TrimResult{Through: facts.target, Skipped: skips}
	result.Removed, err = l.trimEffect(s, facts.target, replies)
	return result, true, err
}

func outOfMemory(err error) bool { return errors.Is(err, evtlog.ErrOutOfMemory) }

// readTrimFacts reads the groups' positions before their pending lists: what is
// delivered in between is then recorded once too often, and never not at all.
func (l *Log) readTrimFacts(s *session, through evtid.ID) (facts trimFacts, err error) {
	key := l.stream.Key()
	replies, err := s.pipeline(
		command{"GET", l.stream.Epoch()},
		command{"XRANGE", key, "-", "+", "COUNT", 1},
		command{"XREVRANGE", key, through.Entry(), "-", "COUNT", 1},
		command{"XINFO", "GROUPS", key},
	)
	if err != nil {
		return facts, err
	}
	if err := s.firstRefusal(replies[:3]); err != nil {
		return facts, err
	}
	facts.epoch, _ = redis.String(replies[0], nil)
	oldest, first, _, err := firstID(replies[1])
	if err != nil {
		return facts, err
	}
	facts.first, facts.from = first, oldest.Prev()
	facts.target, _, facts.found, err = firstID(replies[2])
	if err != nil || !facts.found {
		return facts, err
	}
	if err := s.refusal(replies[3]); err != nil {
		return facts, err
	}
	groups, err := groupsOf(replies[3])
	if err != nil {
		return facts, err
	}
	facts.groups, err = l.groupStates(s, groups, facts)
	return facts, err
}

func (l *Log) groupStates(s *session, groups []GroupInfo, facts trimFacts) ([]groupState, error) {
	states := make([]groupState, 0, len(groups))
	for _, g := range groups {
		older, err := l.olderPending(s, g.Name, facts.from)
		if err != nil {
			return nil, err
		}
		pending, err := l.pendingIDs(s, g.Name, facts.first, facts.target)
		if err != nil {
			return nil, err
		}
		states = append(states, groupState{name: g.Name, last: g.LastDelivered, pending: append(older, pending...)})
	}
	return states, nil
}

// olderPending lists pending ids whose body left the stream earlier without
// being recorded: a foreign trim, or a plain one, took it. Ids that this kind of
// trim took are in the list, and would otherwise be recorded again each time. One
// page is looked at, so that a group with a long dead member costs the same at
// every trim.
func (l *Log) olderPending(s *session, group string, from evtid.ID) ([]evtid.ID, error) {
	if from.IsZero() {
		return nil, nil
	}
	ids, _, _, err := l.pendingPage(s, group, "-", from)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	reply, err := s.do(command{"LRANGE", l.stream.Skipped(group), 0, -1})
	if err != nil {
		return nil, err
	}
	texts, err := words(reply)
	if err != nil {
		return nil, err
	}
	recorded, _ := parseRanges(l.stream.Skipped(group), texts)
	return uncovered(ids, recorded), nil
}

// pendingIDs lists all pending ids of the group from an entry id to target.
func (l *Log) pendingIDs(s *session, group, from string, target evtid.ID) ([]evtid.ID, error) {
	var all []evtid.ID
	for {
		ids, next, more, err := l.pendingPage(s, group, from, target)
		all = append(all, ids...)
		if err != nil || !more {
			return all, err
		}
		from = next
	}
}

// pendingPage lists one page of them, and where the next begins. Foreign
// positions are left out: they are in no archive, so there is nothing to record.
func (l *Log) pendingPage(s *session, group, from string, to evtid.ID) (ids []evtid.ID, next string, more bool, err error) {
	reply, err := s.do(command{"XPENDING", l.stream.Key(), group, from, to.Entry(), pendingPage})
	if err != nil {
		return nil, "", false, err
	}
	page, err := pendingOf(reply)
	for _, p := range page {
		if p.Raw != "" {
			next = "(" + p.Raw
			continue
		}
		ids = append(ids, p.ID)
		next = p.ID.Next().Entry()
	}
	return ids, next, len(page) == pendingPage, err
}

// trimCommands is the transaction. It ends with the trim between two looks at the
// oldest entry, for trimEffect.
func (l *Log) trimCommands(move bool, skips []Skipped, target evtid.ID) []command {
	key := l.stream.Key()
	var cmds []command
	for _, skip := range skips {
		cmds = append(cmds, pushRanges(l.stream.Skipped(skip.Group), skip.ranges())...)
		if move && !skip.Range.Empty() {
			// Claims nothing (0-0 is never pending); LASTID moves the group's
			// position up, never down. Some versions create the member.
			cmds = append(cmds,
				command{"XCLAIM", key, skip.Group, moverName, 0, "0-0", "LASTID", target.Entry(), "JUSTID"},
				command{"XGROUP", "DELCONSUMER", key, skip.Group, moverName})
		}
	}
	return append(cmds,
		command{"INCR", l.stream.Epoch()},
		// Not "(target": a foreign entry can stand between target and the next id.
		command{"XRANGE", key, target.Next().Entry(), "+", "COUNT", 1},
		command{"XTRIM", key, "MINID", "=", target.Next().Entry()},
		command{"XRANGE", key, "-", "+", "COUNT", 1},
	)
}

func pushRanges(key string, ranges []SkippedRange) []command {
	var cmds []command
	for len(ranges) > 0 {
		n := min(len(ranges), pushWords)
		cmd := command{"RPUSH", key}
		for _, r := range ranges[:n] {
			cmd = append(cmd, r.String())
		}
		cmds = append(cmds, cmd)
		ranges = ranges[n:]
	}
	return cmds
}

// trimEffect looks at every answer of the transaction, and compares the oldest
// entry after the trim with the one that should be.
func (l *Log) trimEffect(s *session, target evtid.ID, replies []any) (removed int64, err error) {
	for _, r := range replies {
		// A group that a foreign program destroyed meanwhile needs no record.
		if err := s.refusal(r); err != nil && !errors.Is(lookUpErr(err), evtlog.ErrNoGroup) {
			return 0, err
		}
	}
	tail := replies[len(replies)-3:]
	_, want, _, err := firstID(tail[0])
	if err != nil {
		return 0, err
	}
	removed = intOr(tail[1], 0)
	_, got, _, err := firstID(tail[2])
	if err != nil {
		return removed, err
	}
	if got != want {
		return removed, &TrimEffectError{Stream: l.name(), Through: target, Want: want, Got: got}
	}
	return removed, nil
}

// trimUnrecorded makes room when nothing can be recorded for lack of memory: it
// removes what every group has been given and has acknowledged.
func (l *Log) trimUnrecorded(s *session, facts trimFacts, cause error) (TrimResult, bool, error) {
	target := safeTarget(facts.groups, facts.from, facts.target)
	if target.IsZero() {
		return TrimResult{}, true, cause
	}
	reply, err := s.do(command{"XTRIM", l.stream.Key(), "MINID", "=", target.Next().Entry()})
	removed := intOr(reply, 0)
	if err != nil || removed == 0 {
		return TrimResult{}, true, cause
	}
	return TrimResult{Through: target, Removed: removed}, true, nil
}
