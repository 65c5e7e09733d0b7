package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/runtime"
)

const (
	// replayLease is what keeps two replays of one stream from running at once.
	replayLease = "dead-replay"
	// replayLeaseTime is how long one that was killed keeps others away. The lease
	// is extended in each third of it.
	replayLeaseTime = 30 * time.Second
	// replayTries is how often an append is made anew that was refused because
	// another process had appended in between.
	replayTries = 5
	// lookBack is how far before a letter its replay is looked for: the clocks of
	// those who append differ by less.
	lookBack = time.Hour
)

// replayer is one replay under way.
type replayer struct {
	*app
	*deadLog
	how        replayFlags
	report     replayReport
	owner      string
	extended   time.Time
	rt         *runtime.Runtime
	work, mark *runtime.Log
}

// activeWriterError is the refusal to append beside another program.
type activeWriterError struct {
	stream keyspace.Stream
	node   int
	age    time.Duration
}

func (e *activeWriterError) Error() string {
	return fmt.Sprintf("node %d appended to %s %s ago, and an append of its own could be refused beside this command: stop that program, wait until the stream is quiet for %s, or accept it with --beside-writer",
		e.node, e.stream, e.age.Round(time.Millisecond), quietFor)
}

// Unwrap makes it the exit code of whoever is not the single writer.
func (e *activeWriterError) Unwrap() error { return evtlog.ErrNonMonotonic }

// mayWrite refuses to append to a stream that another program writes. A dry run
// only says so.
func (r *replayer) mayWrite(ctx context.Context) error {
	top, err := r.client.Log(r.stream).Last(ctx)
	age := time.Since(top.Time())
	if err != nil || r.how.beside || top.IsZero() || top.Node() == r.how.node || age > quietFor {
		return err
	}
	refusal := &activeWriterError{stream: r.stream, node: top.Node(), age: age}
	if r.how.dry {
		fmt.Fprintf(r.err, "%v\n", refusal)
		return nil
	}
	return refusal
}

// extend takes the lease, or keeps it.
func (r *replayer) extend(ctx context.Context) error {
	if time.Since(r.extended) < replayLeaseTime/3 {
		return nil
	}
	ok, err := r.client.Log(r.dead).AcquireLease(ctx, replayLease, r.owner, replayLeaseTime)
	if err == nil && !ok {
		err = fmt.Errorf("another replay of %s is at work, or was killed less than %s ago: wait for it, then run this again", r.stream, replayLeaseTime)
	}
	r.extended = time.Now()
	return err
}

func (r *replayer) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.how.timeout)
	defer cancel()
	return r.client.Log(r.dead).ReleaseLease(ctx, replayLease, r.owner)
}

// all replays what the index selects, and fills in the report.
func (r *replayer) all(ctx context.Context, x *deadIndex) (err error) {
	ids, already := x.open()
	r.report.Already, r.report.Selected = already, len(ids)
	settled, err := r.appended(ctx, ids)
	if err != nil {
		return err
	}
	if !r.how.dry && len(ids) > 0 {
		if err := r.start(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.stop(ctx)) }()
	}
	err = r.each(ctx, ids, func(l letter) error { return r.replay(ctx, l, settled[l.id]) })
	switch {
	case err != nil:
		return fmt.Errorf("%d of %d letters are done, run the command again for the rest: %w", r.report.Replayed+r.report.Settled, len(ids), err)
	case r.report.Refused > 0 && !r.how.dry:
		return fmt.Errorf("%d letters cannot be replayed; \"-o jsonl\" says why", r.report.Refused)
	}
	return nil
}

// appended finds the letters among ids that an interrupted run has appended
// without a mark.
func (r *replayer) appended(ctx context.Context, ids []evtid.ID) (map[evtid.ID]evtid.ID, error) {
	found := map[evtid.ID]evtid.ID{}
	if len(ids) == 0 {
		return found, nil
	}
	open := make(map[evtid.ID]bool, len(ids))
	for _, id := range ids {
		open[id] = true
	}
	since, err := evtlog.Since(ids[0].Time().Add(-lookBack))
	if err != nil {
		return nil, err
	}
	// Newest first, so that everything is seen that is there, however much of the
	// older part has left the stream.
	since.Reverse = true
	for rec, err := range r.reader(r.stream).Read(ctx, since) {
		var gap *archive.GapError
		if errors.As(err, &gap) {
			fmt.Fprintf(r.err, "%v; a replay that was interrupted before then would not be noticed\n", gap)
			break
		}
		if err != nil {
			return nil, err
		}
		if of, ok := linkOf(rec); ok && open[of] {
			found[of] = rec.ID
		}
	}
	return found, nil
}

