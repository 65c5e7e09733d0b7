package archiver

import (
	"context"
	"errors"
	"fmt"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/internal/trimline"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// maxRounds bounds one tick, so that a stream that grows faster than it can be
// folded does not keep manual folds waiting for ever.
const maxRounds = 16

// cycle makes rounds until what was asked for is done.
func (a *Archiver) cycle(ctx context.Context, o order) (evtid.ID, error) {
	if !o.tick && a.started && a.cfg.Fold.Commit {
		err := a.follow(ctx)
		return a.w, err
	}
	for n := 1; ; n++ {
		left, err := a.round(ctx, &o)
		if err != nil || !left || n >= maxRounds && !a.w.Less(o.through) {
			return a.w, err
		}
	}
}

// follow folds what was appended since the last fold, with as few round trips as
// can be: a record that somebody waits for is on its way. What is folded was
// read, so no target is needed.
func (a *Archiver) follow(ctx context.Context) error {
	known := a.mark == a.w && a.below > 0
	folded, _, err := a.foldTo(ctx, evtid.Max)
	if known {
		a.mark, a.below = a.w, a.below+folded
	}
	if err != nil || folded == 0 {
		return err
	}
	a.count(func(s *Stats) {
		s.Top, s.Behind = trimline.Newer(s.Top, a.w), 0
		s.Length += folded
	})
	_, err = a.seal(ctx, evtid.ID{})
	return err
}

// round is one pass of fold, seal, trim. left is true when there is more to do
// at once.
func (a *Archiver) round(ctx context.Context, o *order) (left bool, err error) {
	floor, err := a.catchUp(ctx, o.tick)
	if err != nil {
		return false, err
	}
	v, err := a.look(ctx)
	if err != nil {
		return false, err
	}
	*o = o.pinned(v)
	line, blocked, err := a.line(ctx, v, *o)
	if err != nil {
		return false, err
	}
	folded, left, err := a.foldTo(ctx, target(v, a.cfg.Fold, *o, line.Through))
	a.note(v, folded)
	if err != nil {
		return false, err
	}
	if o.tick || folded > 0 {
		floor, err = a.seal(ctx, floor)
	}
	if o.trim && blocked == nil && (err == nil || redislog.Classify(err) == redislog.BackPressure) {
		err = errors.Join(err, a.trim(ctx, v, trimline.Older(floor, line.Through)))
	}
	return left || line.More, errors.Join(err, blocked)
}

// catchUp makes a.w the archive's watermark and returns the floor. Between ticks
// it keeps the watermark that the last fold answered.
func (a *Archiver) catchUp(ctx context.Context, tick bool) (floor evtid.ID, err error) {
	if !tick && a.started {
		return evtid.ID{}, nil
	}
	// A page that is as good as empty: it is about the floor.
	_, floor, err = a.log.Page(ctx, evtid.ID{}, evtid.ID{}.Next(), 1)
	if err != nil {
		return evtid.ID{}, err
	}
	// After the floor, so that it is not below it unless the archive went back.
	if err := a.reread(ctx); err != nil {
		return evtid.ID{}, err
	}
	if a.w.Less(floor) {
		err := &SetBackError{Stream: a.stream, Watermark: a.w, Floor: floor}
		// Not even a nudged fold goes on from here.
		a.w = floor
		return evtid.ID{}, err
	}
	if !a.started {
		a.started, a.unproven = true, a.w
	}
	return floor, nil
}

// look reads the stream and reports records that went missing. A stream that
// ends below the watermark is an error.
func (a *Archiver) look(ctx context.Context) (view, error) {
	was := a.w
	info, err := a.log.Info(ctx)
	if err == nil {
		err = a.missing(ctx, info)
	}
	if err == nil && a.w != was {
		// W has been read after the stream, which may have grown in between.
		info, err = a.log.Info(ctx)
	}
	if err != nil {
		return view{}, err
	}
	v := a.view(info)
	a.watch.Saw(v.unarchived())
	if v.regressed() {
		a.unproven = trimline.Newer(a.unproven, v.w)
		return view{}, &RegressedError{Stream: a.stream, Watermark: v.w, Top: v.last}
	}
	a.reconcile(v)
	return v, nil
}

// view is what a round knows, with the watermark of now.
func (a *Archiver) view(info redislog.StreamInfo) view {
	return view{
		w: a.w, first: info.First, newest: info.Newest, last: info.Last, length: info.Length, added: info.EntriesAdded,
		below: belowNow(a.mark, a.w, a.below, info.First),
	}
}

// missing reports records that were seen, and are neither in the stream nor in
// the archive. When any seem to be gone, seen or not, W is right afterwards.
func (a *Archiver) missing(ctx context.Context, info redislog.StreamInfo) error {
	loss, gone := a.watch.Gone(headAbove(a.w, info.First), info.Last)
	gone = gone && a.w.Less(loss.Known)
	if unseen, _ := a.ledger.compare(a.view(info)); !gone && unseen == 0 {
		return nil
	}
	// Another archiver may have folded and trimmed them since W was read.
	if err := a.reread(ctx); err != nil || !gone || !a.w.Less(loss.Known) {
		return err
	}
	after := a.w
	if loss.After == info.Last {
		// Only what lay above the top is gone.
		after = trimline.Newer(a.w, info.Last)
	}
	// What the count tells is part of it.
	a.ledger = ledger{}
	a.lost(evtlog.Lost{
		Stream: a.stream, After: after, To: loss.To,
		Reason: "gone from the live stream before it was archived: evicted, deleted, trimmed by somebody else, or lost by the server",
	})
	return nil
}

// reconcile reports records that went missing without having been seen: the
// server has counted them and nobody has folded them.
func (a *Archiver) reconcile(v view) {
	missing, next := a.ledger.compare(v)
	if missing > 0 {
		after, to := a.ledger.gap(v)
		a.lost(evtlog.Lost{
			Stream: a.stream, After: after, To: to,
			Reason: fmt.Sprintf("%d records in this range left the live stream before they were archived: trimmed or deleted by somebody else", missing),
		})
	}
	a.ledger = next
}

// note keeps what the next round may start from.
func (a *Archiver) note(v view, folded int64) {
	a.mark, a.below = a.w, belowAfter(v, a.w, folded)
	v.w, v.below = a.w, a.below
	a.reconcile(v)
	a.watch.Saw(v.unarchived())
	a.count(func(s *Stats) {
		s.Watermark, s.Top, s.Length, s.Behind = v.w, v.last, v.length, v.behind()
	})
}

// line finds what Keep lets go. blocked is why nothing may be trimmed although
// folding goes on.
func (a *Archiver) line(ctx context.Context, v view, o order) (line trimline.Line, blocked, err error) {
	if !o.tick || a.cfg.Keep.All() || v.length == 0 {
		return trimline.Line{}, nil, nil
	}
	entry, foreign, err := a.log.FirstForeign(ctx)
	if err != nil {
		return trimline.Line{}, nil, err
	}
	if foreign {
		blocked = &evtlog.ForeignEntryError{Stream: a.stream, Entry: entry}
	}
	line, err = trimline.Locate(ctx, a.log, trimline.Query{
		Keep: a.cfg.Keep, Now: a.cfg.Now(), Length: v.length, Foreign: foreign, Slack: 1,
	})
	if errors.Is(err, evtlog.ErrForeignEntry) {
		// Further up in the stream: what lies below it can still be folded.
		return trimline.Line{}, err, nil
	}
	// A line that cannot be trimmed at would come back at once.
	line.More = line.More && blocked == nil
	return line, blocked, err
}

// seal proves the watermark to readers, and returns the floor that holds now.
func (a *Archiver) seal(ctx context.Context, floor evtid.ID) (evtid.ID, error) {
	if a.w.IsZero() {
		return floor, nil
	}
	if err := a.log.Seal(ctx, a.w); err != nil {
		return floor, err
	}
	return a.w, nil
}
