package redislog

import (
	"context"
	"fmt"

	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
)

// Behind returns a handle that knows the stream's archive. Seek and PlanSeek of
// that handle ask it how far it reaches: what it holds can have left the stream
// although the floor does not say so, as when the floor key was deleted, was never
// written, or went with everything else in a FLUSHALL. Without it they know only
// what Redis tells. CreateGroup is told by StartAt.Behind.
func (l *Log) Behind(a Archived) *Log { return &Log{c: l.c, stream: l.stream, arch: a} }

// PlanSeek says what moving a group would do, and changes nothing. target is the
// position the group is to have: the first record above it is delivered next; the
// zero ID is the head of the log. Without such a group it is evtlog.ErrNoGroup.
func (l *Log) PlanSeek(ctx context.Context, group string, target evtid.ID) (plan SeekPlan, err error) {
	if err := keyspace.CheckGroup(group); err != nil {
		return SeekPlan{}, err
	}
	err = l.with(ctx, "plan seek "+group, func(s *session) error {
		facts, err := l.seekFacts(s, group)
		if err == nil {
			plan = planSeek(facts, target)
		}
		return err
	})
	return plan, err
}

// Seek moves a group and returns what that did. The facts of the plan, the new
// position and the new ranges are one transaction.
//
// Stop or pause the group's members first, in every process: what one reads or
// finishes meanwhile is as if it had been before the move or after it. Entries
// that are pending are not touched; below the target they are still finished by
// whoever has them, above it they are delivered again. The server's own count of
// the group's lag is not right afterwards.
func (l *Log) Seek(ctx context.Context, group string, target evtid.ID) (plan SeekPlan, err error) {
	if err := keyspace.CheckGroup(group); err != nil {
		return SeekPlan{}, err
	}
	watch := []string{l.stream.Epoch(), l.stream.Skipped(group)}
	err = l.watching(ctx, "seek "+group, watch, func(s *session) (bool, error) {
		facts, err := l.seekFacts(s, group)
		if err != nil {
			return true, err
		}
		plan = planSeek(facts, target)
		replies, done, err := s.transaction(l.seekCommands(plan)...)
		if err != nil || !done {
			return false, err
		}
		return true, s.firstRefusal(replies)
	})
	return plan, err
}

// seekCommands is the transaction.
func (l *Log) seekCommands(p SeekPlan) []command {
	skipped, at := l.stream.Skipped(p.Group), "0"
	if !p.At.IsZero() {
		at = p.At.Entry()
	}
	cmds := append([]command{{"DEL", skipped}}, pushRanges(skipped, p.Ranges)...)
	return append(cmds,
		command{"INCR", l.stream.Epoch()},
		command{"XGROUP", "SETID", l.stream.Key(), p.Group, at})
}

// CheckSeek compares a group with the plan of a Seek that was done: the position
// is not below the plan's, and no range is recorded that the plan does not hold.
// It changes nothing. Members that have gone on meanwhile are no error.
func (l *Log) CheckSeek(ctx context.Context, plan SeekPlan) error {
	if err := keyspace.CheckGroup(plan.Group); err != nil {
		return err
	}
	return l.with(ctx, "check seek "+plan.Group, func(s *session) error {
		facts, err := l.seekFacts(s, plan.Group)
		if err != nil {
			return err
		}
		if what := seekBroken(plan, facts.group, facts.ranges); what != "" {
			return fmt.Errorf("redislog: %s: group %s is not where it was moved to: %s; another program moved it, plan anew", s.op, plan.Group, what)
		}
		return nil
	})
}

func (l *Log) seekFacts(s *session, group string) (f seekFacts, err error) {
	key := l.stream.Key()
	replies, err := s.pipeline(
		command{"XINFO", "GROUPS", key},
		command{"XREVRANGE", l.stream.Floor(), "+", "-", "COUNT", 1},
		command{"LRANGE", l.stream.Skipped(group), 0, -1},
		command{"XINFO", "STREAM", key},
	)
	if err != nil {
		return f, err
	}
	if err := s.refusalAt(replies[1], "XREVRANGE "+l.stream.Floor()); err != nil {
		return f, err
	}
	if err := s.firstRefusal(replies); err != nil {
		if isNoKey(err) {
			return f, l.noSuchGroup("seek", group)
		}
		return f, err
	}
	if f.group, err = l.groupNamed(replies[0], group); err != nil {
		return f, err
	}
	if f.floor, _, _, err = firstID(replies[1]); err != nil {
		return f, err
	}
	texts, err := words(replies[2])
	if err != nil {
		return f, err
	}
	if f.ranges, err = parseRanges(l.stream.Skipped(group), texts); err != nil {
		return f, err
	}
	if f.top, err = topOf(replies[3]); err != nil || l.arch == nil {
		return f, err
	}
	// Asked behind the WATCH: a trim after this look undoes the transaction, and one
	// before it went no further than the archive now reaches.
	archived, err := l.arch.Watermark(s.ctx)
	f.floor = joinFloor(f.floor, f.top, archived)
	return f, err
}

// groupNamed picks one group of an answer of XINFO GROUPS.
func (l *Log) groupNamed(reply any, group string) (GroupInfo, error) {
	groups, err := groupsOf(reply)
	if err != nil {
		return GroupInfo{}, err
	}
	for _, g := range groups {
		if g.Name == group {
			return g, nil
		}
	}
	return GroupInfo{}, l.noSuchGroup("seek", group)
}
