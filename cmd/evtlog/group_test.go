package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/redislog"
)

func TestParsePosition(t *testing.T) {
	for s, ok := range map[string]bool{
		"head": true, "end": true, "EVT0KHTOWnGLuC": true, "2026-01-02T15:04:05Z": true,
		"": false, "yesterday": false, "EVT0KHTOWn": false,
	} {
		if _, err := parsePosition(s); (err == nil) != ok {
			t.Errorf("--to %q: %v", s, err)
		}
	}
}

// A group is looked at, moved, and rid of a member, all from the command line.
func TestGroupVerbs(t *testing.T) {
	srv := redistest.Start(t)
	where := []string{"--redis", srv.URL(), "--queue", "q", "--stream", "s"}
	verb := func(words ...string) []string { return append(append([]string{"group"}, words...), where...) }
	code, receipts, stderr := cli(t, strings.Repeat(`{"event":"scored"}`+"\n", 5), append([]string{"append"}, where...)...)
	if code != exitOK {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	ids := strings.Fields(receipts)
	client, err := redislog.Open(t.Context(), redislog.Config{URL: srv.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	stream, err := keyspace.NewStream("q", "s")
	if err != nil {
		t.Fatal(err)
	}
	log := client.Log(stream)
	if _, err := log.CreateGroup(t.Context(), "g", redislog.Head()); err != nil {
		t.Fatal(err)
	}
	for _, member := range []string{"gone", "stays"} {
		reader, err := log.NewGroupReader(t.Context(), "g", member)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := reader.ReadNew(1, 0); err != nil {
			t.Fatal(err)
		}
		_ = reader.Close()
	}

	code, out, stderr := cli(t, "", verb("info", "-o", "json")...)
	var groups []groupView
	if err := json.Unmarshal([]byte(out), &groups); err != nil || code != exitOK || len(groups) != 1 {
		t.Fatalf("exit %d: %s %s %v", code, out, stderr, err)
	}
	if lag := groups[0].Lag; lag.Entries == nil || *lag.Entries != 5 || lag.Oldest.String() != ids[0] || lag.Holder != "gone" || lag.BehindMS == nil {
		t.Errorf("lag = %+v", lag)
	}
	if code, out, _ = cli(t, "", verb("info")...); code != exitOK || !strings.Contains(out, "LAG") || !strings.Contains(out, "gone") {
		t.Errorf("exit %d: %s", code, out)
	}

	var seek seekView
	for _, c := range []struct {
		to, how           string
		skipped, repeated int64
		target            string
	}{
		{ids[4], "--dry-run", 3, 0, ids[4]},
		{"head", "--dry-run", 0, 2, ""},
		{ids[4], "--yes", 3, 0, ids[4]},
		{"end", "--yes", 0, 0, ids[4]},
		{ids[0], "--yes", 0, 4, ids[0]},
	} {
		code, out, stderr := cli(t, "", verb("seek", "--group", "g", "--to", c.to, c.how, "-o", "json")...)
		if err := json.Unmarshal([]byte(out), &seek); err != nil || code != exitOK {
			t.Fatalf("exit %d: %s %s %v", code, out, stderr, err)
		}
		if seek.Skipped != c.skipped || seek.Repeated != c.repeated || !seek.Exact || seek.Done != (c.how == "--yes") || seek.To.String() != c.target {
			t.Errorf("seek %s %s: %+v", c.to, c.how, seek)
		}
	}

	if _, out, _ := cli(t, "", verb("seek", "--group", "g", "--to", "head", "--dry-run")...); !strings.Contains(out, "to                           head") {
		t.Errorf("seek to the head: %s", out)
	}

	remove := func(more ...string) (int, string, string) {
		return cli(t, "", append(verb("remove-member", "--group", "g", "--member", "gone"), more...)...)
	}
	if code, out, stderr = cli(t, "", verb("remove-member", "--group", "g", "--member", "gnoe", "--yes")...); code != exitNotFound || out != "" || !strings.Contains(stderr, "gone, stays") {
		t.Errorf("a slip in the name: exit %d: %s%s", code, out, stderr)
	}
	if code, _, stderr = remove("--yes"); code != exitFailed || !strings.Contains(stderr, "pending") {
		t.Errorf("a member at work: exit %d: %s", code, stderr)
	}
	<-time.After(20 * time.Millisecond)
	if code, out, stderr = remove("--min-idle", "10ms", "--yes"); code != exitOK || !strings.Contains(out, "1") {
		t.Errorf("exit %d: %s %s", code, out, stderr)
	}
	pending, err := log.Pending(t.Context(), "g", evtid.ID{}, 10, "", 0)
	if err != nil || len(pending) != 2 || pending[0].Consumer != "stays" {
		t.Errorf("pending = %+v, %v", pending, err)
	}
}

func TestGroupVerbsRefuse(t *testing.T) {
	srv := redistest.Start(t)
	where := []string{"--redis", srv.URL(), "--queue", "q", "--stream", "s"}
	for args, want := range map[string]int{
		"seek --group g --to head":                                exitUsage,
		"seek --group g --to head --yes --dry-run":                exitUsage,
		"seek --group g --yes":                                    exitUsage,
		"seek --to head --yes":                                    exitUsage,
		"seek --group g --to head --dry-run":                      exitNotFound,
		"seek --group g --to head --dry-run --archive /none.evtl": exitUsage,
		"remove-member --group g --member m":                      exitUsage,
		"remove-member --group g --yes":                           exitUsage,
		"remove-member --group g --member m --yes":                exitNotFound,
	} {
		code, _, stderr := cli(t, "", append(append([]string{"group"}, strings.Fields(args)...), where...)...)
		if code != want {
			t.Errorf("%s: exit %d, want %d: %s", args, code, want, stderr)
		}
	}
	if got := fmt.Sprint(rangeText(redislog.SkippedRange{To: evtid.Max})); !strings.HasPrefix(got, "(head, ") {
		t.Errorf("rangeText = %s", got)
	}
}
