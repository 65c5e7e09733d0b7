package archive

import (
	"context"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

// Pipelined is implemented by archives that take a fold of a stream while earlier
// ones of the same stream are still on their way. Each of them compares and sets
// as Fold says; only the wait for the answer of the one before is saved.
//
// A caller begins its folds in order, the first by Fold and each next one by
// FoldBehind with prev at the last record of the one before. It takes the answers
// in order, too. When one is not answered well, those behind it may have failed
// for that reason alone: wait until all have ended, read Watermark, and go on
// from there. All that Fold says of errors holds for each.
type Pipelined interface {
	Archive
	// FoldsInFlight is how many folds of one stream may be on their way at a time,
	// the first one included. It is at least 1 and never changes.
	FoldsInFlight() int
	// FoldBehind is Fold for records whose predecessor, the fold that ends at prev,
	// the caller begins as well. The two may overtake each other on the way, so the
	// archive waits for the predecessor, for about a second at most; only then may
	// it refuse with a *ConflictError.
	FoldBehind(ctx context.Context, stream evtlog.StreamName, prev evtid.ID, records []evtlog.Record) (evtid.ID, error)
}
