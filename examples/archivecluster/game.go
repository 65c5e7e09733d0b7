package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive/replica/client"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
	"github.com/evtlog/evtlog/runtime"
)

// game is the runtime that folds into the cluster, under load.
type game struct {
	rt   *runtime.Runtime
	log  *runtime.Log
	load sync.WaitGroup
	end  context.CancelFunc

	mu       sync.Mutex
	folds    []time.Time
	receipts map[evtid.ID]bool
}

func startGame(ctx context.Context, url string, cluster *client.Client) (*game, error) {
	g := &game{receipts: map[evtid.ID]bool{}}
	rt, err := runtime.Start(ctx, runtime.Config{
		Redis: redislog.Config{URL: url, ClientName: "evtlog-archivecluster"}, Node: 1,
		Streams: []runtime.Stream{{
			Queue: streamQueue, Name: streamName, Retention: evtlog.KeepLast(hot), Durability: runtime.Commit, Archive: cluster,
		}},
		Observer: g.observe,
	})
	if err != nil {
		return nil, err
	}
	g.rt = rt
	if g.log, err = rt.Stream(streamQueue, streamName); err != nil {
		return nil, errors.Join(err, rt.Stop(context.WithoutCancel(ctx)))
	}
	load, end := context.WithCancel(context.WithoutCancel(ctx))
	g.end = end
	for player := range 4 {
		g.load.Go(func() { g.play(load, player) })
	}
	return g, nil
}

// play appends until the load ends. Each append has time of its own to finish.
func (g *game) play(load context.Context, player int) {
	for n := 0; load.Err() == nil; n++ {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(load), patience)
		id, err := g.log.Append(ctx, evtlog.F("player", fmt.Sprint(player)), evtlog.F("move", fmt.Sprint(n)))
		cancel()
		if err == nil {
			g.mu.Lock()
			g.receipts[id] = true
			g.mu.Unlock()
		}
		select {
		case <-load.Done():
		case <-time.After(4 * time.Millisecond):
		}
	}
}

func (g *game) observe(e evtlog.Event) {
	if _, ok := e.(evtlog.Folded); ok {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.folds = append(g.folds, time.Now())
	}
}

func (g *game) foldedSince(at time.Time) bool { return !g.firstFoldAfter(at).IsZero() }

func (g *game) firstFoldAfter(at time.Time) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := len(g.folds) - 1; i >= 0; i-- {
		if g.folds[i].After(at) && (i == 0 || !g.folds[i-1].After(at)) {
			return g.folds[i]
		}
	}
	return time.Time{}
}

// quiesce ends the load.
func (g *game) quiesce() {
	g.end()
	g.load.Wait()
}

func (g *game) stop() error {
	g.quiesce()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return g.rt.Stop(ctx)
}

// reconcile folds what is left and reads everything back.
func (g *game) reconcile(ctx context.Context, r *report) error {
	if err := g.log.Sweep(ctx); err != nil {
		return err
	}
	seen := map[evtid.ID]bool{}
	for rec, err := range g.log.Read(ctx, evtlog.Window{}) {
		if err != nil {
			return err
		}
		if seen[rec.ID] {
			r.Duplicates++
		}
		seen[rec.ID] = true
	}
	r.Published, r.Readable = len(g.receipts), len(seen)
	for id := range g.receipts {
		if !seen[id] {
			r.Lost++
		}
	}
	return nil
}
