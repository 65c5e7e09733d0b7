package demo

import (
	"context"
	"fmt"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/examples/gameserver/game"
	"github.com/evtlog/evtlog/runtime"
)

// Report is the reconciliation at the end of a demonstration. All counts are of
// records of both streams unless said otherwise.
type Report struct {
	// Published counts the receipts that appends gave.
	Published int `json:"published"`
	// Readable counts the distinct records that a merged read returned.
	Readable int `json:"readable"`
	// Archive and Live say where it read them.
	Archive int `json:"archive"`
	Live    int `json:"live"`
	// Lost counts receipts that the merged read did not return, and facts that
	// the audit group never handled.
	Lost int `json:"lost"`
	// Duplicates counts records that the merged read returned more than once.
	Duplicates int `json:"duplicates"`
	// Redelivered counts facts that the audit member handled more than once: the
	// price of at-least-once.
	Redelivered int `json:"redelivered"`
	// ConsumerRestarts counts kills of the audit member, each followed by a start.
	ConsumerRestarts int `json:"consumer_restarts"`
	// DrainedAfterRestart counts entries it found pending under its own name.
	DrainedAfterRestart int `json:"drained_after_restart"`
	// Watermark is the newest archived fact of the feed.
	Watermark evtid.ID `json:"watermark"`
	// ChainOK says that the chains of hashes were recomputed on every archive node,
	// agree with the bytes, and are the same on all of them.
	ChainOK bool `json:"chain_ok"`
	// Redis is how the server was come by: "url", "server" or "embedded".
	Redis string `json:"redis"`
}

// Err returns an error unless everything that was published is readable exactly
// once and the archive is sound.
func (r Report) Err() error {
	if r.Lost != 0 || r.Duplicates != 0 || r.Published != r.Readable || r.Readable != r.Archive+r.Live || !r.ChainOK {
		return fmt.Errorf("the reconciliation failed: %+v", r)
	}
	return nil
}

// reconcile reads everything back and compares it with the receipts.
func (d *demo) reconcile(ctx context.Context, rt *runtime.Runtime) (Report, error) {
	r := Report{Redis: d.srv.Kind, ChainOK: true}
	for _, stream := range []string{game.Guesses, game.Feed} {
		if err := d.reconcileStream(ctx, rt, stream, &r); err != nil {
			return r, err
		}
		sound, err := d.store.sound(ctx, evtlog.StreamName{Queue: d.queue, Name: stream})
		if err != nil {
			return r, err
		}
		r.ChainOK = r.ChainOK && sound
	}
	feed, err := rt.Stream(d.queue, game.Feed)
	if err != nil {
		return r, err
	}
	if r.Watermark, err = feed.Watermark(ctx); err != nil {
		return r, err
	}
	d.audit.mu.Lock()
	defer d.audit.mu.Unlock()
	r.ConsumerRestarts, r.DrainedAfterRestart = d.audit.restarts, d.audit.drained
	for id := range d.receipts[game.Feed] {
		switch n := d.audit.handled[id]; {
		case n == 0:
			r.Lost++
		case n > 1:
			r.Redelivered++
		}
	}
	return r, nil
}

func (d *demo) reconcileStream(ctx context.Context, rt *runtime.Runtime, stream string, r *Report) error {
	log, err := rt.Stream(d.queue, stream)
	if err != nil {
		return err
	}
	seen := map[evtid.ID]bool{}
	for record, err := range log.Read(ctx, evtlog.Window{}) {
		if err != nil {
			return err
		}
		if seen[record.ID] {
			r.Duplicates++
			continue
		}
		seen[record.ID] = true
		if record.Source == evtlog.Archived {
			r.Archive++
		} else {
			r.Live++
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	r.Published += len(d.receipts[stream])
	r.Readable += len(seen)
	for id := range d.receipts[stream] {
		if !seen[id] {
			r.Lost++
		}
	}
	return nil
}
