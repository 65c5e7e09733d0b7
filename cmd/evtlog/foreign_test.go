package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/archiver"
	"github.com/evtlog/evtlog/archive/volume"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/redislog"
)

func TestDecideForeign(t *testing.T) {
	low, err := evtid.Make(1_800_000_000_000, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	high := low.Next()
	for name, c := range map[string]struct {
		newest evtid.ID
		reach  reach
		drop   bool
		want   foreignStep
	}{
		"nothing below":                        {want: stepRemove},
		"archived":                             {newest: low, reach: reach{archived: true, watermark: low}, want: stepRemove},
		"archived in part":                     {newest: high, reach: reach{archived: true, watermark: low}, want: stepWait},
		"archived in part, and given up":       {newest: high, reach: reach{archived: true, watermark: low}, drop: true, want: stepWait},
		"an archive that holds nothing":        {newest: low, reach: reach{archived: true}, want: stepWait},
		"archived somewhere":                   {newest: low, reach: reach{sealed: high}, want: stepName},
		"archived somewhere, and given up":     {newest: low, reach: reach{sealed: high}, drop: true, want: stepName},
		"no archive":                           {newest: low, want: stepAsk},
		"no archive, and given up":             {newest: low, drop: true, want: stepDrop},
		"nothing below, in an archived stream": {reach: reach{sealed: high}, want: stepRemove},
	} {
		e := redislog.ForeignEntry{Newest: c.newest}
		if !c.newest.IsZero() {
			e.Records = 1
		}
		if got := decideForeign(e, c.reach, c.drop); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// foreignView is a line of "stream foreign".
type foreignView struct {
	Entry        string            `json:"entry"`
	RecordsBelow int               `json:"records_below"`
	State        string            `json:"state"`
	Fields       map[string]string `json:"fields"`
}

func foreignLines(t *testing.T, out string) (views []foreignView) {
	t.Helper()
	for line := range strings.Lines(out) {
		var v foreignView
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		views = append(views, v)
	}
	return views
}

// A foreign entry stops a replay; it is found, printed, and removed once what is
// below it is archived, and the replay then has every record.
func TestForeignIsRemovedBehindTheArchive(t *testing.T) {
	srv := redistest.Start(t)
	where := []string{"--redis", srv.URL(), "--queue", "q", "--stream", "s"}
	verb := func(words ...string) []string {
		return append(append([]string{"stream", "foreign"}, words...), where...)
	}
	if code, _, _ := cli(t, "", verb()...); code != exitNotFound {
		t.Errorf("no stream: exit %d", code)
	}
	_, receipts, _ := cli(t, strings.Repeat(`{"event":"scored"}`+"\n", 5), append([]string{"append"}, where...)...)
	ids := strings.Fields(receipts)
	last, err := evtid.Parse(ids[4])
	if err != nil {
		t.Fatal(err)
	}
	foreign := strings.Split(last.Entry(), "-")[0] + "-4194304"
	srv.Do("XADD", "emq:{q}:stream:s", foreign, "id", "odd", "n", "1")
	_, receipts, _ = cli(t, `{"event":"after"}`+"\n", append([]string{"append"}, where...)...)
	ids = append(ids, strings.Fields(receipts)...)
	if code, _, stderr := cli(t, "", append([]string{"replay"}, where...)...); code != exitFailed || !strings.Contains(stderr, foreign) {
		t.Errorf("replay over it: exit %d: %s", code, stderr)
	}
	code, out, _ := cli(t, "", verb()...)
	found := foreignLines(t, out)
	if code != exitOK || len(found) != 1 || found[0].Entry != foreign || found[0].RecordsBelow != 5 || found[0].Fields["id"] != "odd" || found[0].Fields["n"] != "1" {
		t.Fatalf("exit %d, found %+v", code, found)
	}
	path := filepath.Join(t.TempDir(), "a.db")
	emptyArchive(t, path)
	if code, _, stderr := cli(t, "", verb("--remove", "--yes", "--archive", path)...); code != exitFailed || !strings.Contains(stderr, "not all archived") {
		t.Errorf("not archived yet: exit %d: %s", code, stderr)
	}
	archiveStream(t, srv, path)
	if _, out, _ := cli(t, "", verb("--remove", "--archive", path)...); foreignLines(t, out)[0].State != string(stepRemove) {
		t.Errorf("dry run: %s", out)
	}
	if _, out, _ := cli(t, "", verb("--remove")...); foreignLines(t, out)[0].State != string(stepName) {
		t.Errorf("dry run without the archive: %s", out)
	}
	code, out, stderr := cli(t, "", verb("--remove", "--yes", "--archive", path)...)
	if removed := foreignLines(t, out); code != exitOK || len(removed) != 1 || removed[0].Fields["id"] != "odd" || !strings.Contains(stderr, "removed "+foreign) {
		t.Fatalf("exit %d, removed %+v: %s", code, removed, stderr)
	}
	code, out, stderr = cli(t, "", append([]string{"replay", "-o", "id", "--archive", path}, where...)...)
	if code != exitOK || strings.Join(strings.Fields(out), " ") != strings.Join(ids, " ") {
		t.Errorf("replay after it: exit %d, %s: %s", code, out, stderr)
	}
}

// Without an archive the records below go as well, and only when that is said.
func TestForeignWithoutAnArchive(t *testing.T) {
	srv := redistest.Start(t)
	where := []string{"--redis", srv.URL(), "--queue", "q", "--stream", "s"}
	verb := func(words ...string) []string {
		return append(append([]string{"stream", "foreign"}, words...), where...)
	}
	srv.Do("XADD", "emq:{q}:stream:s", "5-5", "n", "early")
	cli(t, strings.Repeat(`{"event":"scored"}`+"\n", 2), append([]string{"append"}, where...)...)
	srv.Do("XADD", "emq:{q}:stream:s", "9999999999999-4194304", "n", "late")
	code, out, stderr := cli(t, "", verb("--remove", "--yes")...)
	if removed := foreignLines(t, out); code != exitFailed || len(removed) != 1 || removed[0].Entry != "5-5" || !strings.Contains(stderr, "--drop-below") {
		t.Errorf("exit %d, removed %+v: %s", code, removed, stderr)
	}
	if code, _, stderr := cli(t, "", verb("--remove", "--yes", "--drop-below")...); code != exitOK || srv.Do("XLEN", "emq:{q}:stream:s") != ":0" {
		t.Errorf("exit %d, %s left: %s", code, srv.Do("XLEN", "emq:{q}:stream:s"), stderr)
	}
	if code, out, _ := cli(t, "", verb("-o", "table")...); code != exitOK || out != "" {
		t.Errorf("exit %d, found %s", code, out)
	}
	for _, args := range [][]string{{"--yes"}, {"--drop-below"}, {"--remove", "-o", "table"}, {"--archive", "x", "--nodes", "y:1"}} {
		if code, _, _ := cli(t, "", verb(args...)...); code != exitUsage {
			t.Errorf("%v: exit %d", args, code)
		}
	}
}

func emptyArchive(t *testing.T, path string) {
	t.Helper()
	store, err := volume.Open(path, volume.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

// archiveStream folds what can be folded of q/s.
func archiveStream(t *testing.T, srv *redistest.Server, path string) {
	t.Helper()
	store, err := volume.Open(path, volume.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	client, err := redislog.Open(t.Context(), redislog.Config{URL: srv.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	key, err := keyspace.NewStream("q", "s")
	if err != nil {
		t.Fatal(err)
	}
	a, err := archiver.New(archiver.Config{Stream: key, Keep: evtlog.KeepLast(100), Fold: archiver.Dial{Commit: true}}, client.Log(key), store)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = a.Fold(t.Context(), evtid.ID{}) // it stops at the foreign entry, before it publishes the floor
	w, err := store.Watermark(t.Context(), evtlog.StreamName{Queue: "q", Name: "s"})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Log(key).Seal(t.Context(), w); err != nil {
		t.Fatal(err)
	}
}
