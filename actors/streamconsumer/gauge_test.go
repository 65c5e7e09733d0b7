package streamconsumer

import (
	"context"
	"sync"
	"time"

	"github.com/evtlog/evtlog/evtid"
)

// gauge finds out whether one entry is ever handled twice at a time.
type gauge struct {
	mu      sync.Mutex
	inside  map[evtid.ID]int
	overlap bool
}

func (g *gauge) enter(id evtid.ID) (leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside == nil {
		g.inside = map[evtid.ID]int{}
	}
	g.inside[id]++
	g.overlap = g.overlap || g.inside[id] > 1
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.inside[id]--
	}
}

func (g *gauge) overlaps() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.overlap
}

// wait works for d unless ctx ends before.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
