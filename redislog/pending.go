package redislog

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
)

// PendingEntry is one entry that was delivered and not acknowledged.
type PendingEntry struct {
	ID evtid.ID
	// Raw is the entry id of an entry that stands where no EVT id can; ID is then
	// zero. Else it is "".
	Raw string
	// Consumer is the member that has it.
	Consumer string
	// Idle is the time since it was delivered, claimed or renewed.
	Idle time.Duration
	// Attempts counts the deliveries.
	Attempts int
}

// Pending lists up to n pending entries with id > after, in the order of their
// ids. consumer "" means every member's; minIdle leaves out what was delivered
// more recently. Without such a group it is evtlog.ErrNoGroup.
func (l *Log) Pending(ctx context.Context, group string, after evtid.ID, n int, consumer string, minIdle time.Duration) ([]PendingEntry, error) {
	cmd, err := l.pendingCommand(group, after, n, consumer, minIdle)
	if err != nil {
		return nil, err
	}
	var entries []PendingEntry
	err = l.ask(ctx, "XPENDING "+group, cmd, func(reply any) (err error) {
		entries, err = pendingOf(reply)
		return err
	})
	return entries, err
}

func (l *Log) pendingCommand(group string, after evtid.ID, n int, consumer string, minIdle time.Duration) (command, error) {
	if err := keyspace.CheckGroup(group); err != nil {
		return nil, err
	}
	if n <= 0 {
		return nil, badArgument("Pending", "n", "it must be positive")
	}
	cmd := command{"XPENDING", l.stream.Key(), group}
	if minIdle > 0 {
		cmd = append(cmd, "IDLE", millis(minIdle))
	}
	from := "-"
	if !after.IsZero() {
		from = after.Next().Entry()
	}
	cmd = append(cmd, from, "+", n)
	if consumer == "" {
		return cmd, nil
	}
	return append(cmd, consumer), keyspace.CheckMember(consumer)
}

func pendingOf(reply any) ([]PendingEntry, error) {
	list, _ := reply.([]any)
	entries := make([]PendingEntry, 0, len(list))
	for _, item := range list {
		row, _ := item.([]any)
		if len(row) < 4 {
			return nil, protocolError("a row is not id, consumer, idle, count")
		}
		id, raw, err := entryID(row[0])
		if err != nil {
			return nil, err
		}
		consumer, _ := redis.String(row[1], nil)
		entries = append(entries, PendingEntry{
			ID: id, Raw: raw, Consumer: consumer,
			Idle:     time.Duration(intOr(row[2], 0)) * time.Millisecond,
			Attempts: int(intOr(row[3], 0)),
		})
	}
	return entries, nil
}

// PendingSummary counts the pending entries of a group and names the lowest and
// highest, zero when there is none or when no EVT id has the position. Without
// such a group it is evtlog.ErrNoGroup.
func (l *Log) PendingSummary(ctx context.Context, group string) (count int64, lowest, highest evtid.ID, err error) {
	if err := keyspace.CheckGroup(group); err != nil {
		return 0, evtid.ID{}, evtid.ID{}, err
	}
	err = l.ask(ctx, "XPENDING "+group, command{"XPENDING", l.stream.Key(), group}, func(reply any) (err error) {
		parts, _ := reply.([]any)
		if len(parts) < 3 {
			return protocolError("the summary is not count, lowest, highest")
		}
		if count = intOr(parts[0], 0); count == 0 {
			return nil
		}
		if lowest, _, err = entryID(parts[1]); err == nil {
			highest, _, err = entryID(parts[2])
		}
		return err
	})
	return count, lowest, highest, err
}

// Renew says that the member still works on these entries: their idle time
// starts anew, so that no peer takes them, and their delivery count stays.
// Entries that the member does not own any more are left alone. It returns those
// it still owns, in the order of their ids. An entry whose body was trimmed is
// not touched, because claiming it would drop it; it is named for hold as one
// that the member works on, which TakeTrimmed, ClaimIdle and HandOver respect. One
// that was deleted by itself is dropped and recorded as a skipped range.
//
// Without memory for that the entries that are in the stream are renewed all the
// same, and the error is evtlog.ErrOutOfMemory.
func (l *Log) Renew(ctx context.Context, group, consumer string, ids []evtid.ID, hold time.Duration) (still []evtid.ID, err error) {
	if err := checkGroupMember(group, consumer); err != nil || len(ids) == 0 {
		return nil, err
	}
	err = l.watching(ctx, "renew "+group+"/"+consumer, []string{l.stream.Epoch()}, func(s *session) (done bool, err error) {
		oldest, err := l.oldest(s)
		if err != nil {
			return false, err
		}
		// The hold comes before the look at the pending list: a peer that took an
		// entry before the hold was there has taken it off the list by now.
		_, full := l.hold(s, group, consumer, idsBelow(ids, oldest), hold)
		if full != nil && !outOfMemory(full) {
			return false, full
		}
		if still, err = l.ownedOf(s, group, consumer, ids); err != nil {
			return false, err
		}
		live := idsFrom(still, oldest)
		claims, done, err := l.touch(s, group, consumer, live)
		if err != nil || !done {
			return done, err
		}
		deleted, err := l.recordDeleted(s, group, live, claims)
		still = slices.DeleteFunc(still, func(id evtid.ID) bool { return slices.Contains(deleted, id) })
		return true, errors.Join(err, full)
	})
	return still, err
}

