package replica

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

// predecessorLimit bounds how long a fold waits for the one it follows. It has to
// be well below the limit of a client's attempt.
const predecessorLimit = time.Second

// mayFollow reports whether a fold on prev can be handed to raft without
// overtaking its predecessor: the volume has it, or raft has. ends are the last
// ids of the folds that raft was given and has not answered; raft keeps their
// order.
func mayFollow(prev, watermark evtid.ID, ends []evtid.ID) bool {
	return !watermark.Less(prev) || slices.Contains(ends, prev)
}

// lanes know which folds of each stream raft was given and has not answered.
type lanes struct {
	note *notifier

	mu   sync.Mutex
	ends map[evtlog.StreamName][]evtid.ID
}

func newLanes() *lanes {
	return &lanes{note: newNotifier(), ends: map[evtlog.StreamName][]evtid.ID{}}
}

// enter says that raft was given the fold that ends at last.
func (l *lanes) enter(stream evtlog.StreamName, last evtid.ID) {
	l.mu.Lock()
	l.ends[stream] = append(l.ends[stream], last)
	l.mu.Unlock()
	l.note.fire()
}

// leave says that raft has answered it.
func (l *lanes) leave(stream evtlog.StreamName, last evtid.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ends := l.ends[stream]
	if i := slices.Index(ends, last); i >= 0 {
		ends = slices.Delete(ends, i, i+1)
	}
	if len(ends) == 0 {
		delete(l.ends, stream)
		return
	}
	l.ends[stream] = ends
}

// inFlight returns the ends of a stream's folds that raft has.
func (l *lanes) inFlight(stream evtlog.StreamName) []evtid.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.ends[stream])
}

// awaitPredecessor returns when a fold on prev may be handed to raft, at the
// latest after predecessorLimit: then the state machine refuses it, as it would
// have without the wait.
func (e *engine) awaitPredecessor(ctx context.Context, stream evtlog.StreamName, prev evtid.ID) {
	ctx, cancel := context.WithTimeout(ctx, predecessorLimit)
	defer cancel()
	for {
		// Before the look, so that no change goes unseen.
		given, applied := e.lanes.note.next(), e.store.changed()
		w, err := e.store.watermark(stream)
		if err != nil || mayFollow(prev, w, e.lanes.inFlight(stream)) {
			return
		}
		select {
		case <-given:
		case <-applied:
		case <-ctx.Done():
			return
		case <-e.ctx.Done():
			return
		}
	}
}
