package streamconsumer

import (
	"time"

	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// takeTasks adds entries that were read. An entry that is in hand already was
// lost to a peer and came back while its handler still runs: it stays with the
// peers, who find it idle. The caller locks.
func (h *hand) takeTasks(entries []redislog.Entry, at time.Time) {
	h.takes++
	for i := range entries {
		id := entries[i].ID
		if h.tasks[id] == nil && !id.IsZero() {
			h.tasks[id] = &task{entry: redislog.Entry{Record: entries[i].Record}, at: at, take: h.takes}
		}
	}
}

// enlist makes a task of an entry that was taken, nil when it is at work already.
func (h *hand) enlist(e redislog.Entry, attempts int) *task {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.tasks[e.ID]
	if t == nil || t.state != taskTaken {
		return nil
	}
	t.entry, t.attempts, t.state = e, attempts, taskQueued
	return t
}

// finish notes that a task was handled, and waits for its acknowledgement.
func (h *hand) finish(t *task) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t.state = taskFinished
}

// leave puts a task down.
func (h *hand) leave(id evtid.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.tasks, id)
}

// confirmed puts down the tasks whose acknowledgements were confirmed.
func (h *hand) confirmed(ids []evtid.ID) {
	if h.tasks == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range ids {
		if t := h.tasks[id]; t != nil && t.state == taskFinished {
			delete(h.tasks, id)
		}
	}
}

// taskUnprovedFor returns for how long the ownership of a task was not proved.
func (h *hand) taskUnprovedFor(t *task, now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := t.at
	if t.take <= h.provedTakes && at.Before(h.provedAt) {
		at = h.provedAt
	}
	return now.Sub(at)
}

// loseTask marks a task as lost. It is false when nothing depends on it any
// more. The caller locks.
func (h *hand) loseTask(t *task) bool {
	if t.state >= taskEnded || t.lost {
		return false
	}
	t.lost = true
	if t.state == taskRunning {
		t.cancel(errNotOwner(t.entry.ID))
	}
	return true
}

// unoffered lists what is in hand and was not given to the handler.
func (h *hand) unoffered() (ids []evtid.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range h.batch[h.done:] {
		if _, lost := h.lost[id]; !lost && !id.IsZero() {
			ids = append(ids, id)
		}
	}
	for id, t := range h.tasks {
		if t.state < taskRunning && !t.lost {
			ids = append(ids, id)
		}
	}
	return ids
}

// restTasks puts down what no handler was called for. The caller locks.
func (h *hand) restTasks() {
	for id, t := range h.tasks {
		if t.state < taskRunning {
			delete(h.tasks, id)
		}
	}
}

// dropTasks forgets every task and returns those that are still owed. The caller
// locks.
func (h *hand) dropTasks() (owed []evtid.ID) {
	for id, t := range h.tasks {
		if t.state != taskFinished {
			owed = append(owed, id)
		}
	}
	clear(h.tasks)
	return owed
}

func (h *hand) describeTasks(s *Stats) {
	for id, t := range h.tasks {
		switch t.state {
		case taskTaken, taskQueued:
			s.InHand++
		case taskRunning:
			s.Running++
			if s.Handling.IsZero() || id.Less(s.Handling) {
				s.Handling = id
			}
		}
	}
}
