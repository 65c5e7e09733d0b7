package redislog

import (
	"context"
	"errors"
	"slices"
	"time"

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
		oldest, err := l.oldest(s)
		if err != nil {
			return err
		}
		owned, err := l.ownedOf(s, group, consumer, ids)
		if err != nil {
			return err
		}
		live := idsFrom(owned, oldest)
		if len(live) == 0 {
			return nil
		}
		claim := command{"XCLAIM", l.stream.Key(), group, consumer, 0}
		for _, id := range live {
			claim = append(claim, id.Entry())
		}
		reply, err := s.do(append(claim, "IDLE", millis(idle), "JUSTID"))
		if err != nil {
			return err
		}
		_, err = l.recordDeleted(s, group, live, []any{reply})
		return err
	})
}

// HandOver gives the pending entries of one member to another one, up to a
// thousand at a time, and returns how many it moved. Only entries that were not
// touched for minIdle are taken, so that a member at work keeps its own. With
// their new owner they count as untouched for as long, so that whichever member
// looks first for entries of silent peers takes them. Entries whose body was
// trimmed are recorded as skipped ranges of the group, in the same transaction,
// unless their member still works on them.
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
		oldest, err := l.oldest(s)
		if err != nil {
			return false, err
		}
		idle, err := l.idleOf(s, group, list, oldest, minIdle)
		if err != nil {
			return false, err
		}
		cmds := append(l.recordCommands(group, idle), l.moveCommand(group, to, idle.live, minIdle)...)
		if len(cmds) == 0 {
			return true, nil
		}
		replies, done, err := s.transaction(cmds...)
		if err != nil || !done {
			return false, err
		}
		moved = int64(len(idle.live) + len(idle.trimmed))
		if err := s.firstRefusal(replies); err != nil || len(idle.live) == 0 {
			return true, err
		}
		asked := pendingIDsOf(slices.DeleteFunc(idle.live, isForeign))
		_, err = l.recordDeleted(s, group, asked, replies[len(replies)-1:])
		return true, err
	})
	return moved, err
}

// moveCommand gives entries to a member, as untouched for idle as they are.
func (l *Log) moveCommand(group, to string, entries []PendingEntry, idle time.Duration) []command {
	if len(entries) == 0 {
		return nil
	}
	claim := command{"XCLAIM", l.stream.Key(), group, to, millis(idle)}
	for _, p := range entries {
		claim = append(claim, entryText(p))
	}
	return []command{append(claim, "IDLE", millis(idle), "JUSTID")}
}

// noSuchGroup is the error about a group that is not there.
func (l *Log) noSuchGroup(verb, group string) error {
	return serverError(l.op(verb), l.c.ep.addr, "NOGROUP there is no group "+group)
}
