package supervise

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/evtlog/evtlog"
)

var errBoom = errors.New("boom")

func TestDecide(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	p := Policy{Min: 100 * time.Millisecond, Max: time.Second, MaxRestarts: 2, Within: time.Minute, Healthy: 30 * time.Second}
	ago := func(seconds ...int) (times []time.Time) {
		for _, s := range seconds {
			times = append(times, now.Add(-time.Duration(s)*time.Second))
		}
		return times
	}
	ready := outcome{err: errBoom, ready: true, readyFor: time.Second}
	for _, tc := range []struct {
		name     string
		kind     Restart
		out      outcome
		history  history
		want     action
		reason   error
		delay    time.Duration
		attempts int
	}{
		{name: "first failure", out: ready, want: restart, reason: errBoom, delay: 50 * time.Millisecond, attempts: 1},
		{name: "second failure waits longer", out: ready, history: history{1, ago(10)}, want: restart, reason: errBoom, delay: 100 * time.Millisecond, attempts: 2},
		{name: "the pause has a cap", out: ready, history: history{attempts: 40, recent: ago(70)}, want: restart, reason: errBoom, delay: 500 * time.Millisecond, attempts: 41},
		{name: "budget spent", out: ready, history: history{2, ago(50, 10)}, want: giveUp, reason: errBoom, attempts: 2},
		{name: "an old restart left the window", out: ready, history: history{2, ago(60, 10)}, want: restart, reason: errBoom, delay: 200 * time.Millisecond, attempts: 3},
		{name: "healthy just long enough", out: outcome{err: errBoom, ready: true, readyFor: 30 * time.Second}, history: history{2, ago(50, 40)}, want: restart, reason: errBoom, delay: 50 * time.Millisecond, attempts: 1},
		{name: "healthy not quite long enough", out: outcome{err: errBoom, ready: true, readyFor: 30*time.Second - 1}, history: history{2, ago(50, 40)}, want: giveUp, reason: errBoom, attempts: 2},
		{name: "a long life without ready is not healthy", out: outcome{err: errBoom, readyFor: time.Hour}, history: history{2, ago(50, 40)}, want: giveUp, reason: errBoom, attempts: 2},
		{name: "terminal", out: outcome{err: Terminal(errBoom)}, want: giveUp, reason: errBoom},
		{name: "terminal although healthy", out: outcome{err: Terminal(errBoom), ready: true, readyFor: time.Hour}, want: giveUp, reason: errBoom},
		{name: "terminal inside a panic", out: outcome{err: &PanicError{Value: Terminal(errBoom)}}, want: giveUp, reason: errBoom},
		{name: "permanent and nil", out: outcome{ready: true}, want: restart, reason: ErrEnded, delay: 50 * time.Millisecond, attempts: 1},
		{name: "transient and nil", kind: Transient, out: outcome{ready: true}, want: finish},
		{name: "transient and nil before ready", kind: Transient, want: finish},
		{name: "transient and an error", kind: Transient, out: ready, want: restart, reason: errBoom, delay: 50 * time.Millisecond, attempts: 1},
		{name: "temporary and nil", kind: Temporary, want: finish},
		{name: "temporary and an error after ready", kind: Temporary, out: ready, want: finish, reason: errBoom},
		{name: "temporary and an error before ready", kind: Temporary, out: outcome{err: errBoom}, want: giveUp, reason: errBoom},
		{name: "temporary and terminal after ready", kind: Temporary, out: outcome{err: Terminal(errBoom), ready: true}, want: giveUp, reason: errBoom},
	} {
		v := decide(p, tc.kind, tc.out, tc.history, now, 0.5)
		if v.action != tc.want || !errors.Is(v.reason, tc.reason) || v.delay != tc.delay || v.next.attempts != tc.attempts {
			t.Errorf("%s: got %+v; want action %d, reason %v, delay %s, attempts %d", tc.name, v, tc.want, tc.reason, tc.delay, tc.attempts)
		}
		if (v.reason == nil) != (tc.reason == nil) {
			t.Errorf("%s: reason %v, want %v", tc.name, v.reason, tc.reason)
		}
	}
}

func TestNegativeMaxRestartsAllowsNone(t *testing.T) {
	p := Policy{MaxRestarts: -1}.withDefaults()
	if v := decide(p, Permanent, outcome{err: errBoom}, history{}, time.Unix(0, 0), 0); v.action != giveUp {
		t.Errorf("got %+v, want to give up", v)
	}
}

// Whatever the failures, a window never holds more restarts than allowed, and
// the history does not grow.
func TestDecideNeverPassesTheBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{MaxRestarts: rapid.IntRange(1, 5).Draw(t, "max"), Within: time.Minute}.withDefaults()
		now, h := time.Unix(1_800_000_000, 0), history{}
		var granted []time.Time
		for range 50 {
			out := outcome{err: errBoom, ready: rapid.Bool().Draw(t, "ready")}
			if out.ready {
				out.readyFor = time.Duration(rapid.IntRange(0, 29).Draw(t, "ready for")) * time.Second
			}
			v := decide(p, Permanent, out, h, now, rapid.Float64Range(0, 0.999).Draw(t, "rnd"))
			if v.action == giveUp {
				return
			}
			if v.delay < 0 || v.delay > p.Max {
				t.Fatalf("pause of %s", v.delay)
			}
			granted = append(granted, now)
			if n := len(since(granted, now.Add(-p.Within))); n > p.MaxRestarts {
				t.Fatalf("%d restarts within %s", n, p.Within)
			}
			if h = v.next; len(h.recent) > p.MaxRestarts {
				t.Fatalf("history of %d", len(h.recent))
			}
			now = now.Add(v.delay + out.readyFor)
		}
	})
}

