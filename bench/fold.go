package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/volume"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/runtime"
)

// Numbers of records of a full run.
const (
	foldedLocal      = 1_000_000
	foldedReplicated = 400_000
	foldedSingle     = 2_000
)

func foldTests() []test {
	return []test{
		comparison{
			name: "fold-local", against: "bare bbolt, values of the same size, 1,000 a commit, fsync", target: atLeast(0.5),
			limit: boltLimit(foldedLocal), product: foldsLocal(foldedLocal),
		}.asTest(),
		onCluster(comparison{
			name: "fold-replicated", against: "embedded JetStream, file, 3 replicas, 4,096 on their way, no fsync", target: atLeast(1.3),
			limit: peerOn("jetstream-async", foldedReplicated, 1),
		}, foldsReplicated),
		onCluster(comparison{
			name: "fold-single", against: "bare hashicorp/raft and bbolt, 3 nodes, fsync, one record", unit: "µs (p50)", target: atMost(1.3),
			of: sample.median, limit: peerOn("raft-single", foldedSingle, 1),
		}, foldsSingle),
	}
}

// onCluster is a comparison whose product works on one cluster of three nodes in
// this process, in each round on a stream of its own.
func onCluster(c comparison, product func(c *cluster) measurement) test {
	return test{names: []string{c.name}, run: func(ctx context.Context, e *env) ([]Row, error) {
		nodes, err := e.newCluster(ctx, 3)
		if err != nil {
			return nil, err
		}
		defer nodes.close()
		c.product = product(nodes)
		row, err := c.run(ctx, e)
		return []Row{row}, err
	}}
}

func boltLimit(n int) measurement {
	return func(_ context.Context, e *env) (sample, error) {
		records := e.scale(n)
		return e.timed(records, func() error {
			db, err := bareBolt(e.path("bare.db"), records, 1000)
			if err != nil {
				return err
			}
			removeBolt(db)
			return nil
		})
	}
}

// foldsLocal folds a live stream into a volume.
func foldsLocal(n int) measurement {
	return func(ctx context.Context, e *env) (s sample, err error) {
		dir, err := e.directory("volume")
		if err != nil {
			return s, err
		}
		store, err := volume.Open(dir+"/archive.db", volume.Options{})
		if err != nil {
			return s, err
		}
		defer func() { err = errors.Join(err, store.Close()) }()
		return e.foldsAll(ctx, e.scale(n), store)
	}
}

// foldsReplicated folds a live stream through the node that leads.
func foldsReplicated(c *cluster) measurement {
	return func(ctx context.Context, e *env) (sample, error) {
		arch, err := c.archive(ctx)
		if err != nil {
			return sample{}, err
		}
		return e.foldsAll(ctx, e.scale(foldedReplicated), arch)
	}
}

// foldsAll lets the archiver fold a stream that is there already.
func (e *env) foldsAll(ctx context.Context, records int, arch archive.Archive) (sample, error) {
	name, err := e.fill(ctx, records)
	if err != nil {
		return sample{}, err
	}
	stream := evtlog.StreamName{Queue: queue, Name: name}
	s, err := e.timed(records, func() error {
		rt, log, err := e.start(ctx, runtime.Config{Streams: []runtime.Stream{
			{Queue: queue, Name: name, Durability: runtime.Commit, Archive: arch},
		}})
		if err != nil {
			return err
		}
		defer e.stop(ctx, rt)
		return log.Sweep(ctx)
	})
	if err != nil {
		return s, err
	}
	held := 0
	for _, err := range arch.Read(ctx, stream, archive.Range{}) {
		if err != nil {
			return s, err
		}
		held++
	}
	if held != records {
		return s, fmt.Errorf("the archive holds %d records after %d were folded", held, records)
	}
	return s, nil
}

// foldsSingle appends lone records with the dial at Commit and measures from the
// receipt to the moment at which the record is in the replicated archive. What
// the fold alone takes is noted.
func foldsSingle(c *cluster) measurement {
	return func(ctx context.Context, e *env) (s sample, err error) {
		arch, err := c.archive(ctx)
		if err != nil {
			return s, err
		}
		name, err := e.fresh(ctx)
		if err != nil {
			return s, err
		}
		folded := make(chan foldedAt, 1024)
		rt, log, err := e.start(ctx, runtime.Config{
			Streams: []runtime.Stream{{Queue: queue, Name: name, Durability: runtime.Commit, Archive: arch}},
			Observer: func(ev evtlog.Event) {
				if f, ok := ev.(evtlog.Folded); ok {
					folded <- foldedAt{f.To, time.Now(), f.Took}
				}
			},
		})
		if err != nil {
			return s, err
		}
		defer e.stop(ctx, rt)
		return e.foldLone(ctx, log, e.scale(foldedSingle), folded)
	}
}

// foldedAt says that the archive has reached a record.
type foldedAt struct {
	to   evtid.ID
	at   time.Time
	took time.Duration
}

func (e *env) foldLone(ctx context.Context, log *runtime.Log, n int, folded <-chan foldedAt) (sample, error) {
	latencies, alone := make([]time.Duration, n), make([]time.Duration, n)
	s, err := e.timed(n, func() error {
		for i := range n {
			id, err := log.Append(ctx, fields...)
			if err != nil {
				return err
			}
			receipt := time.Now()
			for f := (foldedAt{}); f.to.Less(id); {
				select {
				case f = <-folded:
					latencies[i], alone[i] = f.at.Sub(receipt), f.took
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
		return nil
	})
	s = s.withLatencies(latencies)
	s.note = fmt.Sprintf("from the receipt to the fold; the fold alone p50 %.0f µs", sample{}.withLatencies(alone).p50)
	return s, err
}
