package redislog

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
)

// Yield gives entries back that a member holds and will not work on: they stay
// pending under its name, but count as untouched for idle, so that the next
// member that looks for entries of silent peers takes them. The delivery count
// stays. Entries that the member does not own any more are left alone.
func (l *Log) Yield(ctx context.Context, group, consumer string, ids []evtid.ID, idle time.Duration) error {
	if err := checkGroupMember(group, consumer); err != nil || len(ids) == 0 {
		return err
	}
	return l.with(ctx, "yield "+group+"/"+consumer, func(s *session) error {
		owned, oldest, err := l.ownedOf(s, group, consumer, ids)
		if err != nil {
			return err
		}
		claim := command{"XCLAIM", l.stream.Key(), group, consumer, 0}
		for _, id := range owned {
			if !id.Less(oldest) {
				claim = append(claim, id.Entry())
			}
		}
		if len(claim) == 5 {
			return nil
		}
		_, err = s.do(append(claim, "IDLE", millis(idle), "JUSTID"))
		return err
	})
}

// HandOver gives the pending entries of one member to another one, up to a
// thousand at a time, and returns how many it moved. Only entries that were not
// touched for minIdle are taken, so that a member at work keeps its own. With
// their new owner they count as untouched for as long, so that whichever member
// looks first for entries of silent peers takes them. Entries whose body was
// trimmed are recorded as skipped ranges of the group, in the same transaction.
func (l *Log) HandOver(ctx context.Context, group, from, to string, minIdle time.Duration) (moved int64, err error) {
	if err := errors.Join(checkGroupMember(group, from), keyspace.CheckMember(to)); err != nil {
		return 0, err
	}
	if from == to {
		return 0, badArgument("HandOver", "to", "it is the same member")
	}
	list, err := l.pendingCommand(group, evtid.ID{}, pendingPage, from, minIdle)
	if err != nil {
		return 0, err
	}
	err = l.watching(ctx, "hand over "+group+"/"+from, []string{l.stream.Epoch()}, func(s *session) (bool, error) {
		cmds, n, err := l.handOverCommands(s, group, to, list, minIdle)
		if err != nil || n == 0 {
			return true, err
		}
		replies, done, err := s.transaction(cmds...)
		if err != nil || !done {
			return false, err
		}
		moved = n
		return true, s.firstRefusal(replies)
	})
	return moved, err
}

// handOverCommands looks at what is pending and says what to do with it. No trim
// of this kind can come in between: it changes the epoch.
func (l *Log) handOverCommands(s *session, group, to string, list command, minIdle time.Duration) (cmds []command, n int64, err error) {
	key, skipped := l.stream.Key(), l.stream.Skipped(group)
	replies, err := s.all(list, command{"XRANGE", key, "-", "+", "COUNT", 1}, command{"LRANGE", skipped, 0, -1})
	if err != nil {
		return nil, 0, err
	}
	page, err := pendingOf(replies[0])
	if err != nil {
		return nil, 0, err
	}
	oldest, _, found, err := firstID(replies[1])
	if err != nil {
		return nil, 0, err
	}
	texts, err := words(replies[2])
	if err != nil {
		return nil, 0, err
	}
	recorded, _ := parseRanges(skipped, texts)
	moving, trimmed := splitPending(page, oldest, found)
	cmds = pushRanges(skipped, pendingRanges(uncovered(trimmed, recorded)))
	if len(trimmed) > 0 {
		ack := command{"XACK", key, group}
		for _, id := range trimmed {
			ack = append(ack, id.Entry())
		}
		cmds = append(cmds, ack)
	}
	if len(moving) > 0 {
		claim := redis.Args{"XCLAIM", key, group, to, millis(minIdle)}.AddFlat(moving)
		cmds = append(cmds, command(claim.Add("IDLE", millis(minIdle), "JUSTID")))
	}
	return cmds, int64(len(page)), nil
}

// splitPending tells pending entries that are in the stream from those that are
// not any more. A foreign entry is moved in any case: nothing can be recorded
// for it.
func splitPending(page []PendingEntry, oldest evtid.ID, found bool) (moving []string, trimmed []evtid.ID) {
	for _, p := range page {
		switch {
		case p.Raw != "":
			moving = append(moving, p.Raw)
		case !found || p.ID.Less(oldest):
			trimmed = append(trimmed, p.ID)
		default:
			moving = append(moving, p.ID.Entry())
		}
	}
	return moving, trimmed
}

// noSuchGroup is the error about a group that is not there.
func (l *Log) noSuchGroup(verb, group string) error {
	return serverError(l.op(verb), l.c.ep.addr, "NOGROUP there is no group "+group)
}
