package streamconsumer

import (
	"context"
	"slices"
	"time"

	"github.com/evtlog/evtlog/evtid"
)

// renewChunk is the most entries that one renewal command names.
const renewChunk = 1000

// renewLoop keeps peers from taking what is in hand, until ctx ends.
func (r *runner) renewLoop(ctx context.Context) {
	ticker := time.NewTicker(r.cfg.MinIdle / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		r.renewSlot(ctx)
		r.renewLease(ctx)
		if err := r.renew(ctx); err != nil {
			r.cfg.Logger.Warn("renewal of the work in hand failed; peers may take it", "err", err)
		}
	}
}

// renew tells the server that the entries in hand are being worked on, and
// finds out which are not this member's any more. It is safe for concurrent
// use.
func (r *runner) renew(ctx context.Context) error {
	q := r.hand.held()
	if len(q.ids) == 0 {
		return nil
	}
	still := make([]evtid.ID, 0, len(q.ids))
	for ids := range slices.Chunk(q.ids, renewChunk) {
		part, err := r.ports.log.Renew(ctx, r.cfg.Group, r.member(), ids)
		if err != nil {
			return err
		}
		still = append(still, part...)
	}
	r.count.lastReply.Store(time.Now().UnixNano())
	if lost := r.hand.renewed(q, still); lost > 0 {
		r.cfg.Logger.Warn("entries in hand were taken by peers", "entries", lost)
	}
	return nil
}
