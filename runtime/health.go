package runtime

import (
	"context"
	"fmt"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/streamconsumer"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// drainPoll is the time between two looks at the groups while draining.
const drainPoll = 20 * time.Millisecond

// Health is the condition of the whole runtime at one moment.
type Health struct {
	// State is the worst of all components: Failed before Stopped before Degraded
	// before Starting before Ready.
	State evtlog.State
	// Components is the supervision tree, in start order.
	Components []supervise.Node
}

// OK reports whether every component is ready.
func (h Health) OK() bool { return h.State == evtlog.Ready }

// Health returns the condition of all components.
func (rt *Runtime) Health() Health {
	tree := rt.system.Tree()
	return Health{State: worst(tree), Components: tree}
}

// worst picks the state that an operator has to know of first.
func worst(tree []supervise.Node) evtlog.State {
	state, rank := evtlog.Ready, 0
	for _, n := range tree {
		if r := severity(n.State); r > rank {
			state, rank = n.State, r
		}
	}
	return state
}

func severity(s evtlog.State) int {
	switch s {
	case evtlog.Failed:
		return 4
	case evtlog.Stopped:
		return 3
	case evtlog.Degraded:
		return 2
	case evtlog.Starting:
		return 1
	}
	return 0
}

// ConsumerStats are the counters of one consumer of this runtime.
type ConsumerStats struct {
	Stream evtlog.StreamName
	Group  string
	// Name is the configured name; Member, in Stats, is the one in use.
	Name string
	streamconsumer.Stats
}

// Consumers returns the counters of all consumers, in the order configured.
func (rt *Runtime) Consumers() []ConsumerStats {
	out := make([]ConsumerStats, len(rt.consumers))
	for i, m := range rt.consumers {
		out[i] = ConsumerStats{Stream: nameOf(m.plan.key), Group: m.plan.Group, Name: m.plan.Name, Stats: m.actor.Stats()}
	}
	return out
}

// Drain waits until every group of this runtime's consumers has been given, and
// has acknowledged, all that its stream holds, all of them at one moment. Stop appending first; what
// handlers append while it waits is waited for as well. It ends early with
// ctx's error, which names a group that is behind. To have everything in the
// archive too, call Log.Sweep after it.
func (rt *Runtime) Drain(ctx context.Context) error {
	return rt.life.do("drain", func() error { return rt.drain(ctx) })
}

func (rt *Runtime) drain(ctx context.Context) error {
	for {
		behind, err := rt.behind(ctx)
		if err != nil {
			return fmt.Errorf("runtime: drain: group %s: %w", behind, err)
		}
		if behind == "" {
			return nil
		}
		if err := supervise.Wait(ctx, drainPoll); err != nil {
			return fmt.Errorf("runtime: drain: group %s is behind: %w", behind, err)
		}
	}
}

// behind names a group that has not finished its stream, or "". The groups are
// looked at one after the other, and a handler may append to a stream whose turn
// is over. So it looks twice: what had nothing to do at the first look and has got
// nothing new at the second had nothing to do in between, all of it at a time.
func (rt *Runtime) behind(ctx context.Context) (string, error) {
	first, behind, err := rt.lookAtGroups(ctx)
	if behind != "" || err != nil {
		return behind, err
	}
	second, behind, err := rt.lookAtGroups(ctx)
	if behind != "" || err != nil {
		return behind, err
	}
	for i, m := range rt.consumers {
		if first[i] != second[i] {
			return m.plan.group(), nil
		}
	}
	return "", nil
}

// lookAtGroups returns the top of each consumer's stream, or names the first group
// that has not finished.
func (rt *Runtime) lookAtGroups(ctx context.Context) (tops []evtid.ID, behind string, err error) {
	for _, m := range rt.consumers {
		top, done, err := caughtUp(ctx, m.redis, m.plan.Group)
		if err != nil || !done {
			return nil, m.plan.group(), err
		}
		tops = append(tops, top)
	}
	return tops, "", nil
}

// CaughtUp reports whether a group has been given, and has acknowledged, all
// that its stream held when the call began. A group that does not exist has not.
func CaughtUp(ctx context.Context, log *redislog.Log, group string) (bool, error) {
	_, done, err := caughtUp(ctx, log, group)
	return done, err
}

// caughtUp also returns the newest id of the stream when the call began.
func caughtUp(ctx context.Context, log *redislog.Log, group string) (top evtid.ID, done bool, err error) {
	// The top first: what is appended after it is not waited for by this look.
	if top, err = log.Last(ctx); err != nil {
		return top, false, err
	}
	groups, err := log.Groups(ctx)
	if err != nil {
		return top, false, err
	}
	for _, g := range groups {
		if g.Name == group {
			skipped, err := log.SkippedRanges(ctx, g.Name)
			return top, err == nil && finished(top, g.LastDelivered, g.Pending, len(skipped)), err
		}
	}
	return top, false, nil
}

// finished decides whether a group has nothing left to do.
func finished(top, delivered evtid.ID, pending int64, skipped int) bool {
	return pending == 0 && skipped == 0 && !delivered.Less(top)
}
