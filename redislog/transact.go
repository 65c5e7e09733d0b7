package redislog

import (
	"context"

	"github.com/gomodule/redigo/redis"

	"github.com/evtlog/evtlog/keyspace"
)

// bookkeeping runs a list of commands as one step even when the server is out
// of memory. A script that has begun to write may go on writing, so it begins
// with a write that changes nothing: XTRIM is let through at the limit, and no
// entry has an id below 0-1. This is used only for the few bytes that must be
// written before memory can be freed: the floor and the record of what groups
// are skipped over.
//
// KEYS[1] is the stream, KEYS[2] its epoch. ARGV[1] is the epoch expected, or
// "*" for any; then each command as its number of words and the words. The
// answer is nil when the epoch is another one.
const bookkeeping = `
redis.call('XTRIM', KEYS[1], 'MINID', '0-1')
if ARGV[1] ~= '*' and (redis.call('GET', KEYS[2]) or '') ~= ARGV[1] then return false end
local answers, i = {}, 2
while i <= #ARGV do
  local words, n = {}, tonumber(ARGV[i])
  for k = 1, n do words[k] = ARGV[i + k] end
  answers[#answers + 1] = redis.pcall(unpack(words))
  if answers[#answers] == false then answers[#answers] = '' end
  i = i + n + 1
end
return answers`

// anyEpoch lets bookkeeping run whatever the epoch is.
const anyEpoch = "*"

// optimistic runs the commands in one transaction, which holds only if the epoch
// that the session watches is still the one given. done is false when it is not.
func (s *session) optimistic(stream keyspace.Stream, epoch string, cmds ...command) (replies []any, done bool, err error) {
	replies, done, err = s.transaction(cmds...)
	if !outOfMemory(err) {
		return replies, done, err
	}
	scripted, done, scriptErr := s.bookkeeping(stream, epoch, cmds)
	if scriptErr != nil {
		return nil, false, err
	}
	return scripted, done, nil
}

// write runs the commands in one round trip, whatever the epoch is. Refusals are
// elements of the result.
func (s *session) write(stream keyspace.Stream, cmds ...command) ([]any, error) {
	replies, err := s.pipeline(cmds...)
	if err != nil || !outOfMemory(s.firstRefusal(replies)) {
		return replies, err
	}
	scripted, done, err := s.bookkeeping(stream, anyEpoch, cmds)
	if err != nil || !done {
		return replies, nil
	}
	return scripted, nil
}

func (s *session) bookkeeping(stream keyspace.Stream, epoch string, cmds []command) (replies []any, done bool, err error) {
	args := redis.Args{bookkeeping, 2, stream.Key(), stream.Epoch(), epoch}
	for _, cmd := range cmds {
		args = append(append(args, len(cmd)), cmd...)
	}
	reply, err := s.do(append(command{"EVAL"}, args...))
	if err != nil || reply == nil {
		return nil, false, err
	}
	replies, _ = reply.([]any)
	if len(replies) != len(cmds) {
		return nil, false, protocolError("the script did not answer each command")
	}
	return replies, true, nil
}

// firstRefusal returns the typed error of the first reply that is one.
func (s *session) firstRefusal(replies []any) error {
	for _, r := range replies {
		if err := s.refusal(r); err != nil {
			return err
		}
	}
	return nil
}

// watching runs try, which reads, decides and writes, on one connection that
// watches the keys, until it is done.
func (l *Log) watching(ctx context.Context, verb string, keys []string, try func(*session) (done bool, err error)) error {
	return l.with(ctx, verb, func(s *session) error {
		watch := command{"WATCH"}
		for _, k := range keys {
			watch = append(watch, k)
		}
		for range optimisticTries {
			if _, err := s.do(watch); err != nil {
				return err
			}
			if done, err := try(s); done || err != nil {
				return err
			}
		}
		return s.contended(keys[0])
	})
}
