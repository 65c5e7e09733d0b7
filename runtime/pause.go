package runtime

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/supervise"
)

// ErrUnknownGroup: no consumer of Config.Consumers is a member of the group.
var ErrUnknownGroup = errors.New("no consumer of this runtime is in the group")

// ErrResumed: Resume ended the pause before the members were at rest. Pause again.
var ErrResumed = errors.New("the pause was ended before the members were at rest")

// restPoll is the time between two looks at a consumer that is to come to rest.
const restPoll = 5 * time.Millisecond

// rest is who wants a member at rest: the program, from Pause to Resume, and each
// Seek that is under way. It rests as long as anybody does.
type rest struct {
	mu     sync.Mutex
	paused bool
	seeks  int
}

// change changes who wants the member at rest, and tells the member.
func (m *member) change(who func(r *rest)) {
	m.rest.mu.Lock()
	defer m.rest.mu.Unlock()
	who(&m.rest)
	if m.rest.paused || m.rest.seeks > 0 {
		m.actor.Pause()
	} else {
		m.actor.Resume()
	}
}

// Pause makes the members that this runtime has of a group finish the deliveries
// that run and read nothing more, and waits until they are at rest. Members of
// other processes go on. What was read and not begun goes to them, or is offered
// here after Resume. When ctx ends first, the pause stays asked for, and the
// error is ctx's; when Resume comes first it is ErrResumed. A paused consumer shows
// as evtlog.Degraded with streamconsumer.ErrPaused. Without such a consumer it is
// ErrUnknownGroup.
func (rt *Runtime) Pause(ctx context.Context, stream evtlog.StreamName, group string) error {
	if err := rt.life.check("pause"); err != nil {
		return err
	}
	members, err := rt.membersOf(stream, group)
	if err != nil {
		return err
	}
	for _, m := range members {
		m.change(func(r *rest) { r.paused = true })
	}
	return awaitRest(ctx, members)
}

// Resume ends a pause. Members of a group that is being moved go on when that is
// done. Without such a consumer it is ErrUnknownGroup.
func (rt *Runtime) Resume(stream evtlog.StreamName, group string) error {
	members, err := rt.membersOf(stream, group)
	for _, m := range members {
		m.change(func(r *rest) { r.paused = false })
	}
	return err
}

// awaitRest waits until the members, which were asked to, are at rest.
func awaitRest(ctx context.Context, members []*member) error {
	for _, m := range members {
		for !m.actor.Stats().Paused {
			if !m.actor.Pausing() {
				return fmt.Errorf("runtime: pause: group %s: %w", m.plan.group(), ErrResumed)
			}
			if err := supervise.Wait(ctx, restPoll); err != nil {
				return fmt.Errorf("runtime: pause: group %s: a handler still runs, or redis does not answer: %w", m.plan.group(), err)
			}
		}
	}
	return nil
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
