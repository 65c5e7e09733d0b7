package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/redislog"
	"github.com/evtlog/evtlog/runtime"
)

// stateOf finds one check.
func stateOf(list []diagnosis, check string) health {
	for _, d := range list {
		if d.Check == check {
			return d.State
		}
	}
	return ""
}

func TestJudgeOpen(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		check  string
		states int
	}{
		"fine":         {nil, "", 2},
		"old server":   {&redislog.VersionError{Version: "7.0.1", Addr: "a:1"}, "version", 2},
		"foreign":      {&redislog.FenceError{Addr: "a:1", Value: "x"}, "fence", 2},
		"not reached":  {&redislog.ConnError{Op: "connect", Err: errors.New("refused")}, "redis", 1},
		"not admitted": {&redislog.ServerError{Prefix: "NOAUTH"}, "redis", 1},
	} {
		list := judgeOpen("a:1", c.err)
		if len(list) != c.states || c.err != nil && (stateOf(list, c.check) != broken || list[len(list)-1].err == nil) || c.err == nil && stateOf(list, "redis") != healthy {
			t.Errorf("%s: %+v", name, list)
		}
	}
}

func TestJudgeServer(t *testing.T) {
	good := redislog.ServerInfo{Version: "7.0.15", Role: "master", Mode: "standalone", AppendOnly: "yes", AppendFsync: "always", MaxMemory: 100, MaxMemoryPolicy: "noeviction"}
	for name, c := range map[string]struct {
		change func(i *redislog.ServerInfo)
		check  string
		want   health
	}{
		"fine":                 {func(*redislog.ServerInfo) {}, "eviction", healthy},
		"no version":           {func(i *redislog.ServerInfo) { i.Version = "" }, "version", unseen},
		"a replica":            {func(i *redislog.ServerInfo) { i.Role = "slave" }, "role", broken},
		"a cluster":            {func(i *redislog.ServerInfo) { i.Mode = "cluster" }, "role", broken},
		"no role":              {func(i *redislog.ServerInfo) { i.Role = "" }, "role", unseen},
		"snapshots":            {func(i *redislog.ServerInfo) { i.AppendOnly, i.Save = "no", "3600 1" }, "persistence", ailing},
		"nothing on disk":      {func(i *redislog.ServerInfo) { i.AppendOnly = "no" }, "persistence", broken},
		"it does not tell":     {func(i *redislog.ServerInfo) { i.AppendOnly = "" }, "persistence", unseen},
		"evicts":               {func(i *redislog.ServerInfo) { i.MaxMemoryPolicy = "allkeys-lru" }, "eviction", broken},
		"would evict":          {func(i *redislog.ServerInfo) { i.MaxMemoryPolicy, i.MaxMemory = "allkeys-lru", 0 }, "eviction", ailing},
		"evicts leases":        {func(i *redislog.ServerInfo) { i.MaxMemoryPolicy = "volatile-lru" }, "eviction", ailing},
		"the policy is hidden": {func(i *redislog.ServerInfo) { i.MaxMemoryPolicy = "" }, "eviction", unseen},
		"small nodes":          {func(i *redislog.ServerInfo) { i.Warnings = []string{"stream-node-max-bytes 1"} }, "settings", ailing},
	} {
		i := good
		c.change(&i)
		list := judgeServer(i)
		if got := stateOf(list, c.check); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		for _, d := range list {
			if d.Check != c.check && d.State != healthy {
				t.Errorf("%s: %+v", name, d)
			}
		}
	}
}

func TestJudgeClock(t *testing.T) {
	for ahead, want := range map[time.Duration]health{
		0: healthy, 999 * time.Millisecond: healthy, time.Second: ailing, -2 * time.Second: ailing, time.Minute: broken, -time.Hour: broken,
	} {
		if got := judgeClock(ahead); got.State != want {
			t.Errorf("%s ahead: %+v", ahead, got)
		}
	}
}

