package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// CountLimit is how many records Lag counts, per group, before it says that it
// does not know.
const CountLimit = 100_000

// Lag is how far one group is behind its stream. It is counted from records,
// archived ones included, and never taken from the server's own lag, which is
// wrong after trims. The archive is asked how far it reaches, so a floor that was
// deleted, or a stream that was, changes nothing.
type Lag struct {
	Stream evtlog.StreamName
	Group  string
	// Entries counts the records that the group has not finished: what is pending,
	// what a trim skipped and the archive still holds for it, and what it was not
	// given yet. It means nothing when Known is false; Why then says in words what
	// could not be proved.
	Entries int64
	Known   bool
	Why     string
	// Oldest is the oldest record that is not finished, and Behind its age by this
	// machine's clock; both are zero when there is none. They mean nothing when
	// OldestKnown is false.
	Oldest      evtid.ID
	Behind      time.Duration
	OldestKnown bool
	// Pending counts what was delivered and not acknowledged, part of Entries.
	// Holder is the member that has the oldest of it, "" when nothing is pending.
	Pending int64
	Holder  string
	// Skipped are the ranges that were trimmed before the group was done with them.
	// Recoverable says that there is an archive to read them from; else the group
	// is told that they are lost.
	Skipped     []redislog.SkippedRange
	Recoverable bool
	// Position is what the group was given last, Top the newest id of the log, in the
	// stream or above it in the archive.
	Position, Top evtid.ID
}

// Lag returns the lag of every group of the streams that this runtime declares or
// consumes, ordered by stream and group. It reads what the groups are behind, so
// it is for operators, not for a hot loop.
func (rt *Runtime) Lag(ctx context.Context) (lags []Lag, err error) {
	err = rt.life.do("lag", func() (err error) {
		lags, err = rt.lag(ctx)
		return err
	})
	return lags, err
}

func (rt *Runtime) lag(ctx context.Context) ([]Lag, error) {
	streams := map[evtlog.StreamName]bool{}
	for name := range rt.logs {
		streams[name] = true
	}
	for _, m := range rt.consumers {
		streams[nameOf(m.plan.key)] = true
	}
	var all []Lag
	for name := range streams {
		redis, arch, err := rt.openLog(name)
		if err != nil {
			return nil, err
		}
		lags, err := GroupLags(ctx, redis, arch)
		if err != nil {
			return nil, fmt.Errorf("runtime: lag of %s: %w", name, err)
		}
		all = append(all, rt.withVanished(name, lags)...)
	}
	slices.SortFunc(all, func(a, b Lag) int {
		return cmp.Or(cmp.Compare(a.Stream.String(), b.Stream.String()), cmp.Compare(a.Group, b.Group))
	})
	return all, nil
}

// withVanished adds the groups that this runtime consumes as and that are not
// there, as after FLUSHALL and before a member has made them anew.
func (rt *Runtime) withVanished(stream evtlog.StreamName, lags []Lag) []Lag {
	for _, m := range rt.consumers {
		there := slices.ContainsFunc(lags, func(l Lag) bool { return l.Group == m.plan.Group })
		if nameOf(m.plan.key) == stream && !there {
			lags = append(lags, Lag{
				Stream: stream, Group: m.plan.Group, Recoverable: m.plan.Archive != nil,
				Why: "there is no such group now; its members make it anew at what they had acknowledged",
			})
		}
	}
	return lags
}

// GroupLags is Lag for one stream, and for a program that runs no Runtime. arch
// may be nil; then what was archived and trimmed is not counted, and the lag of a
// group that owes some of it is unknown.
func GroupLags(ctx context.Context, log *redislog.Log, arch archive.Archive) ([]Lag, error) {
	// The top first: what is appended after it is not counted by this look.
	top, err := log.Last(ctx)
	if err != nil {
		return nil, err
	}
	name := nameOf(log.Stream())
	c := lagCounter{log: log, reader: archive.NewReader(name, log, arch), archived: arch != nil, top: top, now: time.Now()}
	if arch != nil {
		// What it holds above the top went with a stream that was deleted or set back,
		// or was appended since.
		reach, err := arch.Watermark(ctx, name)
		c.unanswered, c.top = err, later(top, reach)
	}
	// The groups last: what they were given since is not owed.
	groups, err := log.Groups(ctx)
	if err != nil {
		return nil, err
	}
	if c.floor, err = log.Floor(ctx); err != nil {
		return nil, err
	}
	lags := make([]Lag, 0, len(groups))
	for _, g := range groups {
		lag, err := c.measure(ctx, g)
		if err != nil {
			return nil, err
		}
		lags = append(lags, lag)
	}
	return lags, nil
}

func later(a, b evtid.ID) evtid.ID {
	if a.Less(b) {
		return b
	}
	return a
}

// lagCounter measures one group.
type lagCounter struct {
	log      *redislog.Log
	reader   *archive.Reader
	floor    evtid.ID
	archived bool
	// unanswered is why the archive did not say how far it reaches.
	unanswered error
	// top is the end of the log: of the stream, or of what was archived.
	top evtid.ID
	now time.Time
}

