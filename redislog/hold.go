package redislog

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
)

// An entry in hand is renewed by claiming it again. One whose body was trimmed
// cannot be: the server drops it from the pending list instead. So a member names
// the trimmed entries that it has in hand under a lease of its own, its hold, and
// whoever would take such an entry looks at its owner's hold first.

// holdKey is where a member's hold is kept: a list of entry ids, as text.
func (l *Log) holdKey(group, member string) string {
	return l.stream.Lease("hold:" + group + ":" + member)
}

// holdCommand names ids for a time.
func (l *Log) holdCommand(group, member string, ids []evtid.ID, ttl time.Duration) command {
	var text strings.Builder
	for i, id := range ids {
		if i > 0 {
			text.WriteByte(' ')
		}
		text.WriteString(id.Entry())
	}
	return command{"SET", l.holdKey(group, member), text.String(), "PX", millis(ttl)}
}

// holdsByMember are the holds of some members.
type holdsByMember map[string]map[string]bool

// of reports whether the owner of a pending entry still works on it: it has
// touched it within minIdle, or it names it in its hold. A member whose hold was
// not looked at counts as one that does.
func (h holdsByMember) of(p PendingEntry, minIdle time.Duration) bool {
	held, known := h[p.Consumer]
	return !known || p.Idle < minIdle || held[entryText(p)]
}

// entryText returns the position of a pending entry as the server writes it.
func entryText(p PendingEntry) string {
	if p.Raw != "" {
		return p.Raw
	}
	return p.ID.Entry()
}

// watchHolds watches and reads the holds of the owners of these entries. Owners
// change: list the entries again afterwards.
func (l *Log) watchHolds(s *session, group string, page []PendingEntry) (holdsByMember, error) {
	found := holdsByMember{}
	var owners []string
	for _, p := range page {
		if found[p.Consumer] == nil {
			found[p.Consumer] = map[string]bool{}
			owners = append(owners, p.Consumer)
		}
	}
	if len(owners) == 0 {
		return found, nil
	}
	watch, get := command{"WATCH"}, make([]command, len(owners))
	for i, name := range owners {
		watch = append(watch, l.holdKey(group, name))
		get[i] = command{"GET", l.holdKey(group, name)}
	}
	replies, err := s.all(append([]command{watch}, get...)...)
	if err != nil {
		return nil, err
	}
	for i, reply := range replies[1:] {
		text, err := redis.String(reply, nil)
		if err != nil && !errors.Is(err, redis.ErrNil) {
			return nil, protocolError("a hold is no text")
		}
		for _, entry := range strings.Fields(text) {
			found[owners[i]][entry] = true
		}
	}
	return found, nil
}

// TakeTrimmed prepares for handing out what lies in a recorded range. Some of
// these records may still be pending, for a member that was given them before
// they were trimmed. Those that nobody works on any more it takes off the pending
// list, and returns as taken: they are the caller's now, for as long as it has
// the right to work on the range. held are those that must not be handed out
// yet: the owner touched them within minIdle, or names them in its hold, or keep
// says so of entries of the member self.
//
// Everything at or below to must have been trimmed and recorded. Without such a
// group it is evtlog.ErrNoGroup.
func (l *Log) TakeTrimmed(ctx context.Context, group, self string, r SkippedRange, minIdle time.Duration, keep func(evtid.ID) bool) (taken, held []PendingEntry, err error) {
	if err := checkGroupMember(group, self); err != nil || r.Empty() {
		return nil, nil, err
	}
	// The cursor is a position as the server writes it: a page may end with an entry
	// that has no id.
	for from, more := r.After.Next().Entry(), true; more; {
		var page, free []PendingEntry
		err := l.watching(ctx, "take trimmed "+group, []string{l.stream.Epoch()}, func(s *session) (bool, error) {
			var h holdsByMember
			var err error
			if page, h, err = l.pendingWithHolds(s, group, from, r.To); err != nil || len(page) == 0 {
				return true, err
			}
			free = freeOf(page, h, self, minIdle, keep)
			return l.acknowledge(s, group, free)
		})
		if err != nil {
			return taken, held, err
		}
		taken = append(taken, free...)
		held = append(held, slices.DeleteFunc(without(page, free), isForeign)...)
		if more = len(page) == pendingPage; more {
			from = positionAfter(entryText(page[len(page)-1]))
		}
	}
	return taken, held, nil
}

// isForeign: no range hands such an entry out, so it is nobody's in a range.
func isForeign(p PendingEntry) bool { return p.Raw != "" }

