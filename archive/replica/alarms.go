package replica

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Alarms that tell of a follower that may never catch up.
const (
	kindInstalls = "installs"
	kindShortLog = "short-log"
)

// installWatch counts the snapshots that the leader sent, over all engines of a
// node.
type installWatch struct {
	mu sync.Mutex
	at []time.Time
}

// More than maxInstalls within installSpan say that the node falls behind faster
// than it is brought up, or that its log does not fit the leader's.
const (
	maxInstalls = 2
	installSpan = 10 * time.Minute
)

// add notes one more and reports whether it is one too many. It then begins to
// count anew, so that the next alarm takes as many again.
func (w *installWatch) add(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.at) > 0 && now.Sub(w.at[0]) > installSpan {
		w.at = w.at[1:]
	}
	if w.at = append(w.at, now); len(w.at) <= maxInstalls {
		return false
	}
	w.at = nil
	return true
}

// installed is told of each snapshot that raft begins to restore. Those restored
// by the start of raft itself do not count.
func (e *engine) installed() {
	if e.raft.Load() != nil && e.n.installs.add(time.Now()) {
		e.n.alarm(Alarm{Kind: kindInstalls, Err: fmt.Errorf("replica: node %s was sent more than %d snapshots within %s: it falls behind faster than it catches up; look at its disk and network, or raise TrailingLogs", e.n.cfg.ID, maxInstalls, installSpan)})
	}
}

// logSpan is how many times the last pull the log must reach back in time.
const logSpan = 5

// logTooShort says whether the log is cut so early that a node which pulls for as
// long as the last time may find its place in the log gone when it is done.
//
// entries is how many there are, trailing how many are kept at least: a log that
// has not been cut yet tells nothing.
func logTooShort(entries, trailing uint64, oldest, restore time.Duration) bool {
	return restore > 0 && entries >= trailing && oldest < logSpan*restore
}

// watchLog raises an alarm when the log becomes too short; was is what it
// answered before.
func (e *engine) watchLog(was bool) bool {
	took := time.Duration(e.n.restoreTook.Load())
	if took == 0 {
		return false
	}
	first, firstErr := e.logs.FirstIndex()
	last, lastErr := e.logs.LastIndex()
	var oldest raft.Log
	if errors.Join(firstErr, lastErr) != nil || first <= 1 || e.logs.read(first, &oldest) != nil || oldest.AppendedAt.IsZero() {
		return was
	}
	age := time.Since(oldest.AppendedAt)
	short := logTooShort(last-first+1, e.n.cfg.TrailingLogs, age, took)
	if short && !was {
		e.n.alarm(Alarm{Kind: kindShortLog, Err: fmt.Errorf("replica: the log of node %s reaches back %s only, and the last pull took %s: a node that was away may not catch up under this load; raise TrailingLogs", e.n.cfg.ID, age.Round(time.Millisecond), took.Round(time.Millisecond))})
	}
	return short
}
