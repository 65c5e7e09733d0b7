package retention

import (
	"context"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/internal/trimline"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// pass trims step by step until nothing is due any more.
func (r *Retention) pass(ctx context.Context) (Result, error) {
	var out Result
	for {
		more, err := r.step(ctx, &out)
		if err != nil || !more {
			return out, err
		}
	}
}

func (r *Retention) step(ctx context.Context, out *Result) (more bool, err error) {
	info, err := r.log.Info(ctx)
	if err != nil {
		return false, err
	}
	r.compare(info)
	if r.fault != nil || r.cfg.Keep.All() || info.Length == 0 {
		return false, r.fault
	}
	entry, foreign, err := r.log.FirstForeign(ctx)
	if err != nil {
		return false, err
	}
	line, err := trimline.Locate(ctx, r.log, trimline.Query{
		Keep: r.cfg.Keep, Now: r.cfg.Now(), Length: info.Length, Foreign: foreign, Slack: trimline.Slack(r.cfg.Keep),
	})
	if err == nil && !line.Through.IsZero() {
		err = r.trim(ctx, info.Newest, line.Through, out)
	}
	if err != nil {
		return false, err
	}
	return line.More, r.noteForeign(entry)
}

// compare reports records that went without this retention having trimmed them
// although the policy keeps them.
func (r *Retention) compare(info redislog.StreamInfo) {
	loss, gone := r.watch.Gone(info.First, info.Last)
	if gone && !trimline.Holds(r.cfg.Keep, r.cfg.Now(), loss, info.Length) {
		r.lost(evtlog.Lost{
			Stream: r.stream, After: loss.After, To: loss.To,
			Reason: "gone from the live stream although the policy keeps it: evicted, deleted, trimmed by somebody else, or lost by the server",
		})
	}
	r.watch.Saw(info.First, info.Newest)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Length, r.stats.Top = info.Length, info.Last
}

// trim removes what lies at or below through, and looks at what that did.
func (r *Retention) trim(ctx context.Context, newest, through evtid.ID, out *Result) error {
	if !through.Less(newest) {
		newest = evtid.ID{}
	}
	r.watch.Saw(newest, newest)
	res, err := r.log.TrimThrough(ctx, through)
	fault, err := trimline.Judge(r.stream, through, err)
	if err != nil {
		return err
	}
	r.trimmed(through, res, out)
	if fault != nil {
		r.fault = fault
		return fault
	}
	left := false
	if res.Removed == 0 {
		if left, err = trimline.Left(ctx, r.log, through); err != nil {
			return err
		}
	}
	return r.stall.Note(r.stream, through, res.Removed, left)
}

func (r *Retention) trimmed(through evtid.ID, res redislog.TrimResult, out *Result) {
	out.Through = trimline.Newer(out.Through, through)
	out.Removed += res.Removed
	if res.Removed > 0 {
		r.cfg.Observer.Emit(evtlog.Trimmed{Stream: r.stream, Through: through, Removed: res.Removed})
	}
	for _, l := range losses(r.stream, res.Skipped) {
		out.Lost = append(out.Lost, l)
		r.lost(l)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Through = trimline.Newer(r.stats.Through, through)
	r.stats.Trimmed += res.Removed
}

func (r *Retention) lost(l evtlog.Lost) {
	r.cfg.Observer.Emit(l)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Lost++
}

// noteForeign returns the error about a foreign entry the first time it is met.
func (r *Retention) noteForeign(entry string) error {
	if entry == r.foreign {
		return nil
	}
	if r.foreign = entry; entry == "" {
		return nil
	}
	return &evtlog.ForeignEntryError{Stream: r.stream, Entry: entry}
}
