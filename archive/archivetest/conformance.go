package archivetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
)

// patience bounds one check, and every wait in it. It is long, so that a slow
// machine or a network is no failure; nothing waits for it to pass.
const patience = 60 * time.Second

// Conformance runs the contract of archive.Archive, and that of
// archive.Pipelined on an archive that is one. open is called for each check, and
// once before; it may return the same archive each time, as every check works on
// streams of its own, which must not exist before. The archive must be left
// alone, and must not fail, while a check runs.
func Conformance(t *testing.T, open func(t *testing.T) archive.Archive) {
	all := checks()
	if _, pipelined := open(t).(archive.Pipelined); pipelined {
		all = append(all, pipelinedChecks()...)
	}
	for _, check := range all {
		t.Run(check.name, func(t *testing.T) { check.on(t, open(t), patience) })
	}
}

type check struct {
	name string
	run  func(*conform)
}

// checks lists the contract.
func checks() []check {
	return []check{
		{"empty archive", (*conform).emptyArchive},
		{"fold moves the watermark", (*conform).foldMoves},
		{"repeated fold answers as it did", (*conform).repeatedFold},
		{"another fold on the same watermark conflicts", (*conform).differentFold},
		{"wrong watermark conflicts", (*conform).conflict},
		{"order of a fold", (*conform).order},
		{"streams are independent", (*conform).independent},
		{"fold keeps nothing of the caller", (*conform).keepsNothing},
		{"records come back as they were", (*conform).recordsReturn},
		{"large records", (*conform).large},
		{"first and last id", (*conform).edgeIDs},
		{"bounds", (*conform).bounds},
		{"records belong to the receiver", (*conform).ownership},
		{"open end is pinned", (*conform).openEnd},
		{"at least: reached", (*conform).atLeastReached},
		{"at least: waits", (*conform).atLeastWaits},
		{"at least: gives up", (*conform).atLeastGivesUp},
		{"early break", (*conform).earlyBreak},
		{"ended context", (*conform).endedContext},
		{"context ends while reading", (*conform).contextEnds},
		{"one of many concurrent folds wins", (*conform).oneWins},
		{"concurrent folds of many streams", (*conform).manyStreams},
		{"reading while folding", (*conform).readWhileFolding},
	}
}

// testT is the part of testing.T that the checks use, so that the suite itself
// can be tested.
type testT interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

func (c check) on(t testT, a archive.Archive, patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	suffix := strconv.FormatUint(rand.Uint64(), 36)
	c.run(&conform{testT: t, ctx: ctx, a: a, suffix: suffix, stream: evtlog.StreamName{Queue: "conform", Name: "s-" + suffix}})
}

// conform is one check at work.
type conform struct {
	testT
	ctx    context.Context
	a      archive.Archive
	stream evtlog.StreamName
	suffix string
}

// ID returns the id of the n-th record that Records makes, n > 0. Between two of
// them there is room for others.
func ID(n int) evtid.ID {
	id, err := evtid.Make(evtid.EpochMillis+int64(n), 7, 0)
	if err != nil {
		panic(err)
	}
	return id
}

// Records returns the records numbered from..to, both included. Each has its
// number in the field "n".
func Records(from, to int) []evtlog.Record {
	var records []evtlog.Record
	for n := from; n <= to; n++ {
		records = append(records, evtlog.Record{ID: ID(n), Fields: []evtlog.Field{evtlog.F("n", strconv.Itoa(n))}})
	}
	return records
}

// fold folds records and fails the test unless the archive takes them.
func (c *conform) fold(prev evtid.ID, records []evtlog.Record) evtid.ID {
	c.Helper()
	return c.foldInto(c.stream, prev, records)
}

