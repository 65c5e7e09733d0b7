package archiver

import (
	"context"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/internal/trimline"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
)

// comparePage is how many live records are compared with the archive at once.
const comparePage = 1000

// trim removes what lies at or below through, which is at or below the floor,
// and looks at what that did.
func (a *Archiver) trim(ctx context.Context, v view, through evtid.ID) error {
	if err := a.blocked(ctx); err != nil {
		return err
	}
	if through.IsZero() || through.Less(v.first) {
		return nil
	}
	if err := a.prove(ctx, through); err != nil {
		return err
	}
	res, err := a.log.TrimThrough(ctx, through)
	fault, err := trimline.Judge(a.stream, through, err)
	if err != nil {
		// What it removed all the same is not known.
		a.below = 0
		return err
	}
	a.trimmed(through, res.Removed)
	if fault != nil {
		a.fault = fault
		return fault
	}
	left := false
	if res.Removed == 0 {
		// Somebody else may have trimmed, before this trim or at any time.
		a.below = 0
		if left, err = trimline.Left(ctx, a.log, through); err != nil {
			return err
		}
	}
	if !left && !through.Less(a.unproven) {
		a.unproven = evtid.ID{}
	}
	return a.stall.Note(a.stream, through, res.Removed, left)
}

func (a *Archiver) trimmed(through evtid.ID, removed int64) {
	a.below = max(a.below-removed, 0)
	if removed > 0 {
		a.cfg.Observer.Emit(evtlog.Trimmed{Stream: a.stream, Through: through, Removed: removed})
	}
	a.count(func(s *Stats) {
		s.TrimmedThrough = trimline.Newer(s.TrimmedThrough, through)
		s.Trimmed += removed
		s.Length -= removed
	})
}

// blocked returns why nothing may be trimmed. A record without a copy blocks
// only as long as it is there.
func (a *Archiver) blocked(ctx context.Context) error {
	if a.fault != nil {
		return a.fault
	}
	if a.orphan == nil {
		return nil
	}
	page, _, err := a.log.Page(ctx, a.orphan.ID.Prev(), a.orphan.ID, 1)
	if err != nil {
		return err
	}
	if len(page) > 0 {
		return a.orphan
	}
	a.orphan = nil
	return nil
}

// prove looks into the archive before the only other copy is removed: the record
// at the line must be there, and of the records that this archiver has not seen
// being folded, each.
func (a *Archiver) prove(ctx context.Context, through evtid.ID) error {
	if err := a.compare(ctx, through.Prev(), through); err != nil {
		return err
	}
	return a.compare(ctx, evtid.ID{}, trimline.Older(a.unproven, through))
}

// compare looks for each live record of (after, to] in the archive.
func (a *Archiver) compare(ctx context.Context, after, to evtid.ID) error {
	for after.Less(to) {
		live, _, err := a.log.Page(ctx, after, to, comparePage)
		if err != nil || len(live) == 0 {
			return err
		}
		if err := a.find(ctx, live); err != nil {
			return err
		}
		after = live[len(live)-1].ID
	}
	return nil
}

// find looks for a page of live records in the archive.
func (a *Archiver) find(ctx context.Context, live []evtlog.Record) error {
	r := archive.Range{After: live[0].ID.Prev(), To: live[len(live)-1].ID, AtLeast: a.w}
	found := 0
	for copied, err := range a.arch.Read(ctx, a.stream, r) {
		if err != nil {
			return a.archiveError("read", err)
		}
		if copied.ID == live[found].ID {
			found++
		}
		if found == len(live) {
			return nil
		}
	}
	a.orphan = &UnarchivedError{Stream: a.stream, ID: live[found].ID, Watermark: a.w}
	return a.orphan
}
