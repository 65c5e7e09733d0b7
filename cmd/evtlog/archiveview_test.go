package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive/replica"
	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/archive/replica/portable"
	"github.com/evtlog/evtlog/evtid"
)

// golden compares what is printed with a file. With EVTLOG_REWRITE it writes it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("EVTLOG_REWRITE") != "" {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: printed\n%s\nwant\n%s", name, got, want)
	}
}

var cased = regexp.MustCompile(`"[^"]*[A-Z][^"]*":`)

// What programs parse: the keys of each verb's JSON, all in one case.
func TestArchiveJSON(t *testing.T) {
	w, err := evtid.Make(1_800_000_000_000, 1, 7)
	if err != nil {
		t.Fatal(err)
	}
	volume := api.Volume{Stream: evtlog.StreamName{Queue: "cm", Name: "feed"}, LSN: 3, Records: 50, Watermark: w, Chain: [32]byte{1, 2, 3}}
	status := api.Status{
		Identity: api.Identity{Cluster: "prod", Incarnation: "i1"}, Node: "a", Address: "127.0.0.1:7461", State: "Follower",
		LeaderID: "b", LeaderAddress: "127.0.0.1:7471", Term: 4, LastIndex: 9, CommitIndex: 8, AppliedIndex: 7, FSMIndex: 6,
		LastContact: 15 * time.Millisecond, Servers: []api.Server{{ID: "a", Address: "127.0.0.1:7461", Voter: true}},
		Checks:  []api.Check{{Name: "disk", OK: false, Required: true, Detail: "full"}},
		Volumes: []api.Volume{volume}, PulledBytes: 10, PulledCommits: 1, Elections: 2, RaftFileBytes: 4096, Alarms: []string{"behind"},
	}
	for name, view := range map[string]any{
		"status.json": viewStatuses([]nodeStatus{
			{address: "127.0.0.1:7461", status: status},
			{address: "127.0.0.1:7471", status: api.Status{Node: "b", State: "Starting", LastContact: -1}},
			{address: "127.0.0.1:7481", err: errors.New("connection refused")},
		}),
		"verify.json": viewFindings(map[string][]api.Finding{
			"127.0.0.1:7471": {{What: "volume cm/feed", OK: true, Commits: 3, Records: 50}},
			"127.0.0.1:7461": {{What: "volume cm/feed", Detail: "commit 2: bad checksum", Commits: 1, Records: 10}},
			"127.0.0.1:7481": nil,
		}),
		"summary.json":   viewSummary(portable.Summary{Volumes: []api.Volume{volume}, Commits: 3, Records: 50}),
		"compacted.json": viewCompacted([]replica.Compacted{{Name: "volumes.db", Before: 4096, After: 1024}}),
		"recovery.json": viewRecovery(replica.RecoverPlan{
			Before: []api.Server{{ID: "a", Address: "x", Voter: true}, {ID: "b", Address: "y"}}, After: api.Server{ID: "a", Address: "x", Voter: true},
			LastIndex: 9, LastTerm: 4, Entries: 2, FromVolumes: true, OldIncarnation: "i1", NewIncarnation: "i2", Volumes: []api.Volume{volume},
		}),
	} {
		var out bytes.Buffer
		if err := (&app{out: &out}).json(view); err != nil {
			t.Fatal(err)
		}
		if key := cased.Find(out.Bytes()); key != nil {
			t.Errorf("%s: the key %s is not in snake case", name, key)
		}
		if !json.Valid(out.Bytes()) {
			t.Errorf("%s is not JSON", name)
		}
		golden(t, name, out.Bytes())
	}
}