func (c *lagCounter) measure(ctx context.Context, g redislog.GroupInfo) (Lag, error) {
	skipped, err := c.log.SkippedRanges(ctx, g.Name)
	if err != nil {
		return Lag{}, err
	}
	lag := Lag{
		Stream: nameOf(c.log.Stream()), Group: g.Name, Pending: g.Pending, Skipped: skipped,
		Recoverable: c.archived, Position: g.LastDelivered, Top: c.top,
	}
	f := lagFacts{floor: c.floor, archived: c.archived, skipped: len(skipped), unanswered: c.unanswered}
	owed := redislog.OwedRanges(g.LastDelivered, skipped, c.top)
	if err := c.pending(ctx, g, owed, &f, &lag); err != nil {
		return Lag{}, err
	}
	if c.unanswered == nil {
		if err := c.count(ctx, owed, &f); err != nil {
			return Lag{}, err
		}
	}
	f.judge(&lag, c.now)
	return lag, nil
}

// count counts the records of what is owed. Records that the archive should have
// and does not give leave the count unproved.
func (c *lagCounter) count(ctx context.Context, owed []redislog.SkippedRange, f *lagFacts) error {
	for _, r := range owed {
		f.uncountable = f.uncountable || !countable(r, c.floor, c.archived)
		n, first, err := countRecords(ctx, c.reader, r, max(CountLimit-f.counted, 1))
		if err != nil && errors.Is(err, archive.ErrGap) {
			f.gap = err
			return nil
		}
		if err != nil {
			return err
		}
		f.counted += n
		if f.oldest.IsZero() || !first.IsZero() && first.Less(f.oldest) {
			f.oldest = first
		}
		if f.counted >= CountLimit {
			f.stopped = true
			return nil
		}
	}
	return nil
}

// pending counts the pending entries that no owed range holds: one that was
// trimmed may be in both.
func (c *lagCounter) pending(ctx context.Context, g redislog.GroupInfo, owed []redislog.SkippedRange, f *lagFacts, lag *Lag) error {
	if g.Pending == 0 {
		return nil
	}
	page, err := c.log.Pending(ctx, g.Name, evtid.ID{}, pendingPage, "", 0)
	if err != nil {
		return err
	}
	if lag.Pending = int64(len(page)); lag.Pending == pendingPage {
		lag.Pending = max(g.Pending, pendingPage)
	}
	if len(page) == 0 {
		return nil
	}
	lag.Holder, f.oldest = page[0].Consumer, page[0].ID
	f.foreign = page[0].Raw != ""
	f.counted = lag.Pending
	if lag.Pending > pendingPage {
		f.unlisted = len(lag.Skipped) > 0
		return nil
	}
	f.counted = 0
	for _, p := range page {
		if p.Raw != "" || !slices.ContainsFunc(owed, func(r redislog.SkippedRange) bool { return r.After.Less(p.ID) && !r.To.Less(p.ID) }) {
			f.counted++
		}
	}
	return nil
}

// pendingPage is how many pending entries are compared with the skipped ranges.
const pendingPage = 1000

// lagFacts is what a verdict about a lag rests on.
type lagFacts struct {
	floor       evtid.ID
	archived    bool
	skipped     int
	counted     int64
	oldest      evtid.ID
	stopped     bool // at CountLimit
	uncountable bool // something owed is below the floor, and no archive is at hand
	unlisted    bool // more pending entries than were compared with the ranges
	foreign     bool // the oldest pending entry has no id
	unanswered  error
	gap         error // records that are owed and that nobody has
}

// judge says what is proved.
func (f lagFacts) judge(lag *Lag, now time.Time) {
	lag.Known, lag.OldestKnown = true, !f.foreign
	switch {
	case f.unanswered != nil:
		lag.Known, lag.OldestKnown = false, false
		lag.Why = "the archive does not say how far it reaches: " + f.unanswered.Error()
	case f.skipped > 0 && !f.archived:
		lag.Known, lag.OldestKnown = false, false
		lag.Why = "ranges were trimmed before the group was done with them, and there is no archive to count them in"
	case f.uncountable:
		lag.Known, lag.OldestKnown = false, false
		lag.Why = "part of it was archived and trimmed, and the archive was not given"
	case f.gap != nil:
		lag.Known, lag.OldestKnown = false, false
		lag.Why = f.gap.Error()
	case f.stopped:
		lag.Known = false
		lag.Why = fmt.Sprintf("there are %d or more, and no more are counted", CountLimit)
	case f.unlisted:
		lag.Known = false
		lag.Why = fmt.Sprintf("more than %d entries are pending while ranges are skipped, and the two may overlap", pendingPage)
	case f.foreign:
		lag.Why = "the oldest pending entry stands where no id can, so its age is not known"
	}
	if lag.Known {
		lag.Entries = f.counted
	}
	if lag.OldestKnown && !f.oldest.IsZero() {
		lag.Oldest = f.oldest
		lag.Behind = max(now.Sub(f.oldest.Time()), 0)
	}
}
