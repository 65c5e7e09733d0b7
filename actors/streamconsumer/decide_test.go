package streamconsumer

import (
	"testing"
	"time"

	"github.com/evtlog/evtlog/redislog"
)

func TestNextPhase(t *testing.T) {
	all := loopFacts{retryDue: true, beatDue: true, ranges: true, advanced: true}
	for name, tc := range map[string]struct {
		change func(*loopFacts)
		want   phase
	}{
		"a stop comes before a pause":               {func(f *loopFacts) { f.stopping, f.paused = true, true }, phaseStop},
		"a pause comes before all work":             {func(f *loopFacts) { f.paused, f.ahead, f.drained = true, true, false }, phasePause},
		"a stop comes before everything":            {func(f *loopFacts) { f.stopping, f.ahead = true, true }, phaseStop},
		"what was read ahead is offered first":      {func(f *loopFacts) { f.ahead = true }, phaseRead},
		"own pending entries come first":            {func(f *loopFacts) {}, phaseDrain},
		"a retry comes before a beat":               {func(f *loopFacts) { f.drained = true }, phaseRetry},
		"a beat comes before ranges":                {func(f *loopFacts) { f.drained, f.retryDue = true, false }, phaseBeat},
		"ranges come before new entries":            {func(f *loopFacts) { f.drained, f.retryDue, f.beatDue = true, false, false }, phaseRanges},
		"no retry or beat twice without a step":     {func(f *loopFacts) { f.drained, f.advanced = true, false }, phaseRanges},
		"due retries do not keep new entries away":  {func(f *loopFacts) { f.drained, f.advanced, f.ranges = true, false, false }, phaseRead},
		"nothing due, nothing skipped: new entries": {func(f *loopFacts) { *f = loopFacts{drained: true, advanced: true} }, phaseRead},
	} {
		f := all
		tc.change(&f)
		if got := nextPhase(f); got != tc.want {
			t.Errorf("%s: nextPhase(%+v) = %d, want %d", name, f, got, tc.want)
		}
	}
}

func TestDecideEntry(t *testing.T) {
	for name, tc := range map[string]struct {
		facts entryFacts
		want  verdict
	}{
		"first delivery":               {entryFacts{attempts: 1, max: 10}, verdictHandle},
		"last attempt":                 {entryFacts{attempts: 10, max: 10}, verdictHandle},
		"no attempt left":              {entryFacts{attempts: 11, max: 10}, verdictDeadLetter},
		"only one attempt, the first":  {entryFacts{attempts: 1, max: 1}, verdictHandle},
		"only one attempt, used up":    {entryFacts{attempts: 2, max: 1}, verdictDeadLetter},
		"never given up":               {entryFacts{attempts: 1000, max: -1}, verdictHandle},
		"trimmed":                      {entryFacts{attempts: 1, max: 10, missing: true}, verdictSkipped},
		"trimmed, no attempt left":     {entryFacts{attempts: 11, max: 10, missing: true}, verdictSkipped},
		"foreign position":             {entryFacts{attempts: 1, max: 10, foreign: true}, verdictDeadLetter},
		"foreign, never given up":      {entryFacts{attempts: 1, max: -1, foreign: true}, verdictDeadLetter},
		"foreign and trimmed: no body": {entryFacts{attempts: 1, max: 10, foreign: true, missing: true}, verdictDeadLetter},
	} {
		if got := decideEntry(tc.facts); got != tc.want {
			t.Errorf("%s: decideEntry(%+v) = %d, want %d", name, tc.facts, got, tc.want)
		}
	}
}

func TestDecideOutcome(t *testing.T) {
	for name, tc := range map[string]struct {
		facts attemptFacts
		want  outcome
	}{
		"handled":                          {attemptFacts{owned: true, attempts: 1, max: 3}, outcomeDone},
		"handled while stopping":           {attemptFacts{owned: true, stopping: true, attempts: 1, max: 3}, outcomeDone},
		"handled, but lost meanwhile":      {attemptFacts{attempts: 1, max: 3}, outcomeLeave},
		"failed":                           {attemptFacts{owned: true, failed: true, attempts: 1, max: 3}, outcomeRetry},
		"failed while stopping":            {attemptFacts{owned: true, failed: true, stopping: true, attempts: 3, max: 3}, outcomeLeave},
		"failed, but lost meanwhile":       {attemptFacts{failed: true, attempts: 3, max: 3}, outcomeLeave},
		"dead at the first attempt":        {attemptFacts{owned: true, failed: true, dead: true, attempts: 1, max: -1}, outcomeBury},
		"dead while stopping":              {attemptFacts{owned: true, failed: true, dead: true, stopping: true, attempts: 1, max: 3}, outcomeBury},
		"dead, and a peer has it":          {attemptFacts{failed: true, dead: true, attempts: 1, max: 3}, outcomeLeave},
		"failed at the last attempt":       {attemptFacts{owned: true, failed: true, attempts: 3, max: 3}, outcomeBury},
		"failed often, never to be buried": {attemptFacts{owned: true, failed: true, attempts: 300, max: -1}, outcomeRetry},
	} {
		if got := decideOutcome(tc.facts); got != tc.want {
			t.Errorf("%s: decideOutcome(%+v) = %d, want %d", name, tc.facts, got, tc.want)
		}
	}
}

