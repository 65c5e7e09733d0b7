package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// list asks the go command for every package of the module.
func list(t *testing.T) (pkgs []pkg) {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Imports,TestImports,XTestImports,Deps,Error", "./...")
	cmd.Dir = root(t)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

func TestImportTable(t *testing.T) {
	pkgs := list(t)
	byPath := map[string]pkg{}
	for _, p := range pkgs {
		byPath[p.ImportPath] = p
		if p.Error != nil {
			t.Errorf("%s does not load: %s", p.ImportPath, p.Error.Err)
		}
		for _, fault := range checkImports(table, p) {
			t.Error(fault)
		}
	}
	for _, want := range []string{".", "evtid", "internal/archtest"} {
		if _, ok := byPath[importPath(want)]; !ok {
			t.Errorf("go list does not name %s: the check saw %d packages", want, len(pkgs))
		}
	}
	// A program that embeds a node does link raft: the check below can fail.
	if embeds := byPath[importPath("examples/archivecluster")]; len(checkLinks(embeds.ImportPath, embeds.Deps, isRaft, "it embeds a node")) == 0 {
		t.Error("a program that embeds a node does not link raft")
	}
	for _, l := range links {
		if _, ok := byPath[importPath(l.path)]; !ok && strings.HasPrefix(l.path, "examples/") {
			t.Errorf("go list does not name %s", l.path)
		}
		for _, fault := range checkLinks(l.path, byPath[importPath(l.path)].Deps, l.banned, l.why) {
			t.Error(fault)
		}
	}
}

func TestOwners(t *testing.T) {
	for _, fault := range checkOwners(table, owners) {
		t.Error(fault)
	}
	made := []row{{path: "console", third: []string{redigo}}, {path: "redislog", third: []string{redigo}}, {path: "runtime", tests: []string{raft}}}
	if faults := checkOwners(made, owners); len(faults) != 2 {
		t.Errorf("of two made-up faults %q were found", faults)
	}
}

// The checks can fail: each of these made-up edges must be found, and only the
// bad ones.
func TestMadeUpEdges(t *testing.T) {
	in := func(paths ...string) []string { return paths }
	us := func(at string) string { return importPath(at) }
	for _, tc := range []struct {
		at            string
		imports, test []string
		fault         string // "" when the edge is allowed
	}{
		{at: "evtid", imports: in("fmt", "sync/atomic")},
		{at: "evtid", imports: in(us(".")), fault: "does not allow"},
		{at: "evtid", imports: in("golang.org/x/exp/slices"), fault: "no such module"},
		{at: "evtid", imports: in("net"), fault: "no I/O"},
		{at: ".", imports: in(us("keyspace")), fault: "does not allow"},
		{at: "feed", imports: in(us("."), us("evtid"))},
		{at: "redislog", imports: in(redigo + "/redis")},
		{at: "redislog", imports: in(us("archive")), fault: "does not allow"},
		{at: "redislog", test: in(us("archive"))},
		{at: "archive", imports: in(us("archive/volume")), fault: "does not allow"},
		{at: "archive/volume", imports: in(raft), fault: "no such module"},
		{at: "archive/replica", imports: in(raft, raftStore)},
		{at: "archive/replica/snapstore", imports: in(raft, us("archive/volume"), us("archive/replica/manifest"))},
		{at: "archive/replica/client", imports: in(raft), fault: "no such module"},
		{at: "archive/replica/client", imports: in(us("archive/replica")), fault: "does not allow"},
		{at: "actors/publisher", imports: in(protoactor + "/actor"), fault: "no such module"},
		{at: "actors/publisher", imports: in(redigo + "/redis"), fault: "no such module"},
		{at: "actors/publisher", imports: in(us("actors/retention")), fault: "do not know each other"},
		{at: "actors/publisher", test: in(us("actors/retention")), fault: "in tests neither"},
		{at: "actors/publisher", imports: in(us("actors/internal/beat"), us("actors/supervise"))},
		{at: "actors/publisher", imports: in(us("runtime")), fault: "does not allow"},
		{at: "actors/publisher", test: in(us("runtime"), rapid, goleak)},
		{at: "runtime", imports: in(us("archive/replica/client")), fault: "does not allow"},
		{at: "runtime", test: in("github.com/stretchr/testify/assert"), fault: "neither a test library"},
		{at: "console", imports: in(us("cmd/evtlog")), fault: "does not allow"},
		{at: "examples/archivecluster", imports: in(us("archive/replica"), us("runtime"))},
		{at: "examples/archivecluster", imports: in(raft), fault: "no such module"},
		{at: "helpers", imports: in("fmt"), fault: "no row"},
	} {
		faults := checkImports(table, pkg{ImportPath: us(tc.at), Imports: tc.imports, XTestImports: tc.test})
		switch {
		case tc.fault == "" && len(faults) > 0:
			t.Errorf("%s %v %v: %q", tc.at, tc.imports, tc.test, faults)
		case tc.fault != "" && (len(faults) != 1 || !strings.Contains(faults[0], tc.fault)):
			t.Errorf("%s %v %v: found %q, want %q", tc.at, tc.imports, tc.test, faults, tc.fault)
		}
	}
	if faults := checkImports(table, pkg{ImportPath: "example.com/other"}); len(faults) != 1 {
		t.Errorf("a package of another module: %q", faults)
	}
}

func TestMadeUpLinks(t *testing.T) {
	deps := []string{"fmt", "internal/abi", importPath("evtid"), raft, raftStore, raft + "x"}
	if faults := checkLinks("runtime", deps, isRaft, "why"); len(faults) != 2 {
		t.Errorf("raft among the links: %q", faults)
	}
	if faults := checkLinks("evtid", deps, thirdParty, "why"); len(faults) != 3 {
		t.Errorf("third-party modules among the links: %q", faults)
	}
}

// The most specific row wins, whatever the order of the table.
func TestRowFor(t *testing.T) {
	rows := []row{{path: "..."}, {path: "a/..."}, {path: "a/b/..."}, {path: "a/b"}, {path: "a/bc"}}
	for range 2 {
		for at, want := range map[string]string{"x": "...", "a": "a/...", "a/x": "a/...", "a/b": "a/b", "a/b/c": "a/b/...", "a/bc": "a/bc", "ab": "..."} {
			if r, ok := rowFor(rows, at); !ok || r.path != want {
				t.Errorf("%s falls under %s, want %s", at, r.path, want)
			}
		}
		slices.Reverse(rows)
	}
}
