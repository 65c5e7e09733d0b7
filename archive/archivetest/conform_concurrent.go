package archivetest

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
)

// oneWins lets several archivers fold different records on the same watermark.
func (c *conform) oneWins() {
	const rounds, rivals = 10, 6
	var w evtid.ID
	var want []evtlog.Record
	for round := range rounds {
		winners := c.race(w, rivals, round*100+1)
		if len(winners) != 1 {
			c.Fatalf("round %d: %d of %d different folds on watermark %q succeeded; want exactly one", round, len(winners), rivals, w)
		}
		want = append(want, winners[0]...)
		w = want[len(want)-1].ID
		c.wantWatermark(w)
	}
	c.wantRecords(want)
}

// race folds rivals different batches on prev at once and returns those that
// the archive took. All others must be told of a conflict.
func (c *conform) race(prev evtid.ID, rivals, base int) (winners [][]evtlog.Record) {
	errs := make([]error, rivals)
	batches := make([][]evtlog.Record, rivals)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range rivals {
		// Equal ids, different content, different lengths.
		batches[i] = Records(base, base+i)
		batches[i][0].Fields[0].Value = "rival " + strconv.Itoa(i)
		wg.Go(func() {
			<-start
			_, errs[i] = c.a.Fold(c.ctx, c.stream, prev, batches[i])
		})
	}
	close(start)
	wg.Wait()
	for i, err := range errs {
		switch {
		case err == nil:
			winners = append(winners, batches[i])
		case !errors.Is(err, archive.ErrConflict):
			c.Errorf("Fold that lost a race on %q: error %v; want ErrConflict", prev, err)
		}
	}
	return winners
}

func (c *conform) manyStreams() {
	const streams, folds = 8, 20
	errs := make([]error, streams)
	names := make([]evtlog.StreamName, streams)
	var wg sync.WaitGroup
	for i := range streams {
		names[i] = evtlog.StreamName{Queue: c.stream.Queue, Name: c.stream.Name + "." + strconv.Itoa(i)}
		wg.Go(func() {
			var w evtid.ID
			for n := 0; n < folds && errs[i] == nil; n++ {
				w, errs[i] = c.a.Fold(c.ctx, names[i], w, Records(n*(i+1)+1, (n+1)*(i+1)))
			}
		})
	}
	wg.Wait()
	for i, name := range names {
		if errs[i] != nil {
			c.Fatalf("Fold into %s beside folds of other streams failed: %v", name, errs[i])
		}
		c.wantWatermarkOf(name, ID(folds*(i+1)))
		c.wantRecordsOf(name, Records(1, folds*(i+1)))
	}
}

// readWhileFolding: every read sees a state that existed, never less than the
// watermark that was known before it, and never a hole.
func (c *conform) readWhileFolding() {
	const folds, each = 40, 7
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		var w evtid.ID
		var err error
		for n := 0; n < folds && err == nil; n++ {
			w, err = c.a.Fold(ctx, c.stream, w, Records(n*each+1, (n+1)*each))
		}
		done <- err
	}()
	defer func() {
		cancel()
		// All folds are read by now, or the check has failed already.
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			c.Errorf("a fold failed: %v", err)
		}
	}()
	for seen := 0; seen < folds*each; {
		w, err := c.a.Watermark(ctx, c.stream)
		if err != nil {
			c.Fatalf("Watermark failed: %v", err)
		}
		got, err := c.read(ctx, c.stream, archive.Range{AtLeast: w})
		if err != nil {
			c.Fatalf("Read at least %q failed: %v", w, err)
		}
		if why := differ(got, Records(1, len(got))); why != "" {
			c.Fatalf("Read while folding: %s", why)
		}
		if len(got) > 0 && got[len(got)-1].ID.Less(w) || len(got) == 0 && !w.IsZero() || len(got)%each != 0 || len(got) < seen {
			c.Fatalf("Read at least %q gave %d records of folds of %d, %d before; want whole folds, at least up to the watermark, and never fewer", w, len(got), each, seen)
		}
		seen = len(got)
		select {
		case err := <-done:
			done <- nil
			if err != nil {
				c.Fatalf("Fold beside reads failed: %v", err)
			}
		default:
		}
	}
}
