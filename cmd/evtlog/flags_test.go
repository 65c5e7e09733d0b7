package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/evtlog/evtlog/internal/redistest"
)

// fieldName finds what speaks of a field of a Go configuration.
var fieldName = regexp.MustCompile(`\b(?:[A-Z][a-z]+){2,}\b|\b(?:Config|Addresses|Peers|Bootstrap|Rejoin|Dir)\b|\b(?:ID|Cluster|Node) ["=]`)

// Flags that cannot be obeyed are refused before anything is dialled: nothing
// listens on port 1.
func TestFlagsThatCannotBeObeyed(t *testing.T) {
	t.Setenv("EVTLOG_REDIS_URL", "redis://127.0.0.1:1")
	const where = " --queue q --stream s"
	for line, want := range map[string]string{
		// A variable of a script that is not set must not widen what a verb does.
		"replay --redis=" + where:                                             "--redis",
		"replay --archive=" + where:                                           "--archive",
		"replay --nodes=" + where:                                             "--nodes",
		"replay --from=" + where:                                              "--from",
		"dead replay --yes --id=" + where:                                     "--id",
		"dead replay --yes --group=" + where:                                  "--group",
		"dead ls --to=" + where:                                               "--to",
		"archive verify --dir=":                                               "--dir",
		"archive status --nodes=":                                             "--nodes",
		"archive serve --dir=":                                                "--dir",
		"replay --tls-cert c" + where:                                         "--tls-cert",
		"replay --cluster c --archive f" + where:                              "--cluster",
		"replay --archive-timeout 1s" + where:                                 "--archive-timeout",
		"replay --nodes h:1 --archive f" + where:                              "--archive and --nodes",
		"doctor --nodes h:1 --archive f":                                      "--archive and --nodes",
		"replay --nodes h:1 --archive-timeout -1s" + where:                    "--archive-timeout -1s",
		"replay --nodes h" + where:                                            `--nodes "h"`,
		"archive ls --nodes http://h:1":                                       `--nodes "http://h:1"`,
		"archive ls --timeout 0":                                              "--timeout 0s",
		"archive export --to f --timeout -1s":                                 "--timeout -1s",
		"archive verify --dir d --nodes h:1":                                  "--nodes",
		"archive verify --dir d --timeout 1s":                                 "--timeout",
		"archive import --from " + "flags_test.go --dry-run --nodes h:1":      "--nodes",
		"archive serve --dir d --id a --cluster c --bootstrap --non-voter":    "--non-voter",
		"append --node 1024" + where:                                          "--node 1024",
		"append --node -1" + where:                                            "--node -1",
		"append --max-record-bytes 0" + where:                                 "--max-record-bytes 0",
		"append --max-record-bytes 99999999999" + where:                       `--max-record-bytes "99999999999"`,
		"append --timeout 0" + where:                                          "--timeout 0s",
		"dead replay --dry-run --node 1024" + where:                           "--node 1024",
		"dead replay --dry-run --max-record-bytes -1" + where:                 "--max-record-bytes -1",
		"dead replay --dry-run --timeout -1s" + where:                         "--timeout -1s",
		"group seek --to head --dry-run" + where:                              "--group",
		"group remove-member --group g --yes" + where:                         "--member",
		"group remove-member --group g --member m --min-idle 0 --yes" + where: "--min-idle 0s",
		"group remove-member --group g --member m --heir a/b --yes" + where:   "--heir",
		"group info --group a/b" + where:                                      "--group",
		"dead ls --group a/b" + where:                                         "--group",
		"raft recover --yes":                                                  "--dir, --id and --cluster",
		"help nonsense":                                                       "nonsense",
		"help stream nonsense":                                                "nonsense",
	} {
		if code, out, stderr := cli(t, "", strings.Fields(line)...); code != exitUsage || !strings.Contains(stderr, want) || out != "" {
			t.Errorf("%s: exit %d, want %d with %q; printed %q; stderr: %s", line, code, exitUsage, want, out, stderr)
		}
	}
}

// A file or directory that is not there is a mistake in the command line.
func TestAbsentFiles(t *testing.T) {
	srv := redistest.Start(t)
	absent := filepath.Join(t.TempDir(), "absent")
	for _, line := range []string{
		"replay --redis " + srv.URL() + " --queue q --stream s --archive " + absent,
		"archive verify --dir " + absent,
		"archive compact --dir " + absent,
		"archive compact --dir " + t.TempDir(),
		"archive import --from " + absent,
		"archive status --tls-cert " + absent + " --tls-key k --tls-ca a",
		"raft recover --dry-run --id a --cluster c --dir " + absent,
	} {
		if code, _, stderr := cli(t, "", strings.Fields(line)...); code != exitUsage || strings.HasPrefix(stderr, "evtlog: evtlog") {
			t.Errorf("%s: exit %d: %s", line, code, stderr)
		}
	}
}

// What is refused is named by its flag, not by a field of a configuration.
func TestErrorsNameFlags(t *testing.T) {
	dir := t.TempDir()
	node := "archive serve --dir " + dir + " --id a --cluster c"
	for line, want := range map[string]string{
		"replay --queue q --stream s --redis nowhere":              "--redis or $EVTLOG_REDIS_URL",
		"append --queue q --stream s --redis nowhere":              "--redis or $EVTLOG_REDIS_URL",
		"doctor --redis nowhere":                                   "",
		"archive serve":                                            "--dir",
		"archive serve --dir " + dir:                               "--id",
		"archive serve --dir " + dir + " --id a":                   "--cluster",
		node:                                                       "--bootstrap if it is the first of its cluster, else --peers",
		node + " --bootstrap --http 0.0.0.0:7461":                  "--allow-insecure-network",
		node + " --bootstrap --peers nowhere":                      "--peers",
		node + " --bootstrap --raft-advertise nowhere":             "--raft-advertise",
		"raft recover --dry-run --id a/b --cluster c --dir " + dir: "--id",
	} {
		code, out, stderr := cli(t, "", strings.Fields(line)...)
		if code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, want %d with %q; stderr: %s", line, code, exitUsage, want, stderr)
		}
		if name := fieldName.FindString(out + stderr); name != "" {
			t.Errorf("%s: it speaks of the field %s: %s%s", line, name, out, stderr)
		}
	}
}