// hold names ids in the member's hold.
func (l *Log) hold(s *session, group, consumer string, ids []evtid.ID, ttl time.Duration) (any, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return s.do(l.holdCommand(group, consumer, ids, ttl))
}

// touchMany is how many entries one command claims.
const touchMany = 1000

// touch claims entries that the member owns, if no trim came in between.
func (l *Log) touch(s *session, group, consumer string, ids []evtid.ID) (claims []any, done bool, err error) {
	var cmds []command
	for part := range slices.Chunk(ids, touchMany) {
		claim := command{"XCLAIM", l.stream.Key(), group, consumer, 0}
		for _, id := range part {
			claim = append(claim, id.Entry())
		}
		cmds = append(cmds, append(claim, "JUSTID"))
	}
	if len(cmds) == 0 {
		return nil, true, nil
	}
	claims, done, err = s.transaction(cmds...)
	if outOfMemory(err) {
		// A server without memory takes these commands, but no transaction.
		claims, err = s.all(cmds...)
		return claims, true, err
	}
	return claims, done, err
}

// ownedOf lists those of ids that are pending for the consumer.
func (l *Log) ownedOf(s *session, group, consumer string, ids []evtid.ID) (owned []evtid.ID, err error) {
	want := make(map[evtid.ID]bool, len(ids))
	lowest, highest := ids[0], ids[0]
	for _, id := range ids {
		want[id] = true
		lowest, highest = minID(lowest, id), maxID(highest, id)
	}
	for from := lowest.Entry(); ; {
		page, err := s.pending(command{"XPENDING", l.stream.Key(), group, from, highest.Entry(), pendingPage, consumer})
		if err != nil {
			return nil, err
		}
		for _, p := range page {
			if want[p.ID] {
				owned = append(owned, p.ID)
			}
		}
		if len(page) < pendingPage {
			return owned, nil
		}
		from = positionAfter(entryText(page[pendingPage-1]))
	}
}

// deleteMember removes a member only while nothing is pending for it: looking
// and removing have to be one step, or what it is given in between is lost.
const deleteMember = `
local pending = redis.pcall('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2])
if pending.err then return pending end
if #pending > 0 then return -1 end
return redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])`

// MemberBusyError says that a member was not removed because entries are pending
// for it: removing it would drop them. Let its peers claim them first.
type MemberBusyError struct{ Stream, Group, Member string }

// Error implements error.
func (e *MemberBusyError) Error() string {
	return "redislog: member " + e.Member + " of group " + e.Group + " on " + e.Stream + " still has pending entries; let another member claim them, then remove it"
}

// DeleteMember removes a member from a group, in one step with the proof that
// nothing is pending for it; else it is a *MemberBusyError. A member that does
// not exist is no error. It runs a script; a user that may not is
// evtlog.ErrDenied.
func (l *Log) DeleteMember(ctx context.Context, group, member string) error {
	if err := checkGroupMember(group, member); err != nil {
		return err
	}
	return l.ask(ctx, "delete member "+group+"/"+member, command{"EVAL", deleteMember, 1, l.stream.Key(), group, member}, func(reply any) error {
		if n, err := integer(reply); err != nil || n >= 0 {
			return err
		}
		return &MemberBusyError{Stream: l.stream.String(), Group: group, Member: member}
	})
}

func checkGroupMember(group, member string) error {
	if err := keyspace.CheckGroup(group); err != nil {
		return err
	}
	return keyspace.CheckMember(member)
}

// millis is a duration in whole milliseconds, at least one: 0 means "for ever"
// to BLOCK and "any" to IDLE.
func millis(d time.Duration) int64 { return max(d.Milliseconds(), 1) }