func TestDecideError(t *testing.T) {
	for class, want := range map[redislog.Class]action{
		0:                     actionAgain,
		redislog.Transient:    actionAgain,
		redislog.BackPressure: actionAgain,
		redislog.Topology:     actionAgain,
		redislog.Terminal:     actionGiveUp,
		redislog.Caller:       actionGiveUp,
	} {
		if got := decideError(class, false); got != want {
			t.Errorf("decideError(%v) = %d, want %d", class, got, want)
		}
		if got := decideError(class, true); got != actionStop {
			t.Errorf("decideError(%v, stopping) = %d, want actionStop", class, got)
		}
	}
}

func TestNextAttempt(t *testing.T) {
	for name, tc := range map[string]struct {
		former        int
		pause, served time.Duration
		want          int
	}{
		"first failure":                       {-1, 0, 0, 0},
		"again at once":                       {0, 50 * time.Millisecond, 10 * time.Millisecond, 1},
		"served for a moment":                 {4, 100 * time.Millisecond, 900 * time.Millisecond, 5},
		"served well":                         {4, 100 * time.Millisecond, time.Second, 0},
		"served shorter than twice the pause": {6, 5 * time.Second, 9 * time.Second, 7},
		"served longer than that":             {6, 5 * time.Second, 10 * time.Second, 0},
	} {
		if got := nextAttempt(tc.former, tc.pause, tc.served); got != tc.want {
			t.Errorf("%s: nextAttempt(%d, %s, %s) = %d, want %d", name, tc.former, tc.pause, tc.served, got, tc.want)
		}
	}
}

func TestBlockFor(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, tc := range map[string]struct {
		due  []time.Time
		want time.Duration
	}{
		"nothing due":          {nil, time.Second},
		"unset times":          {[]time.Time{{}, {}}, time.Second},
		"due later than block": {[]time.Time{now.Add(time.Minute)}, time.Second},
		"the earliest counts":  {[]time.Time{now.Add(700 * time.Millisecond), {}, now.Add(200 * time.Millisecond)}, 200 * time.Millisecond},
		"overdue: no wait":     {[]time.Time{now.Add(-time.Hour), now.Add(time.Hour)}, 0},
		"due now: no wait":     {[]time.Time{now}, 0},
		"almost due: not now":  {[]time.Time{now.Add(time.Nanosecond)}, time.Millisecond},
		"rounded up":           {[]time.Time{now.Add(49*time.Millisecond + 1)}, 50 * time.Millisecond},
		"just overdue":         {[]time.Time{now.Add(-time.Nanosecond)}, 0},
	} {
		if got := blockFor(now, time.Second, tc.due...); got != tc.want {
			t.Errorf("%s: blockFor = %s, want %s", name, got, tc.want)
		}
	}
}

func TestAheadOf(t *testing.T) {
	good := aheadFacts{got: 100, count: 100, took: time.Millisecond}
	for name, tc := range map[string]struct {
		change func(*aheadFacts)
		want   int
	}{
		"backlog and a quick handler":       {func(f *aheadFacts) {}, 1},
		"a very quick one":                  {func(f *aheadFacts) { f.took = aheadTwiceBelow - 1 }, 2},
		"the stream is drained":             {func(f *aheadFacts) { f.got = 99 }, 0},
		"nothing known of the handler":      {func(f *aheadFacts) { f.took = 0 }, 0},
		"slow handler":                      {func(f *aheadFacts) { f.took = aheadBelow }, 0},
		"a beat or retry is due":            {func(f *aheadFacts) { f.due = true }, 0},
		"one at a time: attempts are exact": {func(f *aheadFacts) { f.got, f.count = 1, 1 }, 0},
	} {
		f := good
		tc.change(&f)
		if got := aheadOf(f); got != tc.want {
			t.Errorf("%s: aheadOf(%+v) = %v, want %v", name, f, got, tc.want)
		}
	}
}

func TestUnproved(t *testing.T) {
	for since, want := range map[time.Duration]bool{
		0: false, 10 * time.Second: false, 20 * time.Second: false,
		20*time.Second + 1: true, time.Hour: true,
	} {
		if got := unproved(since, 30*time.Second); got != want {
			t.Errorf("unproved(%s, 30s) = %v, want %v", since, got, want)
		}
	}
}
