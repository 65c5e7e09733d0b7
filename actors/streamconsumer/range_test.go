package streamconsumer

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive/archivetest"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// late makes a world whose group missed the first of n records.
func late(t *testing.T, n, missed int) (*world, []evtid.ID, *memory) {
	t.Helper()
	w := newWorld(t)
	if _, err := w.log.CreateGroup(t.Context(), testGroup, redislog.Head()); err != nil {
		t.Fatal(err)
	}
	ids := w.append(n)
	a := newMemory()
	w.fold(a, ids[missed-1])
	return w, ids, a
}

// At the memory limit no lease can be taken, so nothing of a range is handled,
// and everything else is.
func TestOutOfMemoryKeepsRangesWaiting(t *testing.T) {
	w, ids, a := late(t, 6, 3)
	full := &fullLog{groupLog: w.log}
	full.full.Store(true)
	var j journal
	w.start("a", j.handle, withArchive(a), func(_ *Config, p *ports) { p.log = full })
	until(t, "what is live is handled", func() bool { return w.allDone(ids[5]) })
	equalIDs(t, "handled", j.ids(), ids[3:])
	full.full.Store(false)
	until(t, "the range is handled", func() bool { return w.settledAt(ids[5]) })
	equalIDs(t, "handled", j.ids()[3:], ids[:3])
}

// Work on a range whose lease went to somebody else is cancelled, and what was
// not done is done by whoever gets the lease next.
func TestLostLeaseCancelsTheHandler(t *testing.T) {
	w, ids, a := late(t, 4, 3)
	began := make(chan struct{})
	causes := make(chan error, 1)
	j := journal{}
	j.then = func(ctx context.Context, d evtlog.Delivery) error {
		if d.ID == ids[1] {
			select {
			case <-began:
				return nil
			default:
			}
			close(began)
			<-ctx.Done()
			causes <- context.Cause(ctx)
		}
		return nil
	}
	m := w.start("a", j.handle, withArchive(a))
	<-began
	key := w.stream.Lease("skipped:" + testGroup)
	w.server.Do("SET", key, "thief", "PX", "600000")
	until(t, "the handler is cancelled", func() bool { return len(causes) == 1 })
	if err := <-causes; !errors.Is(err, ErrNotOwner) {
		t.Errorf("cause = %v, want ErrNotOwner", err)
	}
	until(t, "new entries go on", func() bool { return j.times(ids[3]) == 1 })
	if got := w.ranges(); len(got) != 1 || got[0].After != ids[0] {
		t.Errorf("ranges = %v, want what was not done", got)
	}
	w.server.Do("DEL", key)
	until(t, "all is settled", func() bool { return w.settledAt(ids[3]) })
	equalIDs(t, "handled", j.ids(), []evtid.ID{ids[0], ids[1], ids[3], ids[1], ids[2]})
	if s := m.Stats(); s.Failed != 0 {
		t.Errorf("Stats = %+v", s)
	}
}

// A record of a range stays one as long as the dead stream does not take it.
func TestRangeWhileTheDeadStreamIsDown(t *testing.T) {
	w, ids, a := late(t, 4, 3)
	j := journal{then: func(_ context.Context, d evtlog.Delivery) error {
		if d.ID == ids[1] {
			return errors.New("cannot")
		}
		return nil
	}}
	tries := 0
	m := w.start("a", j.handle, withArchive(a), func(c *Config, p *ports) {
		c.MaxDeliveries = 2
		dead := p.dead
		p.dead = func(ctx context.Context, fields ...evtlog.Field) (evtid.ID, error) {
			if tries++; tries <= 3 {
				return evtid.ID{}, evtlog.ErrOutOfMemory
			}
			return dead(ctx, fields...)
		}
	})
	until(t, "all is settled", func() bool { return w.settledAt(ids[3]) })
	if got := j.times(ids[1]); got != 2 {
		t.Errorf("the handler was called %d times, want MaxDeliveries = 2", got)
	}
	if n := m.Stats().Dead; n != 1 {
		t.Errorf("Stats.Dead = %d, want 1", n)
	}
}

// With one attempt for each record, a range is worked on record by record.
func TestRangeWithOneAttempt(t *testing.T) {
	w, ids, a := late(t, 6, 5)
	j := journal{then: func(_ context.Context, d evtlog.Delivery) error {
		if d.ID == ids[2] {
			return errors.New("cannot")
		}
		return nil
	}}
	w.start("a", j.handle, withArchive(a), with(func(c *Config) { c.MaxDeliveries = 1 }))
	until(t, "all is settled", func() bool { return w.settledAt(ids[5]) })
	equalIDs(t, "handled, each once", j.ids(), ids)
	if letters := w.records(w.deadLog()); len(letters) != 1 {
		t.Errorf("dead letters = %v, want one", letters)
	}
}

