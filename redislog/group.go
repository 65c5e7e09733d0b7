package redislog

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
)

// StartAt is where a new group begins. Make one with Head, New or AfterID; the
// zero StartAt is refused, because no choice is right for every group.
type StartAt struct {
	kind startKind
	id   evtid.ID
	arch Archived
}

// Archived tells how far an archive of the stream reaches.
type Archived interface {
	Watermark(ctx context.Context) (evtid.ID, error)
}

// Behind tells CreateGroup of the stream's archive. It is asked when a group is
// made: where the floor is gone, as after FLUSHALL, or the stream was set back and
// ends below what is archived, everything that the archive holds is recorded as
// skipped, so that the group reads it from there.
func (s StartAt) Behind(a Archived) StartAt {
	s.arch = a
	return s
}

// joined returns the floor as the archive completes it. A group that starts with
// what is new in a stream that is there needs to know of neither.
func (s StartAt) joined(ctx context.Context, floor, top evtid.ID) (evtid.ID, error) {
	if s.arch == nil || s.kind == startNew && !top.IsZero() {
		return floor, nil
	}
	archived, err := s.arch.Watermark(ctx)
	return joinFloor(floor, top, archived), err
}

type startKind uint8

const (
	startUnset startKind = iota
	startHead
	startNew
	startAfter
)

// Head starts with the first record there ever was. What has been archived and
// trimmed is recorded as skipped, so that the group reads it from the archive.
func Head() StartAt { return StartAt{kind: startHead} }

// New starts behind the newest entry at the moment of the creation.
func New() StartAt { return StartAt{kind: startNew} }

// AfterID starts with the first record above id. It is for a group that vanished
// and whose last acknowledged id is known.
func AfterID(id evtid.ID) StartAt { return StartAt{kind: startAfter, id: id} }

// groupPlan is how a group is created.
type groupPlan struct {
	// at is the word for XGROUP CREATE.
	at string
	// skipped is what the group starts behind although it asked for it.
	skipped SkippedRange
}

// planGroup decides where a group really starts: never below the floor, for what
// lies there is not in the stream any more.
func planGroup(at StartAt, floor evtid.ID, streamExists bool) groupPlan {
	switch {
	case at.kind == startNew && (streamExists || floor.IsZero()):
		return groupPlan{at: "$"}
	case at.kind == startNew:
		// '$' of a stream that is created here would be 0-0.
		return groupPlan{at: floor.Entry()}
	case at.id.Less(floor):
		return groupPlan{at: floor.Entry(), skipped: SkippedRange{After: at.id, To: floor}}
	case at.id.IsZero():
		return groupPlan{at: "0"}
	}
	return groupPlan{at: at.id.Entry()}
}

// CreateGroup creates the group, and the stream when it does not exist. created
// is false when there is such a group already; it is then left as it is. A start
// below the archived floor is recorded as a skipped range in the same
// transaction.
func (l *Log) CreateGroup(ctx context.Context, group string, at StartAt) (created bool, err error) {
	if err := keyspace.CheckGroup(group); err != nil {
		return false, err
	}
	if at.kind == startUnset {
		return false, badArgument("CreateGroup", "start", "say where the group starts: Head, New or AfterID")
	}
	err = l.watching(ctx, "create group "+group, []string{l.stream.Epoch()}, func(s *session) (bool, error) {
		exists, plan, err := l.groupFacts(ctx, s, group, at)
		if err != nil || exists {
			return exists, err
		}
		var done bool
		created, done, err = l.createPlanned(s, group, plan)
		return done, err
	})
	return created, err
}

// groupFacts reads what the plan needs. A group that exists ends it: recording a
// range for it would have it read the whole archive at each start of a member.
func (l *Log) groupFacts(ctx context.Context, s *session, group string, at StartAt) (exists bool, plan groupPlan, err error) {
	replies, err := s.pipeline(
		command{"XINFO", "GROUPS", l.stream.Key()},
		command{"XREVRANGE", l.stream.Floor(), "+", "-", "COUNT", 1},
		command{"XINFO", "STREAM", l.stream.Key()},
	)
	if err != nil {
		return false, plan, err
	}
	if err := s.refusalAt(replies[1], "XREVRANGE "+l.stream.Floor()); err != nil {
		return false, plan, err
	}
	floor, _, _, err := firstID(replies[1])
	if err != nil {
		return false, plan, err
	}
	var top evtid.ID
	streamExists := true
	switch err := s.firstRefusal(replies); {
	case isNoKey(err):
		streamExists = false
	case err != nil:
		return false, plan, err
	default:
		if exists, err = holdsGroup(replies[0], group); exists || err != nil {
			return exists, plan, err
		}
		if top, err = topOf(replies[2]); err != nil {
			return false, plan, err
		}
	}
	if floor, err = at.joined(ctx, floor, top); err != nil {
		return false, plan, err
	}
	return false, planGroup(at, floor, streamExists), nil
}

// holdsGroup looks for a group in an answer of XINFO GROUPS.
func holdsGroup(reply any, group string) (bool, error) {
	groups, err := groupsOf(reply)
	return slices.ContainsFunc(groups, func(g GroupInfo) bool { return g.Name == group }), err
}

func (l *Log) createPlanned(s *session, group string, plan groupPlan) (created, done bool, err error) {
	cmds := []command{
		{"INCR", l.stream.Epoch()},
		{"XGROUP", "CREATE", l.stream.Key(), group, plan.at, "MKSTREAM"},
	}
	if !plan.skipped.Empty() {
		cmds = append(cmds, command{"RPUSH", l.stream.Skipped(group), plan.skipped.String()})
	}
	replies, done, err := s.transaction(cmds...)
	if err != nil || !done {
		return false, false, err
	}
	refused := s.refusal(replies[1])
	if refused == nil {
		return true, true, s.firstRefusal(replies)
	}
	// The range was recorded although the group was not created.
	if len(cmds) > 2 {
		if _, err := s.do(command{"LREM", l.stream.Skipped(group), -1, plan.skipped.String()}); err != nil {
			return false, true, err
		}
	}
	if isBusyGroup(refused) {
		// A member of a foreign program created it in between.
		return false, true, nil
	}
	return false, true, refused
}

func isBusyGroup(err error) bool {
	var server *ServerError
	return errors.As(err, &server) && server.Prefix == "BUSYGROUP"
}

// isMissingStream: XGROUP has words of its own for a key that does not exist.
func isMissingStream(err error) bool {
	var server *ServerError
	return isNoKey(err) || errors.As(err, &server) && strings.Contains(server.Message, "requires the key to exist")
}

// DestroyGroup removes the group with its pending entries and its skipped
// ranges. Stop its members first: an acknowledgement of an old member would
// count against a group that is created anew. Without such a group it is
// evtlog.ErrNoGroup.
func (l *Log) DestroyGroup(ctx context.Context, group string) error {
	if err := keyspace.CheckGroup(group); err != nil {
		return err
	}
	verb := "destroy group " + group
	return l.watching(ctx, verb, []string{l.stream.Epoch()}, func(s *session) (bool, error) {
		replies, done, err := s.transaction(
			command{"INCR", l.stream.Epoch()},
			command{"XGROUP", "DESTROY", l.stream.Key(), group},
			command{"DEL", l.stream.Skipped(group)},
		)
		if err != nil || !done {
			return false, err
		}
		err = s.refusal(replies[1])
		if err == nil && intOr(replies[1], 0) == 0 || isMissingStream(err) {
			return true, serverError(l.op(verb), l.c.ep.addr, "NOGROUP there is no such group")
		}
		return true, err
	})
}