func (c *conform) foldInto(stream evtlog.StreamName, prev evtid.ID, records []evtlog.Record) evtid.ID {
	c.Helper()
	w, err := c.a.Fold(c.ctx, stream, prev, records)
	last := records[len(records)-1].ID
	if err != nil || w != last {
		c.Fatalf("Fold(%s, prev %q, %d records up to %s) = %q, %v; want the last id", stream, prev, len(records), last, w, err)
	}
	return w
}

// wantWatermark fails the test unless the watermark is w.
func (c *conform) wantWatermark(w evtid.ID) {
	c.Helper()
	c.wantWatermarkOf(c.stream, w)
}

func (c *conform) wantWatermarkOf(stream evtlog.StreamName, w evtid.ID) {
	c.Helper()
	if got, err := c.a.Watermark(c.ctx, stream); err != nil || got != w {
		c.Fatalf("Watermark(%s) = %q, %v; want %q", stream, got, err, w)
	}
}

// wantRecords fails the test unless the stream's archive holds exactly want.
func (c *conform) wantRecords(want []evtlog.Record) {
	c.Helper()
	c.wantRecordsOf(c.stream, want)
}

func (c *conform) wantRecordsOf(stream evtlog.StreamName, want []evtlog.Record) {
	c.Helper()
	c.wantRange(stream, archive.Range{}, want)
}

func (c *conform) wantRange(stream evtlog.StreamName, r archive.Range, want []evtlog.Record) {
	c.Helper()
	got, err := c.read(c.ctx, stream, r)
	if err != nil {
		c.Fatalf("Read(%s, %s) failed: %v", stream, show(r), err)
	}
	if why := differ(got, want); why != "" {
		c.Fatalf("Read(%s, %s): %s", stream, show(r), why)
	}
}

func (c *conform) read(ctx context.Context, stream evtlog.StreamName, r archive.Range) (got []evtlog.Record, err error) {
	for rec, err := range c.a.Read(ctx, stream, r) {
		if err != nil {
			return got, err
		}
		got = append(got, rec)
	}
	return got, nil
}

// differ says how got differs from want, or "".
func differ(got, want []evtlog.Record) string {
	for i := range min(len(got), len(want)) {
		switch g, w := got[i], want[i]; {
		case g.ID != w.ID:
			return fmt.Sprintf("record %d is %s, want %s", i, g.ID, w.ID)
		case !slices.Equal(g.Fields, w.Fields):
			return fmt.Sprintf("record %d (%s) has other fields: %s, want %s", i, g.ID, cut(g.Fields), cut(w.Fields))
		case g.Unbranded != w.Unbranded:
			return fmt.Sprintf("record %d (%s) has Unbranded %t, want %t", i, g.ID, g.Unbranded, w.Unbranded)
		case g.Source != evtlog.Archived:
			return fmt.Sprintf("record %d (%s) has Source %s, want %s", i, g.ID, g.Source, evtlog.Archived)
		}
	}
	if len(got) != len(want) {
		return fmt.Sprintf("%d records, want %d", len(got), len(want))
	}
	return ""
}

func cut(fields []evtlog.Field) string {
	s := fmt.Sprintf("%q", fields)
	return s[:min(len(s), 200)]
}

func show(r archive.Range) string {
	return fmt.Sprintf("after %q, to %q, at least %q, reverse %t", r.After, r.To, r.AtLeast, r.Reverse)
}

// wantConflict fails the test unless err is the conflict of prev with w.
func (c *conform) wantConflict(err error, prev, w evtid.ID) {
	c.Helper()
	want := archive.ConflictError{Stream: c.stream, Prev: prev, Watermark: w}
	var conflict *archive.ConflictError
	switch {
	case !errors.As(err, &conflict) || !errors.Is(err, archive.ErrConflict):
		c.Fatalf("Fold(prev %q) at watermark %q: error %v; want a *ConflictError", prev, w, err)
	case *conflict != want:
		c.Fatalf("Fold(prev %q) at watermark %q: the conflict says %+v; want %+v", prev, w, *conflict, want)
	}
}
