package archivetest

import (
	"context"
	"sync"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
)

var _ archive.Pipelined = (*Pipelined)(nil)

// predecessorLimit is how long Pipelined waits for the fold before.
const predecessorLimit = time.Second

// Pipelined is a Memory that takes several folds of one stream at a time. The
// steps of its folds are those of Memory; that a fold was not begun, as its
// predecessor is missing, takes about a second. It is safe for concurrent use.
type Pipelined struct {
	*Memory
	inFlight int

	mu sync.Mutex
	// now and most count the folds on their way, at the moment and ever.
	now, most int
}

// NewPipelined returns a view of m that takes inFlight folds of a stream at a
// time.
func NewPipelined(m *Memory, inFlight int) *Pipelined {
	return &Pipelined{Memory: m, inFlight: inFlight}
}

// FoldsInFlight implements archive.Pipelined.
func (p *Pipelined) FoldsInFlight() int { return p.inFlight }

// MostInFlight returns how many folds were on their way at most so far, those of
// all streams together.
func (p *Pipelined) MostInFlight() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.most
}

// Fold implements archive.Archive.
func (p *Pipelined) Fold(ctx context.Context, stream evtlog.StreamName, prev evtid.ID, records []evtlog.Record) (evtid.ID, error) {
	defer p.begin()()
	return p.Memory.Fold(ctx, stream, prev, records)
}

// FoldBehind implements archive.Pipelined.
func (p *Pipelined) FoldBehind(ctx context.Context, stream evtlog.StreamName, prev evtid.ID, records []evtlog.Record) (evtid.ID, error) {
	defer p.begin()()
	wait, cancel := context.WithTimeout(ctx, predecessorLimit)
	defer cancel()
	// Whether it has come or not is found out by the fold.
	_, _ = await(wait, prev, func() (volume, <-chan struct{}) {
		p.Memory.mu.Lock()
		defer p.Memory.mu.Unlock()
		return p.snapshot(stream), p.moved
	})
	return p.Memory.Fold(ctx, stream, prev, records)
}

// begin counts a fold until its end.
func (p *Pipelined) begin() (end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now++
	p.most = max(p.most, p.now)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.now--
	}
}
