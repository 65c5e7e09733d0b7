package archivetest

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
)

// bounds reads every range between, on and around a few records.
func (c *conform) bounds() {
	var all []evtlog.Record
	for _, n := range []int{2, 3, 5, 8, 9, 13} {
		all = append(all, Records(n, n)...)
	}
	w := c.fold(evtid.ID{}, all[:1])
	w = c.fold(w, all[1:4])
	c.fold(w, all[4:])
	edges := []evtid.ID{{}, evtid.ID{}.Next(), evtid.Max}
	for _, r := range all {
		edges = append(edges, r.ID.Prev(), r.ID, r.ID.Next())
	}
	for _, after := range edges {
		for _, to := range edges {
			want := within(all, after, to)
			c.wantRange(c.stream, archive.Range{After: after, To: to}, want)
			slices.Reverse(want)
			c.wantRange(c.stream, archive.Range{After: after, To: to, Reverse: true}, want)
		}
	}
}

// within is the oracle: the records with after < id <= to, all when to is zero.
func within(all []evtlog.Record, after, to evtid.ID) (in []evtlog.Record) {
	for _, r := range all {
		if after.Less(r.ID) && (to.IsZero() || !to.Less(r.ID)) {
			in = append(in, r)
		}
	}
	return in
}

func (c *conform) ownership() {
	c.fold(evtid.ID{}, Records(1, 5))
	got, err := c.read(c.ctx, c.stream, archive.Range{})
	if err != nil {
		c.Fatalf("Read failed: %v", err)
	}
	for _, r := range got {
		for i := range r.Fields {
			r.Fields[i] = evtlog.F("overwritten", "by the receiver")
		}
		// An append must not reach into a neighbour's fields.
		_ = append(r.Fields, evtlog.F("appended", "by the receiver"))
	}
	c.wantRecords(Records(1, 5))
	got, err = c.read(c.ctx, c.stream, archive.Range{})
	if err != nil {
		c.Fatalf("Read failed: %v", err)
	}
	for _, r := range got {
		_ = append(r.Fields, evtlog.F("appended", "by the receiver"))
	}
	if why := differ(got, Records(1, 5)); why != "" {
		c.Fatalf("after appending to the fields of each record: %s", why)
	}
}

// openEnd folds while a read with an open end is under way.
func (c *conform) openEnd() {
	w := c.fold(evtid.ID{}, Records(1, 10))
	for _, reverse := range []bool{false, true} {
		last := int(w.UnixMilli() - evtid.EpochMillis)
		want := Records(1, last)
		if reverse {
			slices.Reverse(want)
		}
		var got []evtlog.Record
		for rec, err := range c.a.Read(c.ctx, c.stream, archive.Range{Reverse: reverse}) {
			if err != nil {
				c.Fatalf("Read failed: %v", err)
			}
			if got = append(got, rec); len(got) == 1 {
				w = c.fold(w, Records(last+1, last+3))
			}
		}
		if why := differ(got, want); why != "" {
			c.Fatalf("Read with an open end (reverse %t) while a fold goes on: %s", reverse, why)
		}
	}
}

func (c *conform) atLeastReached() {
	w := c.fold(evtid.ID{}, Records(1, 3))
	c.fold(w, Records(5, 6))
	for _, atLeast := range []evtid.ID{ID(1), ID(3), ID(3).Next(), ID(4), ID(6)} {
		c.wantRange(c.stream, archive.Range{To: ID(3), AtLeast: atLeast}, Records(1, 3))
		c.wantRange(c.stream, archive.Range{After: ID(3), AtLeast: atLeast, Reverse: true}, []evtlog.Record{Records(6, 6)[0], Records(5, 5)[0]})
	}
}