func TestBranchState(t *testing.T) {
	list := func(s ...evtlog.State) []evtlog.State { return s }
	for _, tc := range []struct {
		states  []evtlog.State
		stopped bool
		want    evtlog.State
	}{
		{list(evtlog.Ready, evtlog.Ready), false, evtlog.Ready},
		{list(evtlog.Ready, evtlog.Starting), false, evtlog.Starting},
		{list(evtlog.Degraded, evtlog.Starting), false, evtlog.Degraded},
		{list(evtlog.Degraded, evtlog.Failed, evtlog.Stopped), false, evtlog.Failed},
		{list(evtlog.Ready, evtlog.Stopped), false, evtlog.Ready},
		{list(evtlog.Stopped, evtlog.Stopped), true, evtlog.Stopped},
		{list(evtlog.Failed, evtlog.Stopped), true, evtlog.Stopped},
	} {
		if got := branchState(tc.states, tc.stopped); got != tc.want {
			t.Errorf("%v, stopped %v: %v, want %v", tc.states, tc.stopped, got, tc.want)
		}
	}
}

func TestBackoff(t *testing.T) {
	b := Backoff{Min: time.Second, Max: 10 * time.Second}
	for _, tc := range []struct {
		attempt int
		rnd     float64
		want    time.Duration
	}{
		{0, 0, 0}, {0, 0.5, 500 * time.Millisecond}, {1, 0.5, time.Second}, {3, 0.5, 4 * time.Second},
		{4, 0.5, 5 * time.Second}, {1 << 30, 0.5, 5 * time.Second}, {-3, 0.5, 500 * time.Millisecond},
	} {
		if got := b.Delay(tc.attempt, tc.rnd); got != tc.want {
			t.Errorf("Delay(%d, %v) = %s, want %s", tc.attempt, tc.rnd, got, tc.want)
		}
	}
	if got := (Backoff{}).Delay(100, 0.5); got != DefaultMax/2 {
		t.Errorf("the zero Backoff waits %s, want %s", got, DefaultMax/2)
	}
	if got := (Backoff{Min: time.Hour, Max: time.Minute}).Delay(0, 0.5); got != 30*time.Second {
		t.Errorf("Max below Min: %s, want half of Max", got)
	}
}

func TestNextStart(t *testing.T) {
	for _, tc := range []struct {
		name   string
		phases []phase
		beenUp []bool
		keep   int
		want   int
		ok     bool
	}{
		{"nothing runs", []phase{waiting, waiting}, []bool{false, false}, 2, 0, true},
		{"the first is starting", []phase{starting, waiting}, []bool{false, false}, 2, 0, false},
		{"the first is up", []phase{up, waiting}, []bool{true, false}, 2, 1, true},
		{"the first has been up and pauses", []phase{pausing, waiting}, []bool{true, false}, 2, 1, true},
		{"the first pauses before it was up", []phase{pausing, waiting}, []bool{false, false}, 2, 0, false},
		{"the first has done its work", []phase{ended, waiting}, []bool{false, false}, 2, 1, true},
		{"all run", []phase{up, up}, []bool{true, true}, 2, 0, false},
		{"told to stop", []phase{waiting, waiting}, []bool{false, false}, 0, 0, false},
		{"the second is not to run", []phase{up, waiting}, []bool{true, false}, 1, 0, false},
	} {
		if i, ok := nextStart(tc.phases, tc.beenUp, tc.keep); i != tc.want || ok != tc.ok {
			t.Errorf("%s: %d, %v; want %d, %v", tc.name, i, ok, tc.want, tc.ok)
		}
	}
}

func TestNextStop(t *testing.T) {
	for _, tc := range []struct {
		name   string
		phases []phase
		keep   int
		want   int
		ok     bool
	}{
		{"all go on", []phase{up, up}, 2, 0, false},
		{"the last first", []phase{up, up}, 0, 1, true},
		{"one at a time", []phase{up, stopping}, 0, 1, false},
		{"then the one before", []phase{up, ended}, 0, 0, true},
		{"one that never started has no turn", []phase{starting, waiting}, 0, 0, true},
		{"a pause is ended too", []phase{up, pausing}, 0, 1, true},
		{"only those after the failed one", []phase{up, ended, up}, 1, 2, true},
		{"and no more than those", []phase{up, ended, ended}, 1, 0, false},
	} {
		if i, ok := nextStop(tc.phases, tc.keep); i != tc.want || ok != tc.ok {
			t.Errorf("%s: %d, %v; want %d, %v", tc.name, i, ok, tc.want, tc.ok)
		}
	}
}

func TestStopShare(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, tc := range []struct {
		name     string
		deadline time.Time
		left     int
		want     time.Duration
	}{
		{"no deadline", time.Time{}, 3, 10 * time.Second},
		{"a far one", now.Add(time.Hour), 3, 10 * time.Second},
		{"shared by three", now.Add(6 * time.Second), 3, 2 * time.Second},
		{"all for the last", now.Add(6 * time.Second), 1, 6 * time.Second},
		{"passed", now.Add(-time.Second), 2, stopGrace},
	} {
		if got := stopShare(10*time.Second, tc.deadline, now, tc.left); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

func TestPolicyNamesTheBadField(t *testing.T) {
	for want, p := range map[string]Policy{
		"Policy.Min": {Min: -1}, "Policy.Within": {Within: -1}, "Policy.Healthy": {Healthy: -1},
		"Policy.Max": {Min: time.Minute, Max: time.Second},
	} {
		err := p.withDefaults().validate()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; want it to name %s", p, err, want)
		}
	}
	if err := (Policy{Min: time.Minute}).withDefaults().validate(); err != nil {
		t.Errorf("a Min above the default Max: %v", err)
	}
}
