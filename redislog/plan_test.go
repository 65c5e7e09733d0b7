package redislog

import (
	"fmt"
	"testing"

	"github.com/evtlog/evtlog/evtid"
)

func span(after, to int) SkippedRange {
	r := SkippedRange{To: at(to)}
	if after >= 0 {
		r.After = at(after)
	}
	return r
}

func TestPlanSkips(t *testing.T) {
	for name, c := range map[string]struct {
		groups []groupState
		from   evtid.ID
		want   []Skipped
	}{
		"no group":            {},
		"ahead":               {groups: []groupState{{name: "g", last: at(9)}}},
		"at the target":       {groups: []groupState{{name: "g", last: at(5)}}},
		"never read":          {groups: []groupState{{name: "g"}}, want: []Skipped{{Group: "g", Range: span(-1, 5)}}},
		"behind":              {groups: []groupState{{name: "g", last: at(3)}}, want: []Skipped{{Group: "g", Range: span(3, 5)}}},
		"behind, from higher": {groups: []groupState{{name: "g", last: at(1)}}, from: at(4), want: []Skipped{{Group: "g", Range: span(4, 5)}}},
		"pending only":        {groups: []groupState{{name: "g", last: at(9), pending: ats(2, 4)}}, want: []Skipped{{Group: "g", Pending: ats(2, 4)}}},
		"each for itself": {
			groups: []groupState{{name: "a", last: at(9)}, {name: "b", last: at(4), pending: ats(1)}, {name: "c"}},
			want:   []Skipped{{Group: "b", Range: span(4, 5), Pending: ats(1)}, {Group: "c", Range: span(-1, 5)}},
		},
	} {
		if got := planSkips(c.groups, c.from, at(5)); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestPendingRanges(t *testing.T) {
	a := at(1)
	b, c := a.Next(), a.Next().Next()
	for name, tc := range map[string]struct {
		ids  []evtid.ID
		want []SkippedRange
	}{
		"none":       {},
		"one":        {[]evtid.ID{a}, []SkippedRange{{a.Prev(), a}}},
		"first id":   {[]evtid.ID{evtid.ID{}.Next()}, []SkippedRange{{evtid.ID{}, evtid.ID{}.Next()}}},
		"neighbours": {[]evtid.ID{a, b, c}, []SkippedRange{{a.Prev(), c}}},
		"apart":      {[]evtid.ID{a, c}, []SkippedRange{{a.Prev(), a}, {b, c}}},
		"unordered":  {[]evtid.ID{c, a, b, a}, []SkippedRange{{a.Prev(), c}}},
	} {
		if got := pendingRanges(tc.ids); fmt.Sprint(got) != fmt.Sprint(tc.want) {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}

func TestUncovered(t *testing.T) {
	ranges := []SkippedRange{span(1, 3), span(5, 6)}
	wantIDs(t, uncovered(ats(1, 2, 3, 4, 5, 6, 7), ranges), 1, 4, 5, 7)
	wantIDs(t, uncovered(ats(1), nil), 1)
	wantIDs(t, uncovered(nil, ranges))
}

func TestSafeTarget(t *testing.T) {
	for name, c := range map[string]struct {
		groups []groupState
		want   evtid.ID
	}{
		"no group": {nil, at(5)},
		"ahead":    {[]groupState{{last: at(9)}}, at(5)},
		"behind":   {[]groupState{{last: at(9)}, {last: at(3)}}, at(3)},
		"pending":  {[]groupState{{last: at(9), pending: ats(2, 4)}}, at(2).Prev()},
		"gone":     {[]groupState{{last: at(9), pending: ats(0, 1, 4)}}, at(4).Prev()},
		"new":      {[]groupState{{}}, evtid.ID{}},
	} {
		if got := safeTarget(c.groups, at(1), at(5)); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestPlanGroup(t *testing.T) {
	for name, c := range map[string]struct {
		at     StartAt
		floor  evtid.ID
		exists bool
		want   groupPlan
	}{
		"head":                     {Head(), evtid.ID{}, true, groupPlan{at: "0"}},
		"head, no stream":          {Head(), evtid.ID{}, false, groupPlan{at: "0"}},
		"head above a floor":       {Head(), at(7), true, groupPlan{at: at(7).Entry(), skipped: span(-1, 7)}},
		"new":                      {New(), at(7), true, groupPlan{at: "$"}},
		"new, no stream":           {New(), evtid.ID{}, false, groupPlan{at: "$"}},
		"new, stream gone":         {New(), at(7), false, groupPlan{at: at(7).Entry()}},
		"after":                    {AfterID(at(3)), evtid.ID{}, true, groupPlan{at: at(3).Entry()}},
		"after, above the floor":   {AfterID(at(9)), at(7), true, groupPlan{at: at(9).Entry()}},
		"after, at the floor":      {AfterID(at(7)), at(7), true, groupPlan{at: at(7).Entry()}},
		"after, below the floor":   {AfterID(at(3)), at(7), true, groupPlan{at: at(7).Entry(), skipped: span(3, 7)}},
		"after the zero id = head": {AfterID(evtid.ID{}), at(7), false, groupPlan{at: at(7).Entry(), skipped: span(-1, 7)}},
	} {
		if got := planGroup(c.at, c.floor, c.exists); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

func TestSkippedText(t *testing.T) {
	for want, r := range map[string]SkippedRange{
		"0-0 1746090000003-4096":                {To: at(3)},
		"1746090000003-4095 1746090000003-4096": {After: at(3).Prev(), To: at(3)},
	} {
		if r.String() != want {
			t.Errorf("%v prints %q", r, r.String())
		}
		if got, err := parseSkipped(want); err != nil || got != r {
			t.Errorf("%q reads as %v, %v", want, got, err)
		}
	}
	for _, text := range []string{"", "1746090000003-4096", "x y", "0-0 x", "5-0 1746090000003-4096", "1746090000003-4096 0-0", at(1).Entry() + " " + at(1).Entry()} {
		if r, err := parseSkipped(text); err == nil {
			t.Errorf("%q reads as %v", text, r)
		}
	}
}

func TestTrimPolicyWords(t *testing.T) {
	bound := evtid.Bound{Millis: baseMillis}
	for name, c := range map[string]struct {
		policy TrimPolicy
		want   string
	}{
		"length":        {TrimPolicy{MaxLen: 5}, "[XTRIM s MAXLEN ~ 5]"},
		"length, exact": {TrimPolicy{MaxLen: 5, Exact: true}, "[XTRIM s MAXLEN = 5]"},
		"id":            {TrimPolicy{MinID: bound}, "[XTRIM s MINID ~ 1746090000000-0]"},
		"id, exact":     {TrimPolicy{MinID: bound, Exact: true}, "[XTRIM s MINID = 1746090000000-0]"},
		"empty":         {TrimPolicy{Exact: true}, ""},
		"negative":      {TrimPolicy{MaxLen: -1}, ""},
		"both":          {TrimPolicy{MaxLen: 1, MinID: bound}, ""},
	} {
		words, err := c.policy.words("s")
		if (err != nil) != (c.want == "") || err == nil && fmt.Sprint(words) != c.want || err != nil && Classify(err) != Caller {
			t.Errorf("%s: %v, %v", name, words, err)
		}
	}
}

func TestWarnings(t *testing.T) {
	good := map[string]string{"appendonly": "yes", "maxmemory": "100", "maxmemory-policy": "noeviction", "stream-node-max-bytes": "4096", "stream-node-max-entries": "100"}
	const server, replication = "redis_version:7.0.15\r\nredis_mode:standalone\r\n", "role:master\r\nconnected_slaves:2\r\n"
	if info := describe(server, replication, good); len(info.Warnings) != 0 || info.Replicas != 2 || info.MaxMemory != 100 || info.Role != "master" {
		t.Fatalf("a good server: %+v", info)
	}
	if info := describe("", "", nil); len(info.Warnings) != 1 || info.MaxMemory != -1 {
		t.Fatalf("a silent server: %+v", info)
	}
	for name, c := range map[string]struct {
		server, replication string
		setting, value      string
	}{
		"8.x":           {server: "redis_version:8.2.1\r\n"},
		"cluster":       {server: "redis_version:7.0.15\r\nredis_mode:cluster\r\n"},
		"replica":       {replication: "role:slave\r\n"},
		"no disk":       {setting: "appendonly", value: "no"},
		"evicts":        {setting: "maxmemory-policy", value: "allkeys-lru"},
		"evicts leases": {setting: "maxmemory-policy", value: "volatile-ttl"},
		"small nodes":   {setting: "stream-node-max-bytes", value: "1"},
		"short nodes":   {setting: "stream-node-max-entries", value: "1"},
		"large is fine": {setting: "stream-node-max-bytes", value: "16384"},
	} {
		settings := map[string]string{c.setting: c.value}
		for k, v := range good {
			if k != c.setting {
				settings[k] = v
			}
		}
		want := 1
		if name == "large is fine" {
			want = 0
		}
		info := describe(c.server+server, c.replication+replication, settings)
		if len(info.Warnings) != want {
			t.Errorf("%s: %q", name, info.Warnings)
		}
	}
}

func TestEscapeGlob(t *testing.T) {
	if got := escapeGlob(`a*b?c[d]e\f{g}`); got != `a\*b\?c\[d\]e\\f{g}` {
		t.Fatalf("got %q", got)
	}
}