func (c *conform) atLeastWaits() {
	w := c.fold(evtid.ID{}, Records(1, 3))
	type answer struct {
		got []evtlog.Record
		err error
	}
	done := make(chan answer, 1)
	go func() {
		got, err := c.read(c.ctx, c.stream, archive.Range{After: ID(2), To: ID(5), AtLeast: ID(5)})
		done <- answer{got, err}
	}()
	// One that does not reach it, one that does.
	w = c.fold(w, Records(4, 4))
	c.fold(w, Records(5, 6))
	select {
	case a := <-done:
		if a.err != nil {
			c.Fatalf("Read failed although the watermark was reached: %v", a.err)
		}
		if why := differ(a.got, Records(3, 5)); why != "" {
			c.Fatalf("Read that had to wait for the watermark: %s", why)
		}
	case <-c.ctx.Done():
		c.Fatalf("Read still waits for a watermark that was reached")
	}
}

func (c *conform) atLeastGivesUp() {
	c.fold(evtid.ID{}, Records(1, 3))
	for _, atLeast := range []evtid.ID{ID(3).Next(), evtid.Max} {
		ctx, cancel := context.WithTimeout(c.ctx, 200*time.Millisecond)
		got, err := c.read(ctx, c.stream, archive.Range{AtLeast: atLeast})
		cancel()
		if len(got) > 0 || !errors.Is(err, archive.ErrBehind) {
			c.Fatalf("Read at least %s of watermark %s gave %d records and %v; want ErrBehind and no record", atLeast, ID(3), len(got), err)
		}
	}
}

// earlyBreak leaves many reads early and looks for what they left behind.
func (c *conform) earlyBreak() {
	w := c.fold(evtid.ID{}, Records(1, 2000))
	leave := func(times int) {
		for i := range times {
			for rec, err := range c.a.Read(c.ctx, c.stream, archive.Range{Reverse: i%2 == 1}) {
				if err != nil {
					c.Fatalf("Read failed: %v", err)
				}
				_ = rec
				break
			}
		}
	}
	const slack = 20
	leave(3)
	before := runtime.NumGoroutine()
	leave(100)
	for runtime.NumGoroutine() > before+slack {
		if c.ctx.Err() != nil {
			c.Fatalf("%d goroutines before and %d after 100 reads that were left early", before, runtime.NumGoroutine())
		}
		<-time.After(time.Millisecond)
	}
	c.fold(w, Records(2001, 2002))
	c.wantRecords(Records(1, 2002))
}

func (c *conform) endedContext() {
	w := c.fold(evtid.ID{}, Records(1, 3))
	ctx, cancel := context.WithCancel(c.ctx)
	cancel()
	_, foldErr := c.a.Fold(ctx, c.stream, w, Records(4, 5))
	_, watermarkErr := c.a.Watermark(ctx, c.stream)
	got, readErr := c.read(ctx, c.stream, archive.Range{})
	for name, err := range map[string]error{"Fold": foldErr, "Watermark": watermarkErr, "Read": readErr} {
		if !errors.Is(err, context.Canceled) {
			c.Errorf("%s with a context that has ended: error %v; want context.Canceled", name, err)
		}
	}
	if len(got) > 0 {
		c.Errorf("Read with a context that has ended gave %d records", len(got))
	}
	c.wantWatermark(w)
	c.wantRecords(Records(1, 3))
}

func (c *conform) contextEnds() {
	const folds, each = 10, 1000
	var w evtid.ID
	for i := range folds {
		w = c.fold(w, Records(i*each+1, (i+1)*each))
	}
	for _, reverse := range []bool{false, true} {
		ctx, cancel := context.WithCancel(c.ctx)
		n, err := 0, error(nil)
		for _, err = range c.a.Read(ctx, c.stream, archive.Range{Reverse: reverse}) {
			if err != nil {
				break
			}
			n++
			cancel()
		}
		cancel()
		if !errors.Is(err, context.Canceled) {
			c.Fatalf("Read (reverse %t) whose context ended after the first record gave %d records and %v; want context.Canceled", reverse, n, err)
		}
	}
}
