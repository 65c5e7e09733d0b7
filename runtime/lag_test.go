package runtime

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/streamconsumer"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/archivetest"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/redislog"
)

func TestJudgeLag(t *testing.T) {
	id, err := evtid.Make(1_800_000_000_000, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	now := id.Time().Add(3 * time.Second)
	for name, tc := range map[string]struct {
		f          lagFacts
		entries    int64
		known, old bool
		behind     time.Duration
	}{
		"nothing owed":               {f: lagFacts{}, known: true, old: true},
		"some":                       {f: lagFacts{counted: 7, oldest: id}, entries: 7, known: true, old: true, behind: 3 * time.Second},
		"ranges and an archive":      {f: lagFacts{counted: 7, oldest: id, skipped: 2, archived: true}, entries: 7, known: true, old: true, behind: 3 * time.Second},
		"ranges and no archive":      {f: lagFacts{counted: 7, oldest: id, skipped: 2}},
		"owed below the floor":       {f: lagFacts{counted: 7, oldest: id, uncountable: true}},
		"too many":                   {f: lagFacts{counted: CountLimit, oldest: id, stopped: true}, old: true, behind: 3 * time.Second},
		"pending may overlap":        {f: lagFacts{counted: 7, oldest: id, skipped: 1, archived: true, unlisted: true}, old: true, behind: 3 * time.Second},
		"the oldest has no identity": {f: lagFacts{counted: 2, foreign: true}, entries: 2, known: true},
	} {
		var lag Lag
		tc.f.judge(&lag, now)
		if lag.Known != tc.known || lag.Entries != tc.entries || lag.OldestKnown != tc.old || lag.Behind != tc.behind {
			t.Errorf("%s: %+v", name, lag)
		}
		if (lag.Why == "") != (tc.known && tc.old) {
			t.Errorf("%s: why = %q", name, lag.Why)
		}
	}
	var lag Lag
	lagFacts{counted: 1, oldest: id}.judge(&lag, id.Time().Add(-time.Hour))
	if lag.Behind != 0 {
		t.Errorf("behind by %s on a slow clock", lag.Behind)
	}
}

// A group without an archive that a trim overtook: its lag is not known, and
// says why. One that is behind in the live stream is counted, what is pending
// included.
func TestLagOfRealGroups(t *testing.T) {
	srv := redistest.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	failing := make(chan struct{}, 100)
	rt, err := Start(ctx, Config{
		Redis:   redislog.Config{URL: srv.URL()},
		Streams: []Stream{{Queue: "q", Name: "s", Retention: evtlog.Keep{Last: 6, Exact: true}}},
		Consumers: []Consumer{{
			Queue: "q", Stream: "s", Group: "stuck", Name: "m", Start: streamconsumer.FromHead, Count: 2, RetryMin: time.Hour,
			RetryMax: time.Hour,
			Handler: func(context.Context, evtlog.Delivery) error {
				failing <- struct{}{}
				return errors.New("no")
			},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Stop(context.Background())
	log, err := rt.Stream("q", "s")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.redis.CreateGroup(ctx, "late", redislog.Head()); err != nil {
		t.Fatal(err)
	}
	var ids []evtid.ID
	for i := range 4 {
		id, err := log.Append(ctx, evtlog.F("n", fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	for range 4 {
		<-failing
	}
	lags, err := rt.Lag(ctx)
	if err != nil || len(lags) != 2 {
		t.Fatalf("lags = %+v, %v", lags, err)
	}
	late, stuck := lags[0], lags[1]
	if !late.Known || late.Entries != 4 || late.Oldest != ids[0] || late.Pending != 0 || late.Holder != "" {
		t.Errorf("late = %+v", late)
	}
	if !stuck.Known || stuck.Entries != 4 || stuck.Oldest != ids[0] || stuck.Pending != 4 || stuck.Holder != "m" || stuck.Behind <= 0 {
		t.Errorf("stuck = %+v", stuck)
	}
	for i := range 20 {
		if _, err := log.Append(ctx, evtlog.F("n", fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	if lags, err = rt.Lag(ctx); err != nil {
		t.Fatal(err)
	}
	if late = lags[0]; late.Known || late.OldestKnown || len(late.Skipped) == 0 || late.Recoverable || !strings.Contains(late.Why, "no archive") {
		t.Errorf("late after a trim = %+v", late)
	}
}

// endless is a live stream that has a record in every millisecond.
type endless struct{ asked int }

func (e *endless) Last(context.Context) (evtid.ID, error) { return evtid.Max, nil }

func (e *endless) Page(_ context.Context, after, to evtid.ID, n int) (page []evtlog.Record, _ evtid.ID, _ error) {
	e.asked += n
	for ms := after.UnixMilli(); len(page) < n; ms++ {
		id, err := evtid.Make(ms, 1, 0)
		if err != nil || to.Less(id) {
			return page, evtid.ID{}, err
		}
		if after.Less(id) {
			page = append(page, evtlog.Record{ID: id})
		}
	}
	return page, evtid.ID{}, nil
}

func (e *endless) PageBefore(context.Context, evtid.ID, evtid.ID, int) ([]evtlog.Record, error) {
	return nil, errors.ErrUnsupported
}

// What is owed is not read to its end when what is pending has used up the limit.
func TestLagCountsNoFurtherThanItsLimit(t *testing.T) {
	from, _ := evtid.Make(1_800_000_000_000, 1, 1)
	to, _ := evtid.Make(1_800_000_000_000+10*CountLimit, 1, 1)
	for _, pending := range []int64{0, CountLimit - 1, CountLimit, CountLimit + 1} {
		live := &endless{}
		c := lagCounter{reader: archive.NewReader(evtlog.StreamName{Queue: "q", Name: "s"}, live, nil)}
		f := lagFacts{counted: pending}
		if err := c.count(t.Context(), []redislog.SkippedRange{{After: from, To: to}}, &f); err != nil || !f.stopped {
			t.Errorf("with %d pending: %+v, %v", pending, f, err)
		}
		if live.asked > 2*CountLimit {
			t.Errorf("with %d pending %d records were read", pending, live.asked)
		}
	}
}

// ending is an archive whose watermark is answered in the moment ctx ends.
type ending struct {
	*archivetest.Memory
	end context.CancelFunc
}

func (e ending) Watermark(context.Context, evtlog.StreamName) (evtid.ID, error) {
	e.end()
	return evtid.ID{}, nil
}

// A context that ends while the archive answers is an error, and not a stream
// without groups.
func TestLagOfAContextThatEnds(t *testing.T) {
	_, rt, log := withStream(t, Stream{})
	appended(t, log)
	if _, err := log.redis.CreateGroup(t.Context(), "g", redislog.Head()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	lags, err := GroupLags(ctx, rt.client.Log(log.redis.Stream()), ending{archivetest.NewMemory(), cancel})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v", lags, err)
	}
}

// busy is an archive of a stream that is appended to, archived and consumed while
// the archive is asked how far it reaches.
type busy struct {
	*archivetest.Memory
	meanwhile func()
}

func (b busy) Watermark(ctx context.Context, s evtlog.StreamName) (evtid.ID, error) {
	b.meanwhile()
	return b.Memory.Watermark(ctx, s)
}

// A group that is at the end of its stream before and after a look is not behind
// by what came and was handled during it.
func TestLagOfABusyGroup(t *testing.T) {
	store := archivetest.NewMemory()
	srv, _, log := withStream(t, Stream{Durability: Commit, Archive: store})
	appended(t, log)
	if _, err := log.redis.CreateGroup(t.Context(), "g", redislog.New()); err != nil {
		t.Fatal(err)
	}
	lags, err := GroupLags(t.Context(), log.redis, busy{store, func() {
		id := appended(t, log)
		if err := log.Sweep(t.Context()); err != nil {
			t.Error(err)
		}
		srv.Do("XGROUP", "SETID", "emq:{q}:stream:s", "g", id.Entry())
	}})
	if err != nil || len(lags) != 1 || !lags[0].Known || lags[0].Entries != 0 || lags[0].Position != lags[0].Top {
		t.Errorf("%+v, %v; want nothing owed", lags, err)
	}
}

// What was acknowledged since the group was looked at is not pending any more.
func TestPendingIsPartOfTheLag(t *testing.T) {
	_, _, log := withStream(t, Stream{})
	if _, err := log.redis.CreateGroup(t.Context(), "g", redislog.Head()); err != nil {
		t.Fatal(err)
	}
	then := redislog.GroupInfo{Name: "g", Pending: 3}
	c := lagCounter{log: log.redis}
	for _, there := range []int64{0, 2} {
		if there > 0 {
			appended(t, log)
			appended(t, log)
			reader, err := log.redis.NewGroupReader(t.Context(), "g", "m")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := reader.ReadNew(2, 0); err != nil {
				t.Fatal(err)
			}
			if err := reader.Close(); err != nil {
				t.Fatal(err)
			}
		}
		var f lagFacts
		lag := Lag{Pending: then.Pending}
		if err := c.pending(t.Context(), then, nil, &f, &lag); err != nil || lag.Pending != there || f.counted != there {
			t.Errorf("with %d: %+v, counted %d, %v", there, lag, f.counted, err)
		}
	}
}
