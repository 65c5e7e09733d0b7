package streamconsumer

import (
	"context"
	"errors"
	"time"

	"github.com/evtlog/evtlog"
)

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
	still, err := r.ports.log.Renew(ctx, r.cfg.Group, r.member(), q.ids, r.cfg.MinIdle)
	if errors.Is(err, evtlog.ErrOutOfMemory) {
		r.cfg.Logger.Warn("trimmed entries in hand could not be named; peers may take them", "err", err)
	} else if err != nil {
		return err
	}
	r.count.lastReply.Store(time.Now().UnixNano())
	if lost := r.hand.renewed(q, still); lost > 0 {
		r.cfg.Logger.Warn("entries in hand were taken by peers", "entries", lost)
	}
	return nil
}
