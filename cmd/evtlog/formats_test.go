package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/evtlog/evtlog/internal/redistest"
)

// verbs returns every verb that has -o.
func verbs(root *cobra.Command) (list []*cobra.Command) {
	for _, cmd := range root.Commands() {
		list = append(list, verbs(cmd)...)
		if cmd.Flags().Lookup("output") != nil {
			list = append(list, cmd)
		}
	}
	return list
}

// The three formats are known to every verb, and id to those whose lines are records.
func TestOneSetOfFormats(t *testing.T) {
	records := []string{"evtlog append", "evtlog replay", "evtlog dead ls"}
	list := verbs((&app{}).command())
	if len(list) < 20 {
		t.Fatalf("only %d verbs have -o", len(list))
	}
	for _, cmd := range list {
		want := "output format: table|json|jsonl"
		if slices.Contains(records, cmd.CommandPath()) {
			want += "|id"
		}
		if got := cmd.Flags().Lookup("output").Usage; got != want {
			t.Errorf("%s: %s, want %s", cmd.CommandPath(), got, want)
		}
	}
}

// json prints one document, jsonl a line for each thing, and id the ids alone, whether
// there are none, one or two.
func TestFormats(t *testing.T) {
	srv := redistest.Start(t)
	for name, lines := range map[string]int{"none": 0, "one": 1, "two": 2} {
		where := []string{"--redis", srv.URL(), "--queue", "q", "--stream", name}
		verb := func(line string) []string { return append(strings.Fields(line), where...) }
		for _, format := range []string{"json", "jsonl", "table", "id"} {
			in := strings.Repeat("{\"n\":\"1\"}\n", lines)
			code, out, stderr := cli(t, in, verb("append -o "+format)...)
			checkFormat(t, "append", format, code, out, stderr, lines)
			srv.Do("DEL", "emq:{q}:stream:"+name)
		}
		cli(t, `{"n":"1"}`+"\n", verb("append")...)
		for i := range lines {
			srv.Do("XGROUP", "CREATE", "emq:{q}:stream:"+name, "g"+string(rune('a'+i)), "0")
			srv.Do("XADD", "emq:{q}:stream:"+name, "9999999999999-"+string(rune('1'+i))+"000000000", "n", "1")
		}
		for _, line := range []string{"group info", "stream foreign"} {
			for _, format := range []string{"json", "jsonl"} {
				code, out, stderr := cli(t, "", verb(line+" -o "+format)...)
				checkFormat(t, line, format, code, out, stderr, lines)
			}
		}
		for _, line := range []string{"stream info", "dead replay --dry-run"} {
			code, out, stderr := cli(t, "", verb(line+" -o json")...)
			checkFormat(t, line, "json", code, out, stderr, -1)
		}
		code, out, stderr := cli(t, "", verb("stream info -o jsonl")...)
		checkFormat(t, "stream info", "jsonl", code, out, stderr, 1)
	}
}

// checkFormat looks at n things that were printed, or at one object when n is below 0.
func checkFormat(t *testing.T, verb, format string, code int, out, stderr string, n int) {
	t.Helper()
	var list []any
	ok := code == exitOK && strings.Count(out, "\n") == n
	switch {
	case format == "json" && n < 0:
		ok = code == exitOK && json.Unmarshal([]byte(out), &map[string]any{}) == nil
	case format == "json":
		ok = code == exitOK && json.Unmarshal([]byte(out), &list) == nil && list != nil && len(list) == n
	case format == "jsonl":
		for line := range strings.Lines(out) {
			ok = ok && json.Unmarshal([]byte(line), &map[string]any{}) == nil
		}
	}
	if !ok {
		t.Errorf("%s -o %s: exit %d, printed %q for %d; stderr: %s", verb, format, code, out, n, stderr)
	}
}
