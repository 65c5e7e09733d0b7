package archivetest

import (
	"context"
	"iter"
	"sync"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
)

var _ archive.Archive = (*Follower)(nil)

// Follower is a node of a replicated archive that is behind: its reads see what
// it has applied, while Fold and Watermark go to the Memory it follows. It is
// safe for concurrent use.
type Follower struct {
	*Memory
	mu      sync.Mutex
	applied map[evtlog.StreamName]evtid.ID
	moved   chan struct{}
}

// NewFollower returns a node that has applied nothing of leader yet.
func NewFollower(leader *Memory) *Follower {
	return &Follower{Memory: leader, applied: map[evtlog.StreamName]evtid.ID{}, moved: make(chan struct{})}
}

// Apply lets the node apply what the leader has of stream, up to and including
// the id through, and wakes the reads that wait for it. It never goes back.
func (f *Follower) Apply(stream evtlog.StreamName, through evtid.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.applied[stream].Less(through) {
		f.applied[stream] = through
	}
	close(f.moved)
	f.moved = make(chan struct{})
}

// Read implements archive.Archive, with the state applied so far.
func (f *Follower) Read(ctx context.Context, stream evtlog.StreamName, r archive.Range) iter.Seq2[evtlog.Record, error] {
	return f.Memory.read(ctx, r, func() (volume, <-chan struct{}) { return f.state(stream) })
}

func (f *Follower) state(stream evtlog.StreamName) (volume, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Memory.mu.Lock()
	defer f.Memory.mu.Unlock()
	v := f.Memory.snapshot(stream)
	v.records = v.records[:v.above(f.applied[stream])]
	return v, f.moved
}
