package archivetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
)

// pipelinedChecks lists the contract of archive.Pipelined.
func pipelinedChecks() []check {
	return []check{
		{"folds in flight: a number", (*conform).inFlight},
		{"folds behind each other arrive in any order", (*conform).anyOrder},
		{"folds behind each other without a pause", (*conform).noPause},
		{"folds behind one that conflicts", (*conform).behindConflict},
		{"fold behind nothing", (*conform).behindNothing},
		{"wrong watermark conflicts at once beside folds", (*conform).wrongBeside},
		{"repeated folds behind each other", (*conform).repeatedBehind},
	}
}

// soon is a limit that tells an answer at once from one that waited for something
// that never comes; the latter may take about a second, on a slow machine more.
const soon = 10 * time.Second

// pipelined returns the archive as one; the check fails when it is not.
func (c *conform) pipelined() archive.Pipelined {
	c.Helper()
	p, ok := c.a.(archive.Pipelined)
	if !ok {
		c.Fatalf("%T is not an archive.Pipelined any more", c.a)
	}
	return p
}

func (c *conform) inFlight() {
	p := c.pipelined()
	if n := p.FoldsInFlight(); n < 1 || n != p.FoldsInFlight() {
		c.Fatalf("FoldsInFlight() = %d; want a constant number above 0", n)
	}
}

// part is one fold of several.
type part struct {
	prev    evtid.ID
	records []evtlog.Record
	err     error
}

// parts cuts the records numbered from..from+n*each-1 into folds on prev.
func parts(prev evtid.ID, from, n, each int) []*part {
	var out []*part
	for i := range n {
		p := &part{prev: prev, records: Records(from+i*each, from+(i+1)*each-1)}
		out, prev = append(out, p), p.last()
	}
	return out
}

func (p *part) last() evtid.ID { return p.records[len(p.records)-1].ID }

// foldPart makes one fold; behind when it is not the first.
func (c *conform) foldPart(ctx context.Context, a archive.Pipelined, p *part, behind bool) {
	fold := a.Fold
	if behind {
		fold = a.FoldBehind
	}
	var w evtid.ID
	if w, p.err = fold(ctx, c.stream, p.prev, p.records); p.err == nil && w != p.last() {
		c.Errorf("a fold on %q up to %s was answered with %q", p.prev, p.last(), w)
	}
}

// anyOrder begins the folds of a window in an order of chance.
func (c *conform) anyOrder() {
	const rounds = 20
	a := c.pipelined()
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	var w evtid.ID
	next := 1
	for round := range rounds {
		each := 1 + rnd.IntN(5)
		window := parts(w, next, a.FoldsInFlight(), each)
		var wg sync.WaitGroup
		for _, i := range rnd.Perm(len(window)) {
			wg.Go(func() { c.foldPart(c.ctx, a, window[i], i > 0) })
		}
		wg.Wait()
		for i, p := range window {
			if p.err != nil {
				c.Fatalf("seed %d, round %d: fold %d of %d behind each other failed: %v", seed, round, i, len(window), p.err)
			}
		}
		next += each * len(window)
		w = ID(next - 1)
		c.wantWatermark(w)
	}
	c.wantRecords(Records(1, next-1))
}

// noPause begins a fold whenever there is room, as an archiver does.
func (c *conform) noPause() {
	const folds, each = 60, 3
	a := c.pipelined()
	all := parts(evtid.ID{}, 1, folds, each)
	ended := make([]chan struct{}, folds)
	for i, p := range all {
		if room := i - a.FoldsInFlight(); room >= 0 {
			<-ended[room]
		}
		ended[i] = make(chan struct{})
		go func() {
			defer close(ended[i])
			c.foldPart(c.ctx, a, p, i > 0)
		}()
	}
	for i, p := range all {
		if <-ended[i]; p.err != nil {
			c.Errorf("fold %d of %d failed: %v", i, folds, p.err)
		}
	}
	c.wantWatermark(ID(folds * each))
	c.wantRecords(Records(1, folds*each))
}

// behindConflict: what is behind a fold that is refused is refused too.
func (c *conform) behindConflict() {
	c.fold(evtid.ID{}, Records(1, 3))
	a := c.pipelined()
	window := parts(ID(2), 5, max(a.FoldsInFlight(), 2), 2)
	ctx, cancel := context.WithTimeout(c.ctx, time.Duration(len(window))*soon)
	defer cancel()
	var wg sync.WaitGroup
	for i, p := range window {
		wg.Go(func() { c.foldPart(ctx, a, p, i > 0) })
	}
	wg.Wait()
	for _, p := range window {
		c.wantConflict(p.err, p.prev, ID(3))
	}
	c.wantWatermark(ID(3))
	c.wantRecords(Records(1, 3))
	c.fold(ID(3), Records(5, 6))
}

// behindNothing: a predecessor that never comes is not waited for for long.
func (c *conform) behindNothing() {
	a := c.pipelined()
	c.fold(evtid.ID{}, Records(1, 3))
	for _, prev := range []evtid.ID{{}, ID(2), ID(3).Next(), ID(4)} {
		ctx, cancel := context.WithTimeout(c.ctx, soon)
		_, err := a.FoldBehind(ctx, c.stream, prev, Records(5, 6))
		cancel()
		c.wantConflict(err, prev, ID(3))
	}
	if _, err := a.FoldBehind(c.ctx, c.stream, ID(3), Records(2, 4)); !errors.Is(err, archive.ErrRejected) {
		c.Errorf("a fold behind another, of records that are not above it: error %v; want one that wraps ErrRejected", err)
	}
	// What has come long ago is no reason to wait either.
	if w, err := a.FoldBehind(c.ctx, c.stream, ID(3), Records(5, 6)); err != nil || w != ID(6) {
		c.Fatalf("FoldBehind on the watermark = %q, %v", w, err)
	}
	c.wantRecords(append(Records(1, 3), Records(5, 6)...))
}

// wrongBeside: only FoldBehind has a reason to wait.
func (c *conform) wrongBeside() {
	a := c.pipelined()
	window := parts(evtid.ID{}, 1, a.FoldsInFlight(), 2)
	var wg sync.WaitGroup
	for i, p := range window {
		wg.Go(func() { c.foldPart(c.ctx, a, p, i > 0) })
	}
	ctx, cancel := context.WithTimeout(c.ctx, soon)
	defer cancel()
	if _, err := a.Fold(ctx, c.stream, ID(900), Records(901, 902)); !errors.Is(err, archive.ErrConflict) {
		c.Errorf("a fold on a watermark that never was, beside others: error %v; want ErrConflict", err)
	}
	wg.Wait()
	for _, p := range window {
		if p.err != nil {
			c.Errorf("a fold failed beside one that was refused: %v", p.err)
		}
	}
	c.wantRecords(Records(1, 2*len(window)))
}

// repeatedBehind: the answers of a whole window were lost.
func (c *conform) repeatedBehind() {
	a := c.pipelined()
	for range 3 {
		window := parts(evtid.ID{}, 1, a.FoldsInFlight(), 2)
		var wg sync.WaitGroup
		for i, p := range window {
			wg.Go(func() { c.foldPart(c.ctx, a, p, i > 0) })
		}
		wg.Wait()
		for i, p := range window {
			if p.err != nil {
				c.Fatalf("fold %d of a window, repeated, failed: %v", i, p.err)
			}
		}
		c.wantRecords(Records(1, 2*len(window)))
	}
}