// Ranges that overlap, or stand there twice, are handled to the end.
func TestRangesThatOverlap(t *testing.T) {
	w, ids, a := late(t, 6, 5)
	all := w.ranges()[0]
	err := w.log.AddSkipped(t.Context(), testGroup, all,
		redislog.SkippedRange{After: ids[1], To: ids[3]}, singleRange(ids[2]), singleRange(ids[2]))
	if err != nil {
		t.Fatal(err)
	}
	var j journal
	w.start("a", j.handle, withArchive(a), with(func(c *Config) { c.Count = 2 }))
	until(t, "all is settled", func() bool { return w.settledAt(ids[5]) })
	for i, id := range ids {
		if j.times(id) == 0 {
			t.Errorf("record %d was not handled", i)
		}
	}
}

// The connection that a stop would acknowledge on is gone: the stop ends in
// time, and the work comes again.
func TestStopWithoutAServer(t *testing.T) {
	w := newWorld(t, "--appendonly", "yes", "--appendfsync", "always")
	ids := w.append(2)
	began, release := make(chan struct{}), make(chan struct{})
	first := journal{then: func(context.Context, evtlog.Delivery) error {
		close(began)
		<-release
		return nil
	}}
	m := w.start("a", first.handle)
	<-began
	w.server.Kill()
	m.stop()
	close(release)
	if err := m.halt(); err != nil {
		t.Errorf("Run = %v", err)
	}
	w.server.Restart()
	var second journal
	w.start("a", second.handle)
	until(t, "all are handled", func() bool { return w.allDone(ids[1]) })
	equalIDs(t, "handled after the restart", second.ids(), ids)
}

// Each group keeps its own ranges.
func TestRangesBelongToOneGroup(t *testing.T) {
	w, ids, a := late(t, 4, 3)
	if err := w.log.AddSkipped(t.Context(), "other", w.ranges()...); err != nil {
		t.Fatal(err)
	}
	var j journal
	w.start("a", j.handle, withArchive(a))
	until(t, "all is settled", func() bool { return w.settledAt(ids[3]) })
	equalIDs(t, "handled", j.ids(), ids)
	other, err := w.log.SkippedRanges(t.Context(), "other")
	if err != nil || len(other) != 1 {
		t.Errorf("ranges of the other group = %v, %v", other, err)
	}
}

