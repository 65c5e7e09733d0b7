package redislog

import (
	"slices"

	"github.com/evtlog/evtlog/evtid"
)

// recordDeleted records those of some live entries that a claim has dropped from
// the pending list because another program had deleted them one by one: nothing
// else tells of them. asked are the entries that were claimed, claims the answers.
// It returns what it recorded; an entry that is missing because it was
// acknowledged a moment before is not among it.
func (l *Log) recordDeleted(s *session, group string, asked []evtid.ID, claims []any) ([]evtid.ID, error) {
	missing, err := s.notClaimed(asked, claims)
	if err != nil || len(missing) == 0 {
		return nil, err
	}
	cmds := []command{l.firstCommand()}
	for _, id := range missing {
		cmds = append(cmds, command{"XRANGE", l.stream.Key(), id.Entry(), id.Entry()})
	}
	replies, err := s.all(cmds...)
	if err != nil {
		return nil, err
	}
	oldest, err := oldestLive(replies[0])
	if err != nil {
		return nil, err
	}
	var deleted []evtid.ID
	for i, id := range missing {
		// What has been trimmed since then was acknowledged, or its trimmer recorded it.
		if entries, _ := replies[i+1].([]any); len(entries) == 0 && !id.Less(oldest) {
			deleted = append(deleted, id)
		}
	}
	if len(deleted) == 0 {
		return nil, nil
	}
	replies, err = s.write(l.stream, pushRanges(l.stream.Skipped(group), pendingRanges(deleted))...)
	if err == nil {
		err = s.firstRefusal(replies)
	}
	return deleted, err
}

// notClaimed returns those of ids that no answer of a claim names.
func (s *session) notClaimed(ids []evtid.ID, claims []any) ([]evtid.ID, error) {
	if err := s.firstRefusal(claims); err != nil {
		return nil, err
	}
	claimed := map[evtid.ID]bool{}
	for _, reply := range claims {
		entries, err := positions(reply)
		if err != nil {
			return nil, err
		}
		for _, p := range entries {
			claimed[p.ID] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id evtid.ID) bool { return claimed[id] }), nil
}