func (r *replayer) start(ctx context.Context) (err error) {
	stream := func(s keyspace.Stream) runtime.Stream { return runtime.Stream{Queue: s.Queue(), Name: s.Name()} }
	r.rt, err = runtime.Start(ctx, runtime.Config{
		Redis: r.redisConfig(), Node: r.how.node, MaxRecordBytes: r.how.maxRecord,
		Streams: []runtime.Stream{stream(r.stream), stream(r.dead)},
	})
	if err != nil {
		return err
	}
	if r.work, err = r.rt.Stream(r.stream.Queue(), r.stream.Name()); err == nil {
		r.mark, err = r.rt.Stream(r.dead.Queue(), r.dead.Name())
	}
	return err
}

func (r *replayer) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.how.timeout)
	defer cancel()
	return r.rt.Stop(ctx)
}

// outcome is what became of one letter.
type outcome struct {
	DryRun  bool     `json:"dry_run,omitempty"`
	Letter  evtid.ID `json:"letter"`
	Origin  string   `json:"origin"`
	Group   string   `json:"group"`
	Outcome string   `json:"outcome"`
	As      string   `json:"replayed_as,omitempty"`
	Reason  string   `json:"reason,omitempty"`
}

// replay does one letter. as is the record that an earlier run appended, or
// zero. An interruption ends the command before a letter, not in the middle.
func (r *replayer) replay(ctx context.Context, l letter, as evtid.ID) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	o := outcome{DryRun: r.how.dry, Letter: l.id, Origin: l.origin, Group: l.group, Outcome: "settled"}
	var fields []evtlog.Field
	if as.IsZero() {
		own, err := r.body(ctx, l)
		if err == nil {
			fields = replayFields(l, own)
			err = evtlog.CheckFields(fields, r.how.maxRecord)
		}
		o.Outcome = "replayed"
		if err != nil {
			o.Outcome, o.Reason = "refused", inFlags(err.Error())
		}
	}
	if !r.how.dry && o.Outcome != "refused" {
		var err error
		if as, err = r.write(ctx, l, as, fields); err != nil {
			return err
		}
	}
	return r.tell(o, as)
}

// tell counts an outcome and prints it.
func (r *replayer) tell(o outcome, as evtid.ID) error {
	switch o.Outcome {
	case "replayed":
		r.report.Replayed++
	case "settled":
		r.report.Settled++
	default:
		r.report.Refused++
	}
	if r.output != "jsonl" {
		return nil
	}
	if !as.IsZero() {
		o.As = as.String()
	}
	return json.NewEncoder(r.out).Encode(o)
}

// body returns the fields of the original entry. When the letter had no room
// for them they are read from the stream.
func (r *replayer) body(ctx context.Context, l letter) ([]evtlog.Field, error) {
	if !l.truncated {
		return l.own, nil
	}
	origin, err := evtid.Parse(l.origin)
	if err == nil {
		for rec, err := range r.reader(r.stream).Read(ctx, evtlog.Window{After: origin.Prev(), To: origin}) {
			if err != nil {
				break
			}
			return rec.Fields, nil
		}
	}
	return nil, fmt.Errorf("the letter had no room for the fields, and entry %q is not in the stream any more; give the --archive that has it", l.origin)
}

// write appends a letter's record unless it is there, and then its mark.
func (r *replayer) write(ctx context.Context, l letter, as evtid.ID, fields []evtlog.Field) (evtid.ID, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.how.timeout)
	defer cancel()
	if err := r.extend(ctx); err != nil {
		return as, err
	}
	if as.IsZero() {
		tries := 1
		if r.how.beside {
			tries = replayTries
		}
		var err error
		if as, err = appendAnew(ctx, r.work, tries, fields); err != nil {
			return as, err
		}
	}
	_, err := appendAnew(ctx, r.mark, replayTries, markFields(l.id, as))
	return as, err
}

// appendAnew appends, and again with a new id when another process was faster:
// nothing was written then.
func appendAnew(ctx context.Context, log *runtime.Log, tries int, fields []evtlog.Field) (id evtid.ID, err error) {
	for range tries {
		if id, err = log.Append(ctx, fields...); !errors.Is(err, evtlog.ErrNonMonotonic) {
			break
		}
	}
	return id, err
}
