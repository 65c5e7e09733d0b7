package supervise

import (
	"context"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/evtlog/evtlog"
)

// Node is the condition of one branch or component at one moment.
type Node struct {
	// Path is the branch name, or branch name + "/" + component name.
	Path string
	// State is the current state and Since the moment it was entered.
	State evtlog.State
	Since time.Time
	// Restarts counts all restarts since the branch was started; for a branch,
	// those of its components together.
	Restarts int
	// Err is the last error: why it is Degraded or Failed, or why it was last
	// restarted.
	Err error
	// Depth is how much waits: messages in the actor's mailbox plus Spec.Depth.
	Depth int
}

// component is the readable half of a node. System.mu guards it; only the
// branch's actor changes it, hence its events are in order.
type component struct {
	path      string
	state     evtlog.State
	announced bool
	since     time.Time
	restarts  int
	err       error
	mailbox   actor.Mailbox
	depth     func() int
}

// Tree returns every branch, each followed by its components in start order. A
// branch that was stopped on its own leaves the tree; after System.Stop the tree
// shows how everything ended. Tree is safe for concurrent use.
func (s *System) Tree() []Node {
	s.mu.Lock()
	var nodes []Node
	var depths []func() int
	for _, b := range s.branches {
		for _, c := range b.components() {
			nodes, depths = append(nodes, c.read()), append(depths, c.depth)
		}
	}
	s.mu.Unlock()
	for i, depth := range depths {
		// Outside of the lock: it is the program's function.
		if depth != nil {
			nodes[i].Depth += depth()
		}
	}
	return nodes
}

func (c *component) read() Node {
	n := Node{Path: c.path, State: c.state, Since: c.since, Restarts: c.restarts, Err: c.err}
	if c.mailbox != nil {
		n.Depth = c.mailbox.UserMessageCount()
	}
	return n
}

// produce is a mailbox producer that keeps the mailbox for its depth.
func (s *System) produce(c *component) actor.MailboxProducer {
	return func() actor.Mailbox {
		m := actor.Unbounded()()
		s.mu.Lock()
		c.mailbox = m
		s.mu.Unlock()
		return m
	}
}

// transition moves c to a state and reports that when it is a change. A nil err
// leaves the last error in place, for whoever looks later.
func (s *System) transition(c *component, state evtlog.State, err error) {
	s.mu.Lock()
	changed := c.state != state || !c.announced
	if changed {
		c.state, c.since, c.announced = state, time.Now(), true
	}
	if err != nil {
		c.err = err
	}
	s.mu.Unlock()
	if !changed {
		return
	}
	level := slog.LevelInfo
	switch state {
	case evtlog.Degraded:
		level = slog.LevelWarn
	case evtlog.Failed:
		level = slog.LevelError
	}
	attrs := []any{"component", c.path}
	if err != nil {
		attrs = append(attrs, "error", err)
	}
	s.logger.Log(context.Background(), level, "component "+state.String(), attrs...)
	s.emit(evtlog.StateChanged{Component: c.path, State: state, Err: err})
}

// emit calls the observer and contains its panic: an observer must not be able
// to end the tree that reports to it.
func (s *System) emit(e evtlog.Event) {
	defer func() {
		if v := recover(); v != nil {
			s.logger.Error("observer panicked", "event", e, "panic", v)
		}
	}()
	s.cfg.Observer.Emit(e)
}