func TestJudgeStream(t *testing.T) {
	low, err := evtid.Make(1_800_000_000_000, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	high := low.Next()
	info := redislog.StreamInfo{Exists: true, Length: 2, Last: low}
	known := runtime.Lag{Group: "g", Known: true, OldestKnown: true, Entries: 2}
	for name, c := range map[string]struct {
		f     streamFacts
		check string
		want  health
	}{
		"fine":                       {streamFacts{info: info}, "stream q/s", healthy},
		"a foreign entry":            {streamFacts{info: info, foreign: "5-5"}, "stream q/s", broken},
		"from the future":            {streamFacts{info: info, now: low.Time().Add(-time.Hour)}, "stream q/s", broken},
		"dead letters":               {streamFacts{info: info, dead: true}, "stream q/s", ailing},
		"archived":                   {streamFacts{info: info, archived: true, watermark: low, sealed: low}, "archived q/s", healthy},
		"nothing archived":           {streamFacts{info: info, archived: true}, "archived q/s", ailing},
		"another archive":            {streamFacts{info: info, archived: true, watermark: low, sealed: high}, "archived q/s", broken},
		"set back":                   {streamFacts{info: info, archived: true, watermark: high, sealed: low}, "archived q/s", ailing},
		"a group":                    {streamFacts{info: info, lags: []runtime.Lag{known}}, "group q/s/g", healthy},
		"a group of unknown lag":     {streamFacts{info: info, lags: []runtime.Lag{{Group: "g", Why: "x"}}}, "group q/s/g", unseen},
		"a group that loses records": {streamFacts{info: info, lags: []runtime.Lag{{Group: "g", Known: true, Skipped: []redislog.SkippedRange{{}}}}}, "group q/s/g", ailing},
	} {
		c.f.name = "q/s"
		if c.f.now.IsZero() {
			c.f.now = low.Time()
		}
		if got := stateOf(judgeStream(c.f), c.check); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestJudgeNodes(t *testing.T) {
	down := nodeStatus{address: "a:1", err: errors.New("refused")}
	leads := nodeStatus{address: "b:1", status: api.Status{Node: "b", State: "Leader"}}
	follows := nodeStatus{address: "c:1", status: api.Status{Node: "c", State: "Follower", LeaderID: "b"}}
	sick := nodeStatus{address: "d:1", status: api.Status{Node: "d", State: "Follower", Checks: []api.Check{{Name: "disk", Detail: "full"}}}}
	for name, c := range map[string]struct {
		nodes        []nodeStatus
		node, leader health
	}{
		"all well":       {[]nodeStatus{leads, follows}, healthy, healthy},
		"one is down":    {[]nodeStatus{down, leads}, broken, healthy},
		"only followers": {[]nodeStatus{follows}, healthy, healthy},
		"no leader":      {[]nodeStatus{sick}, broken, broken},
		"all are down":   {[]nodeStatus{down}, broken, broken},
	} {
		list := judgeNodes(c.nodes)
		if list[0].State != c.node || stateOf(list, "leader") != c.leader || len(list) != len(c.nodes)+1 {
			t.Errorf("%s: %+v", name, list)
		}
	}
	if d := judgeFile("x", archive.ErrLocked); d.State != unseen {
		t.Errorf("a file in use: %+v", d)
	}
	if d := judgeFile("x", archive.ErrCorrupt); d.State != broken || !errors.Is(d.err, archive.ErrCorrupt) {
		t.Errorf("a damaged file: %+v", d)
	}
}

// The doctor looks at a server that is well, one that is not, and one that is not
// there.
func TestDoctor(t *testing.T) {
	srv := redistest.Start(t, "--appendonly", "yes")
	where := []string{"--redis", srv.URL(), "--queue", "q"}
	cli(t, `{"event":"scored"}`+"\n", append([]string{"append", "--stream", "s"}, where...)...)
	srv.Do("XGROUP", "CREATE", "emq:{q}:stream:s", "g", "0")
	var list []diagnosis
	decode(t, &list, append([]string{"doctor"}, where...)...)
	for _, check := range []string{"redis", "fence", "version", "role", "persistence", "eviction", "clock", "stream q/s", "group q/s/g"} {
		if stateOf(list, check) != healthy {
			t.Errorf("%s is %q in %+v", check, stateOf(list, check), list)
		}
	}
	srv.Do("CONFIG", "SET", "maxmemory", "100mb")
	srv.Do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	code, out, stderr := cli(t, "", append([]string{"doctor"}, where...)...)
	if code != exitFailed || !strings.Contains(out, "takes whole streams") || !strings.Contains(stderr, "1 of ") {
		t.Errorf("with an eviction policy: exit %d: %s%s", code, out, stderr)
	}
	path := filepath.Join(t.TempDir(), "a.db")
	emptyArchive(t, path)
	if _, out, _ := cli(t, "", append([]string{"doctor", "--archive", path}, where...)...); !strings.Contains(out, "nothing is archived") {
		t.Errorf("with an empty archive: %s", out)
	}
	if code, out, _ := cli(t, "", append([]string{"doctor", "--nodes", redistest.FreeAddr(t)}, where...)...); code != exitUnavailable || !strings.Contains(out, "knows a leader") {
		t.Errorf("with nodes that are not there: exit %d: %s", code, out)
	}
	srv.Do("SET", "{emq}:version", "other:1")
	if code, out, _ := cli(t, "", append([]string{"doctor"}, where...)...); code != exitFailed || !strings.Contains(out, "fence") {
		t.Errorf("a foreign server: exit %d: %s", code, out)
	}
	if code, out, _ := cli(t, "", "doctor", "--redis", "redis://"+redistest.FreeAddr(t)); code != exitUnavailable || !strings.Contains(out, "failed") {
		t.Errorf("nobody there: exit %d: %s", code, out)
	}
	for _, args := range [][]string{{"--stream", "s"}, {"--queue", "a b"}, {"--timeout", "0s"}} {
		if code, _, _ := cli(t, "", append([]string{"doctor"}, args...)...); code != exitUsage {
			t.Errorf("%v: exit %d", args, code)
		}
	}
}