// pendingWithHolds lists a page of pending entries with the holds of their
// owners.
func (l *Log) pendingWithHolds(s *session, group, from string, to evtid.ID) ([]PendingEntry, holdsByMember, error) {
	list := command{"XPENDING", l.stream.Key(), group, from, to.Entry(), pendingPage}
	page, err := s.pending(list)
	if err != nil || len(page) == 0 {
		return nil, nil, err
	}
	h, err := l.watchHolds(s, group, page)
	if err != nil {
		return nil, nil, err
	}
	page, err = s.pending(list)
	return page, h, err
}

// pending lists pending entries.
func (s *session) pending(list command) ([]PendingEntry, error) {
	reply, err := s.do(list)
	if err != nil {
		return nil, err
	}
	return pendingOf(reply)
}

// freeOf returns the entries that the member self may take.
func freeOf(page []PendingEntry, h holdsByMember, self string, minIdle time.Duration, keep func(evtid.ID) bool) (free []PendingEntry) {
	for _, p := range page {
		busy := h.of(p, minIdle)
		if p.Consumer == self {
			busy = keep(p.ID)
		}
		if !busy && p.Raw == "" {
			free = append(free, p)
		}
	}
	return free
}

// without returns the entries of page that are not among those of part, which
// is in the same order.
func without(page, part []PendingEntry) (rest []PendingEntry) {
	for _, p := range page {
		if len(part) > 0 && part[0].ID == p.ID && part[0].Raw == p.Raw {
			part = part[1:]
			continue
		}
		rest = append(rest, p)
	}
	return rest
}

// acknowledge takes entries off the pending list, unless something that the
// session watches has changed.
func (l *Log) acknowledge(s *session, group string, entries []PendingEntry) (done bool, err error) {
	if len(entries) == 0 {
		return true, nil
	}
	replies, done, err := s.transaction(l.ackCommand(group, entries))
	if err != nil || !done {
		return false, err
	}
	return true, s.firstRefusal(replies)
}

func (l *Log) ackCommand(group string, entries []PendingEntry) command {
	ack := command{"XACK", l.stream.Key(), group}
	for _, p := range entries {
		ack = append(ack, entryText(p))
	}
	return ack
}

// SettleSkipped takes records out of the group's recorded ranges that a member
// has finished although they were trimmed meanwhile, so that nobody is given them
// again. ids are those of a batch, whose acknowledgements have been confirmed;
// most of them need not be recorded.
func (l *Log) SettleSkipped(ctx context.Context, group string, ids []evtid.ID) error {
	if err := keyspace.CheckGroup(group); err != nil || len(ids) == 0 {
		return err
	}
	key := l.stream.Skipped(group)
	return l.watching(ctx, "settle skipped "+group, []string{key}, func(s *session) (bool, error) {
		replies, err := s.all(l.firstCommand(), command{"LRANGE", key, 0, -1})
		if err != nil {
			return false, err
		}
		oldest, err := oldestLive(replies[0])
		if err != nil {
			return false, err
		}
		texts, err := words(replies[1])
		if err != nil {
			return false, err
		}
		ranges, _ := parseRanges(key, texts)
		cmds := settleCommands(key, ranges, idsBelow(ids, oldest))
		if len(cmds) == 0 {
			return true, nil
		}
		replies, done, err := s.transaction(cmds...)
		if err != nil || !done {
			return false, err
		}
		return true, s.firstRefusal(replies)
	})
}

// settleCommands replaces each range that holds some of the ids by what is left
// of it. What is left goes in before the whole comes out.
func settleCommands(key string, ranges []SkippedRange, ids []evtid.ID) (cmds []command) {
	for _, r := range ranges {
		rest := r.Without(ids)
		if len(rest) == 1 && rest[0] == r {
			continue
		}
		cmds = append(cmds, pushRanges(key, rest)...)
		cmds = append(cmds, command{"LREM", key, 1, r.String()})
	}
	return cmds
}

// Without returns what is left of the range when single ids are taken out.
func (r SkippedRange) Without(ids []evtid.ID) (rest []SkippedRange) {
	after := r.After
	for _, id := range sortedIDs(ids) {
		if !after.Less(id) || r.To.Less(id) {
			continue
		}
		if part := (SkippedRange{After: after, To: id.Prev()}); !part.Empty() {
			rest = append(rest, part)
		}
		after = id
	}
	if part := (SkippedRange{After: after, To: r.To}); !part.Empty() {
		rest = append(rest, part)
	}
	return rest
}
