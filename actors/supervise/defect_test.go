package supervise

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
)

func idle(name string) Spec {
	return Spec{Name: name, New: func() (Runner, error) {
		return RunFunc(func(ctx context.Context, ready func()) error {
			ready()
			<-ctx.Done()
			return nil
		}), nil
	}}
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// A panic in the supervisor's own actors must cost no more than one branch: the
// library would end the process when it escalates past the root.
func TestADefectOfTheSupervisorIsContained(t *testing.T) {
	s := NewSystem(Config{})
	bad, err := s.Branch(soon(t), "bad", idle("c"))
	if err != nil {
		t.Fatal(err)
	}
	good, err := s.Branch(soon(t), "good", idle("c"))
	if err != nil {
		t.Fatal(err)
	}
	// No such component: an index out of range in the branch's Receive.
	s.actors.Root.Send(bad.members[0].slot.parent, memberReady{index: 7, gen: 9})
	select {
	case <-bad.Done():
	case <-soon(t).Done():
		t.Fatal("the branch with the defect still runs")
	}
	// No branch: a nil dereference in the root's Receive, more often than the
	// library's default strategy bears.
	for range 30 {
		s.actors.Root.Send(s.root, spawnBranch{})
	}
	// Its incarnation was told to end but is not waited for on this path.
	_, err = s.Branch(soon(t), "bad", idle("c"))
	for ctx := soon(t); errors.Is(err, ErrExists) && Wait(ctx, time.Millisecond) == nil; {
		_, err = s.Branch(ctx, "bad", idle("c"))
	}
	if err != nil {
		t.Errorf("the root takes no more branches: %v", err)
	}
	select {
	case <-good.Done():
		t.Error("the other branch ended too")
	default:
	}
	if err := s.Stop(soon(t)); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// A name the actor library refuses fails the start and nothing else.
func TestANameTheLibraryRefuses(t *testing.T) {
	s := NewSystem(Config{})
	a := &branchActor{branch: newBranch(s, "b", []Spec{idle("c")}), system: s}
	a.giveUp(a.branch.members[0], errors.New("spawn: name exists"))
	if !a.stopping || a.keep != 0 || a.branch.startError() == nil {
		t.Errorf("got %+v", a)
	}
	if n := a.branch.node.read(); n.State != evtlog.Failed {
		t.Errorf("the branch is %v", n.State)
	}
	if err := s.Stop(soon(t)); err != nil {
		t.Error(err)
	}
}
