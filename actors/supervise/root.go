package supervise

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
)

// rootActor is the parent of all branches. It never fails for what a branch does.
type rootActor struct {
	system   *System
	branches []*Branch
	pids     []*actor.PID
}

// Receive implements actor.Actor.
func (r *rootActor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case spawnBranch:
		r.spawn(ctx, m.branch)
	case stopBranch:
		if i := r.find(func(b *Branch, _ *actor.PID) bool { return b == m.branch }); i >= 0 {
			ctx.Send(r.pids[i], m)
		}
	case *actor.Terminated:
		if i := r.find(func(_ *Branch, pid *actor.PID) bool { return pid.Equal(m.Who) }); i >= 0 {
			r.branches[i].finish()
			r.branches = append(r.branches[:i], r.branches[i+1:]...)
			r.pids = append(r.pids[:i], r.pids[i+1:]...)
		}
	case *actor.Stopped:
		close(r.system.rootGone)
	}
}

func (r *rootActor) spawn(ctx actor.Context, b *Branch) {
	a := &branchActor{branch: b, system: b.system, keep: len(b.members)}
	props := actor.PropsFromProducer(func() actor.Actor { return a }, actor.WithMailbox(b.system.produce(&b.node)))
	pid, err := ctx.SpawnNamed(props, b.node.path)
	if err != nil {
		b.release(b.wrap("start", err))
		b.finish()
		return
	}
	r.branches, r.pids = append(r.branches, b), append(r.pids, pid)
}

func (r *rootActor) find(match func(*Branch, *actor.PID) bool) int {
	for i, b := range r.branches {
		if match(b, r.pids[i]) {
			return i
		}
	}
	return -1
}

// HandleFailure implements actor.SupervisorStrategy for the branches: a branch's
// actor runs no foreign code, so a panic in it is a defect of this package. It
// costs that branch and nothing else; passing it on would end the process.
func (r *rootActor) HandleFailure(_ *actor.ActorSystem, supervisor actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, message any) {
	r.system.logger.Error("branch stopped by a defect of its supervisor", "actor", child.Id, "reason", reason, "message", fmt.Sprintf("%T", message))
	supervisor.StopChildren(child)
}

// containment is the strategy for the root itself: it goes on with the next
// message. The library's default would restart it at first, which stops all
// branches, and a failure passed on from there ends the process.
type containment struct{ system *System }

// HandleFailure implements actor.SupervisorStrategy.
func (c containment) HandleFailure(_ *actor.ActorSystem, supervisor actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, message any) {
	c.system.logger.Error("root of the supervision tree met a defect", "reason", reason, "message", fmt.Sprintf("%T", message))
	supervisor.ResumeChildren(child)
}
