package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// Position is a place in a stream. Make one with After or FromInstant; the zero
// Position is the head of the log.
type Position struct {
	after evtid.ID
	err   error
}

// After is the place behind the record id: the next one is the first above it.
func After(id evtid.ID) Position { return Position{after: id} }

// FromInstant is the place before the first record that was appended at or after
// an instant, to the millisecond. An instant in the future is the end of the
// stream; one before 1970 is refused by Seek with evtid.ErrBeforeUnixEpoch.
func FromInstant(t time.Time) Position {
	bound, err := evtid.Floor(t)
	return Position{after: bound.Before(), err: err}
}

// SeekReport is what moving a group does, or did.
type SeekReport struct {
	redislog.SeekPlan
	// SkippedRecords counts the records that the group owed and will not be given,
	// RepeatedRecords those that it will be given again.
	SkippedRecords, RepeatedRecords int64
	// Exact is false when the counts may leave records out: part of what is counted
	// was trimmed, and there is no archive to count it in.
	Exact bool
	// Done is false for a dry run.
	Done bool
}

// Seek moves a group to a position. A dry run changes nothing, and says how many
// records would be skipped or repeated. The archive is asked how far it
// reaches, so the head of the log is the first archived record, whatever became of
// the keys in Redis.
//
// Afterwards the group owes the records above the position, and what is pending.
// Members of this runtime are paused meanwhile; stop or pause those of other
// processes first. Without such a group it is evtlog.ErrNoGroup; for a stream
// that this runtime neither declares nor consumes it is ErrUnknownStream.
func (rt *Runtime) Seek(ctx context.Context, stream evtlog.StreamName, group string, to Position, dryRun bool) (report SeekReport, err error) {
	err = rt.life.do("seek", func() (err error) {
		report, err = rt.seek(ctx, stream, group, to, dryRun)
		return err
	})
	return report, err
}

func (rt *Runtime) seek(ctx context.Context, stream evtlog.StreamName, group string, to Position, dryRun bool) (SeekReport, error) {
	redis, arch, err := rt.openLog(stream)
	if err = cmp.Or(to.err, err); err != nil {
		return SeekReport{}, err
	}
	members, err := rt.membersOf(stream, group)
	if err == nil && !dryRun {
		for _, m := range members {
			m.change(func(r *rest) { r.seeks++ })
			defer m.change(func(r *rest) { r.seeks-- })
		}
		if err := awaitRest(ctx, members); err != nil {
			return SeekReport{}, err
		}
	}
	report, err := SeekGroup(ctx, redis, arch, group, to, dryRun)
	if report.Done {
		for _, m := range members {
			m.actor.Moved(report.Target)
		}
	}
	return report, err
}

// openLog finds a stream that this runtime declares or consumes, and its archive.
func (rt *Runtime) openLog(stream evtlog.StreamName) (*redislog.Log, archive.Archive, error) {
	for _, m := range rt.consumers {
		if nameOf(m.plan.key) == stream {
			return m.redis, m.plan.Archive, nil
		}
	}
	l, err := rt.Stream(stream.Queue, stream.Name)
	if err != nil {
		return nil, nil, err
	}
	return l.redis, l.archive, nil
}

// archived is the archive of one stream.
type archived struct {
	archive.Archive
	stream evtlog.StreamName
}

// Watermark implements redislog.Archived.
func (a archived) Watermark(ctx context.Context) (evtid.ID, error) {
	w, err := a.Archive.Watermark(ctx, a.stream)
	if err != nil {
		err = fmt.Errorf("runtime: how far the archive of %s reaches is not known: %w", a.stream, err)
	}
	return w, err
}

// SeekGroup is Seek for a program that runs no Runtime. It pauses nobody. arch
// may be nil; then only the floor in Redis tells what was archived, and after it
// was deleted, nothing does, and only what is live is counted. An archive that does
// not answer is an error, and nothing is moved.
func SeekGroup(ctx context.Context, log *redislog.Log, arch archive.Archive, group string, to Position, dryRun bool) (SeekReport, error) {
	if to.err != nil {
		return SeekReport{}, to.err
	}
	if arch != nil {
		log = log.Behind(archived{arch, nameOf(log.Stream())})
	}
	plan, err := log.PlanSeek(ctx, group, to.after)
	if err != nil {
		return SeekReport{}, err
	}
	if !dryRun {
		if plan, err = log.Seek(ctx, group, to.after); err != nil {
			return SeekReport{}, err
		}
		if err := log.CheckSeek(ctx, plan); err != nil {
			return SeekReport{SeekPlan: plan, Done: true}, err
		}
	}
	report := SeekReport{SeekPlan: plan, Done: !dryRun, Exact: true}
	err = report.count(ctx, archive.NewReader(nameOf(log.Stream()), log, arch), arch != nil)
	return report, err
}

// count counts the records of the plan's ranges.
func (r *SeekReport) count(ctx context.Context, reader *archive.Reader, archived bool) error {
	for _, part := range []struct {
		ranges []redislog.SkippedRange
		// trimmed is up to where records may have left the stream.
		trimmed evtid.ID
		count   *int64
	}{
		// What a group owes below its position was recorded by a trim.
		{r.Skipped, later(r.Floor, r.From), &r.SkippedRecords},
		{r.Repeated, r.Floor, &r.RepeatedRecords},
	} {
		for _, span := range part.ranges {
			n, whole, err := countReadable(ctx, reader, span, archived)
			if err != nil {
				return err
			}
			*part.count += n
			r.Exact = r.Exact && whole && countable(span, part.trimmed, archived)
		}
	}
	return nil
}

// countable reports whether a range can be counted whole: below what was trimmed
// only with the archive.
func countable(r redislog.SkippedRange, trimmed evtid.ID, archived bool) bool {
	return archived || !r.After.Less(trimmed)
}

// countReadable counts the records of a range. Without an archive it goes on behind
// what has left the stream, and says whether that was all.
func countReadable(ctx context.Context, reader *archive.Reader, r redislog.SkippedRange, archived bool) (n int64, whole bool, err error) {
	for whole = true; ; whole = false {
		part, _, err := countRecords(ctx, reader, r, 0)
		n += part
		var gap *archive.GapError
		if archived || !errors.As(err, &gap) || !r.After.Less(gap.To) {
			return n, whole, err
		}
		r.After = gap.To
	}
}

// countRecords counts the records of a range, across archive and live stream,
// and names the first. With a limit above zero it stops there.
func countRecords(ctx context.Context, reader *archive.Reader, r redislog.SkippedRange, limit int64) (n int64, first evtid.ID, err error) {
	for rec, err := range reader.Read(ctx, evtlog.Window{After: r.After, To: r.To}) {
		if err != nil {
			return n, first, err
		}
		if n++; n == 1 {
			first = rec.ID
		}
		if n == limit {
			break
		}
	}
	return n, first, nil
}
