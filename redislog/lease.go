package redislog

import (
	"context"
	"time"
)

// AcquireLease takes the lease on what for owner until ttl has passed, or
// extends it when owner holds it already. It reports whether owner holds it now.
// Without memory a lease is extended all the same, and a new one is
// evtlog.ErrOutOfMemory. A lease keeps two members from doing the same work at
// once; it does not make the work safe to be done twice, for its holder can be
// slower than ttl.
func (l *Log) AcquireLease(ctx context.Context, what, owner string, ttl time.Duration) (bool, error) {
	if ttl < time.Millisecond {
		return false, badArgument("AcquireLease", "ttl", ttl.String()+" is below 1ms")
	}
	if owner == "" {
		return false, badArgument("AcquireLease", "owner", "it is empty")
	}
	key, held := l.stream.Lease(what), false
	err := l.watching(ctx, "lease "+what, []string{key}, func(s *session) (bool, error) {
		reply, err := s.do(command{"SET", key, owner, "NX", "PX", millis(ttl)})
		if outOfMemory(err) {
			held, err = s.extendFull(key, owner, ttl, err)
			return true, err
		}
		if err != nil {
			return false, err
		}
		if held = reply != nil; held {
			return true, nil
		}
		mine, err := holds(s, key, owner)
		if err != nil || !mine {
			return !mine, err
		}
		_, done, err := s.transaction(command{"SET", key, owner, "XX", "PX", millis(ttl)})
		held = done
		return done, err
	})
	return held, err
}

// extendFull extends a lease on a server that has no memory for a new one, and
// takes no transaction: a member goes on under its name then. The owner is looked
// at behind the command, so the answer is right; a lease that changed hands a
// moment before lasts longer for whoever has it now. full is the refusal, which
// stands when the lease is free.
func (s *session) extendFull(key, owner string, ttl time.Duration, full error) (held bool, err error) {
	mine, err := holds(s, key, owner)
	if err != nil {
		return false, err
	}
	if !mine {
		reply, err := s.do(command{"EXISTS", key})
		if err == nil && intOr(reply, 0) == 0 {
			err = full
		}
		return false, err
	}
	if _, err := s.do(command{"PEXPIRE", key, millis(ttl)}); err != nil {
		return false, err
	}
	return holds(s, key, owner)
}

// ReleaseLease gives the lease on what back. It does nothing when owner does not
// hold it.
func (l *Log) ReleaseLease(ctx context.Context, what, owner string) error {
	key := l.stream.Lease(what)
	return l.watching(ctx, "release lease "+what, []string{key}, func(s *session) (bool, error) {
		mine, err := holds(s, key, owner)
		if err != nil || !mine {
			return !mine, err
		}
		_, done, err := s.transaction(command{"DEL", key})
		return done, err
	})
}

func holds(s *session, key, owner string) (bool, error) {
	reply, err := s.do(command{"GET", key})
	if err != nil || reply == nil {
		return false, err
	}
	holder, err := word(reply)
	return err == nil && holder == owner, err
}
