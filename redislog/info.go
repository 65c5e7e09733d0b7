package redislog

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
)

// StreamInfo describes a stream at one moment.
type StreamInfo struct {
	// Exists is false when there is no such key; everything else is then zero.
	Exists bool
	// Length is the number of live entries.
	Length int64
	// First and Newest are the oldest and newest entry that are still live, zero
	// when there is none. Last is the last-generated-id, which outlives its
	// entry. A position that no EVT id can have is rounded down.
	First, Newest, Last evtid.ID
	// Groups is the number of consumer groups.
	Groups int64
	// EntriesAdded counts the entries that were ever added, those that are gone
	// included; -1 when the server does not tell: before Redis 7.
	EntriesAdded int64
}

// Info describes the stream.
func (l *Log) Info(ctx context.Context) (info StreamInfo, err error) {
	key := l.stream.Key()
	err = l.with(ctx, "XINFO STREAM", func(s *session) error {
		replies, err := s.all(
			command{"XRANGE", key, "-", "+", "COUNT", 1},
			command{"XREVRANGE", key, "+", "-", "COUNT", 1},
		)
		if err != nil {
			return err
		}
		details, err := s.pipeline(command{"XINFO", "STREAM", key}, command{"XINFO", "GROUPS", key})
		if err != nil {
			return err
		}
		if err := s.refusal(details[0]); err != nil {
			if isNoKey(err) {
				return nil
			}
			return err
		}
		info, err = infoOf(replies, details)
		return err
	})
	return info, err
}

func infoOf(ends, details []any) (info StreamInfo, err error) {
	info.Exists = true
	stream := flatMap(details[0])
	info.Length, info.EntriesAdded = intOr(stream["length"], 0), intOr(stream["entries-added"], -1)
	groups, _ := details[1].([]any)
	info.Groups = int64(len(groups))
	if info.Last, err = topOf(details[0]); err != nil {
		return info, err
	}
	if info.First, _, _, err = firstID(ends[0]); err != nil {
		return info, err
	}
	if info.Newest, _, _, err = firstID(ends[1]); err != nil {
		return info, err
	}
	return info, nil
}

// Floor returns how far Redis says that the stream was archived: the floor, or
// when that key is gone what the archiver has left for foreign readers. It is the
// zero ID when neither is there, which proves nothing: the keys may have been
// deleted. Only the archive knows for sure.
func (l *Log) Floor(ctx context.Context) (floor evtid.ID, err error) {
	err = l.with(ctx, "floor", func(s *session) error {
		replies, err := s.pipeline(
			command{"XREVRANGE", l.stream.Floor(), "+", "-", "COUNT", 1},
			command{"GET", l.stream.Archived()},
		)
		if err != nil {
			return err
		}
		if err := s.refusalAt(replies[0], "XREVRANGE "+l.stream.Floor()); err != nil {
			return err
		}
		found := false
		if floor, _, found, err = firstID(replies[0]); found || err != nil {
			return err
		}
		if text, err := redis.String(replies[1], nil); err == nil {
			// A foreign archiver may have written something else; that is no proof.
			floor, _ = evtid.Parse(text)
		}
		return nil
	})
	return floor, err
}

// FirstForeign looks for an entry outside of the range that ids can have, at
// either end of the stream: a foreign writer that makes its own ids put it
// there. Reads by window do not see it, a trim removes it unarchived. Entries
// between the ends cannot be found without reading everything.
func (l *Log) FirstForeign(ctx context.Context) (entry string, found bool, err error) {
	key := l.stream.Key()
	err = l.with(ctx, "XRANGE", func(s *session) error {
		replies, err := s.all(
			command{"XRANGE", key, "-", "(" + firstEntry, "COUNT", 1},
			command{"XRANGE", key, "(" + evtid.Max.Entry(), "+", "COUNT", 1},
		)
		if err != nil {
			return err
		}
		for _, r := range replies {
			if _, entry, found, err = firstID(r); found || err != nil {
				return err
			}
		}
		return nil
	})
	return entry, found, err
}

// GroupInfo describes a consumer group.
type GroupInfo struct {
	Name string
	// Consumers counts the members that ever read, Pending the entries delivered
	// and not acknowledged.
	Consumers, Pending int64
	// LastDelivered is the group's position, rounded down when no EVT id has it.
	LastDelivered evtid.ID
	// EntriesRead and Lag are the server's own counts, -1 when it does not know:
	// before Redis 7, and after trims. Do not base decisions on them.
	EntriesRead, Lag int64
}

// Groups lists the groups of the stream, none when it does not exist.
func (l *Log) Groups(ctx context.Context) ([]GroupInfo, error) {
	var groups []GroupInfo
	err := l.ask(ctx, "XINFO GROUPS", command{"XINFO", "GROUPS", l.stream.Key()}, func(reply any) (err error) {
		groups, err = groupsOf(reply)
		return err
	})
	if isNoKey(err) {
		return nil, nil
	}
	return groups, err
}

func groupsOf(reply any) ([]GroupInfo, error) {
	list, _ := reply.([]any)
	groups := make([]GroupInfo, 0, len(list))
	for _, item := range list {
		m := flatMap(item)
		name, err := redis.String(m["name"], nil)
		if err != nil {
			return nil, protocolError("a group has no name")
		}
		last, err := redis.String(m["last-delivered-id"], nil)
		if err != nil {
			return nil, protocolError("a group has no position")
		}
		id, err := floorPosition(last)
		if err != nil {
			return nil, err
		}
		groups = append(groups, GroupInfo{
			Name: name, Consumers: intOr(m["consumers"], 0), Pending: intOr(m["pending"], 0), LastDelivered: id,
			// A negative lag is a known miscount of the server.
			EntriesRead: max(intOr(m["entries-read"], -1), -1), Lag: max(intOr(m["lag"], -1), -1),
		})
	}
	return groups, nil
}

// MemberInfo describes a member of a group.
type MemberInfo struct {
	Name string
	// Pending counts the entries delivered to it and not acknowledged.
	Pending int64
	// Idle is the time since it last asked for anything, -1 when unknown.
	Idle time.Duration
}

// Members lists the members of a group. Without such a group it is
// evtlog.ErrNoGroup.
func (l *Log) Members(ctx context.Context, group string) ([]MemberInfo, error) {
	if err := keyspace.CheckGroup(group); err != nil {
		return nil, err
	}
	var members []MemberInfo
	err := l.ask(ctx, "XINFO CONSUMERS "+group, command{"XINFO", "CONSUMERS", l.stream.Key(), group}, func(reply any) (err error) {
		members, err = membersOf(reply)
		return err
	})
	return members, noGroup(err)
}

func membersOf(reply any) ([]MemberInfo, error) {
	list, _ := reply.([]any)
	members := make([]MemberInfo, 0, len(list))
	for _, item := range list {
		m := flatMap(item)
		name, err := redis.String(m["name"], nil)
		if err != nil {
			return nil, protocolError("a member has no name")
		}
		idle := time.Duration(-1)
		if ms := intOr(m["idle"], -1); ms >= 0 {
			idle = time.Duration(ms) * time.Millisecond
		}
		members = append(members, MemberInfo{Name: name, Pending: intOr(m["pending"], 0), Idle: idle})
	}
	return members, nil
}

// noGroup turns "no such key" into the answer that there is no such group: a
// stream that does not exist has none.
func noGroup(err error) error {
	var server *ServerError
	if !isNoKey(err) || !errors.As(err, &server) {
		return err
	}
	return serverError(server.Op, server.Addr, "NOGROUP the stream does not exist")
}
