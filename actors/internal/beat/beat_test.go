package beat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/redislog"
)

func TestSpread(t *testing.T) {
	for rnd, want := range map[float64]time.Duration{0: 900 * time.Millisecond, 0.5: time.Second, 0.75: 1050 * time.Millisecond} {
		if got := spread(time.Second, rnd); got != want {
			t.Errorf("spread(1s, %v) = %s", rnd, got)
		}
	}
}

func TestPace(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	b := Beat{Every: time.Second, Gap: 20 * time.Millisecond, MaxPause: 10 * time.Second}
	for _, c := range []struct {
		name string
		p    pace
		tick bool
		r    Reaction
		want pace
	}{
		{"after a tick", pace{}, true, Steady, pace{tick: at(6000), deaf: at(5020)}},
		{"a nudge does not put the tick off", pace{tick: at(5400)}, false, Steady, pace{tick: at(5400), deaf: at(5020)}},
		{"first failure", pace{tick: at(5400)}, false, BackOff, pace{tick: at(5050), deaf: at(5050), failures: 1}},
		{"fourth failure", pace{failures: 3}, true, BackOff, pace{tick: at(5400), deaf: at(5400), failures: 4}},
		{"recovered", pace{tick: at(4000), deaf: at(4000), failures: 4}, true, Steady, pace{tick: at(6000), deaf: at(5020)}},
	} {
		if got := c.p.after(b, at(5000), c.tick, c.r, 0.5); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// run runs a beat in a bubble and returns the moments of the calls, in
// milliseconds since the start, with a 'n' for nudged ones.
func run(t *testing.T, b Beat, until time.Duration, work func(call int) error, during func(nudge chan<- struct{})) (calls []string, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b.Rand = func() float64 { return 0.5 }
		nudge := make(chan struct{}, 1)
		b.Nudge = nudge
		ctx, cancel := context.WithTimeout(t.Context(), until)
		defer cancel()
		began := time.Now()
		if during != nil {
			go during(nudge)
		}
		err = b.Run(ctx, func(_ context.Context, tick bool) error {
			mark := fmt.Sprint(time.Since(began).Milliseconds())
			if !tick {
				mark += "n"
			}
			calls = append(calls, mark)
			return work(len(calls))
		})
	})
	return calls, err
}

func same(t *testing.T, got []string, want ...string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("called at %v, want %v", got, want)
	}
}

func steady(error) Reaction { return Steady }

func TestRunTicksAtOnceAndThenEvery(t *testing.T) {
	calls, err := run(t, Beat{Every: time.Second, React: steady}, 2500*time.Millisecond, func(int) error { return io.EOF }, nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, calls, "0", "1000", "2000")
}

func TestRunAnswersNudges(t *testing.T) {
	calls, _ := run(t, Beat{Every: time.Second, React: steady, Gap: 50 * time.Millisecond}, 1500*time.Millisecond,
		func(int) error { return nil },
		func(nudge chan<- struct{}) {
			for _, wait := range []time.Duration{300, 10, 10, 200} {
				time.Sleep(wait * time.Millisecond)
				select {
				case nudge <- struct{}{}:
				default:
				}
			}
		})
	// 300 at once; 310 and 320 fall into the gap and are one; the tick stays at 1000.
	same(t, calls, "0", "300n", "350n", "520n", "1000")
}

func TestRunBacksOff(t *testing.T) {
	react := func(err error) Reaction {
		if err != nil {
			return BackOff
		}
		return Steady
	}
	calls, _ := run(t, Beat{Every: time.Second, React: react}, 2200*time.Millisecond, func(call int) error {
		if call < 5 {
			return io.EOF
		}
		return nil
	}, func(nudge chan<- struct{}) {
		// However much it is nudged: half of 100, 200, 400, 800 ms.
		for range 20 {
			time.Sleep(30 * time.Millisecond)
			select {
			case nudge <- struct{}{}:
			default:
			}
		}
	})
	same(t, calls[:5], "0", "50", "150", "350", "750")
}

func TestReact(t *testing.T) {
	refused := func(class redislog.Class) error { return &redislog.ServerError{Class: class} }
	for _, c := range []struct {
		name string
		err  error
		want Reaction
	}{
		{"nil", nil, Steady},
		{"connection", &redislog.ConnError{Err: io.EOF}, BackOff},
		{"loading", refused(redislog.Transient), BackOff},
		{"moved", refused(redislog.Topology), BackOff},
		{"out of memory", refused(redislog.BackPressure), Steady},
		{"wrong type", refused(redislog.Terminal), GiveUp},
		{"bad request", refused(redislog.Caller), Steady},
		{"alarm", errors.New("stalled"), Steady},
		{"foreign entry", &evtlog.ForeignEntryError{}, Steady},
		{"foreign entry and denied", errors.Join(&evtlog.ForeignEntryError{}, refused(redislog.Terminal)), GiveUp},
		{"foreign format", evtlog.ErrForeignFormat, GiveUp},
	} {
		if got := React(c.err); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestRunGivesUp(t *testing.T) {
	_, err := run(t, Beat{Every: time.Second, React: func(error) Reaction { return GiveUp }}, time.Minute, func(int) error { return io.EOF }, nil)
	if !errors.Is(err, io.EOF) || !supervise.IsTerminal(err) {
		t.Fatal(err)
	}
}

func TestRunEndsWhileWorkFails(t *testing.T) {
	calls, err := run(t, Beat{Every: time.Minute, React: func(error) Reaction { return BackOff }}, 10*time.Second, func(int) error { return io.EOF }, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(calls) < 5 || len(calls) > 12 {
		t.Errorf("%d calls in 10 s of failures: %v", len(calls), calls)
	}
}