// A range that is worked on does not keep retries and beats away.
func TestLongRangeLeavesTimeForRetries(t *testing.T) {
	w, ids, a := late(t, 41, 40)
	var order []evtid.ID
	j := journal{}
	// The newest record is pending for this member when it begins.
	reader, err := w.log.NewGroupReader(t.Context(), testGroup, "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reader.ReadNew(10, 0); err != nil {
		t.Fatal(err)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	j.then = func(ctx context.Context, d evtlog.Delivery) error {
		order = append(order, d.ID)
		if d.ID == ids[40] && d.Attempts == 2 {
			return errors.New("later")
		}
		return wait(ctx, 5*time.Millisecond)
	}
	w.start("a", j.handle, withArchive(a), with(func(c *Config) { c.Count = 4 }))
	until(t, "all is settled", func() bool { return w.settledAt(ids[40]) })
	second := slices.Index(order[1:], ids[40]) + 1
	if order[0] != ids[40] || second == 0 || second > 30 {
		t.Errorf("the failed entry came first and then at place %d of %d, want in the middle of the range", second, len(order))
	}
}

// Everything in Redis vanishes while a range waits for its archive. What the
// group was late with comes all the same, although it had gone on since.
func TestLateRecordsOutliveTheirRange(t *testing.T) {
	w, ids, a := late(t, 6, 3)
	a.fail(archivetest.BeforeRead, errors.New("the archive is away"))
	var j journal
	m := w.start("a", j.handle, withArchive(a))
	until(t, "what is live is handled", func() bool { return m.Stats().Acked == 3 && len(w.ranges()) == 1 })
	w.server.Do("FLUSHALL")
	until(t, "the group is there again", func() bool { return len(eventsOf[evtlog.GroupRecreated](m.events)) > 0 })
	a.fail(archivetest.BeforeRead, nil)
	until(t, "the late ones are handled", func() bool { return j.len() == 6 })
	equalIDs(t, "handled late", j.ids()[3:], ids[:3])
}

// A member that works through what was trimmed is in touch with the server.
func TestWorkOnRangesCountsAsBeingInTouch(t *testing.T) {
	w, ids, a := late(t, 12, 12)
	var m *member
	started := make(chan struct{})
	var oldest time.Duration
	j := journal{then: func(ctx context.Context, _ evtlog.Delivery) error {
		<-started
		oldest = max(oldest, time.Since(m.Stats().LastReply))
		return wait(ctx, 60*time.Millisecond)
	}}
	m = w.start("a", j.handle, withArchive(a), with(func(c *Config) { c.Count = 1 }))
	close(started)
	until(t, "all is settled", func() bool { return w.settledAt(ids[11]) })
	if oldest > 500*time.Millisecond {
		t.Errorf("the last answer seemed to be %s old", oldest)
	}
}

// The right to work on ranges may go to a peer while a member waits for what its
// workers have in hand. The member does not hand anything out then.
func TestLeaseOnRangesLostWhileWorkersFinish(t *testing.T) {
	w := newWorld(t)
	ids, a := w.append(2), newMemory()
	w.fold(a, ids[0])
	if _, err := w.log.CreateGroup(t.Context(), testGroup, redislog.AfterID(ids[0])); err != nil {
		t.Fatal(err)
	}
	began, release := make(chan struct{}), make(chan struct{})
	j := journal{then: func(_ context.Context, d evtlog.Delivery) error {
		if d.ID == ids[1] {
			close(began)
			<-release
		}
		return nil
	}}
	m := w.start("a", j.handle, withArchive(a), workers(2, nil), with(func(c *Config) { c.MinIdle = 200 * time.Millisecond }))
	<-began
	if err := w.log.AddSkipped(t.Context(), testGroup, singleRange(ids[0])); err != nil {
		t.Fatal(err)
	}
	r := m.current.Load()
	until(t, "it has the lease", func() bool { return r.lease.given() })
	key := w.stream.Lease(r.leaseName())
	w.server.Do("SET", key, "peer", "PX", "60000")
	until(t, "it has lost the lease", func() bool { return !r.lease.given() })
	close(release)
	until(t, "its own is done", func() bool { return w.allDone(ids[1]) })
	from := time.Now()
	until(t, "some beats", func() bool { return time.Since(from) > 300*time.Millisecond })
	if n := j.times(ids[0]); n != 0 {
		t.Errorf("the peer's record was handed out %d times", n)
	}
	w.server.Do("DEL", key)
	until(t, "it is handled", func() bool { return j.times(ids[0]) == 1 && len(w.ranges()) == 0 })
}

// A group that was late for many trims has a range for each; they are worked on as
// one, each record once and in order.
func TestManyRangesAreWorkedOnAsOne(t *testing.T) {
	w := newWorld(t)
	if _, err := w.log.CreateGroup(t.Context(), testGroup, redislog.Head()); err != nil {
		t.Fatal(err)
	}
	ids, a := w.append(3*joinFrom), newMemory()
	for i := 2; i < len(ids); i += 3 {
		w.fold(a, ids[i])
	}
	if n := len(w.ranges()); n != joinFrom {
		t.Fatalf("%d ranges are recorded, want %d", n, joinFrom)
	}
	began, release := make(chan struct{}), make(chan struct{})
	j := journal{then: func(_ context.Context, d evtlog.Delivery) error {
		if d.ID == ids[0] {
			close(began)
			<-release
		}
		return nil
	}}
	w.start("a", j.handle, withArchive(a))
	<-began
	if all := w.ranges(); len(all) != 1 || all[0].To != ids[len(ids)-1] {
		t.Errorf("ranges while it works: %v", all)
	}
	close(release)
	until(t, "all is settled", func() bool { return w.settledAt(ids[len(ids)-1]) })
	equalIDs(t, "handled", j.ids(), ids)
}

func TestFollowing(t *testing.T) {
	rg := func(after, to int) redislog.SkippedRange {
		return redislog.SkippedRange{After: tid(after), To: tid(to)}
	}
	single := singleRange(tid(9))
	for name, tc := range map[string]struct {
		ranges []redislog.SkippedRange
		want   int
	}{
		"none":                {nil, 0},
		"one":                 {[]redislog.SkippedRange{rg(1, 3)}, 1},
		"a gap behind two":    {[]redislog.SkippedRange{rg(1, 3), rg(3, 4), rg(5, 6)}, 2},
		"overlapping":         {[]redislog.SkippedRange{rg(1, 8), rg(2, 3), rg(7, 9)}, 3},
		"a record of its own": {[]redislog.SkippedRange{rg(1, 9), single, rg(9, 12)}, 1},
		"first of its own":    {[]redislog.SkippedRange{single, rg(9, 12)}, 0},
	} {
		if got := following(tc.ranges); len(got) != tc.want {
			t.Errorf("%s: %v, want %d of them", name, got, tc.want)
		}
	}
}
