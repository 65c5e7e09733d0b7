package runtime

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/supervise"
)

// ErrUnknownGroup: no consumer of Config.Consumers is a member of the group.
var ErrUnknownGroup = errors.New("no consumer of this runtime is in the group")

// restPoll is the time between two looks at a consumer that is to come to rest.
const restPoll = 5 * time.Millisecond

// Pause makes the members that this runtime has of a group finish the deliveries
// that run and read nothing more, and waits until they are at rest. Members of
// other processes go on. What was read and not begun goes to them, or is offered
// here after Resume. When ctx ends first, the pause stays asked for, and the
// error is ctx's. A paused consumer shows as evtlog.Degraded with
// streamconsumer.ErrPaused. Without such a consumer it is ErrUnknownGroup.
func (rt *Runtime) Pause(ctx context.Context, stream evtlog.StreamName, group string) error {
	if err := rt.life.check("pause"); err != nil {
		return err
	}
	members, err := rt.membersOf(stream, group)
	if err != nil {
		return err
	}
	for _, m := range members {
		m.actor.Pause()
	}
	for _, m := range members {
		for !m.actor.Stats().Paused {
			if err := supervise.Wait(ctx, restPoll); err != nil {
				return fmt.Errorf("runtime: pause: a handler of group %s on %s still runs: %w", group, stream, err)
			}
		}
	}
	return nil
}

// Resume ends a pause. Without such a consumer it is ErrUnknownGroup.
func (rt *Runtime) Resume(stream evtlog.StreamName, group string) error {
	members, err := rt.membersOf(stream, group)
	for _, m := range members {
		m.actor.Resume()
	}
	return err
}

func (rt *Runtime) membersOf(stream evtlog.StreamName, group string) (found []*member, err error) {
	for _, m := range rt.consumers {
		if nameOf(m.plan.key) == stream && m.plan.Group == group {
			found = append(found, m)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("runtime: group %s of %s: %w; see Config.Consumers", group, stream, ErrUnknownGroup)
	}
	return found, nil
}
