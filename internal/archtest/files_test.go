package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// How long a file of Go may be, in lines. Generated files are as long as they are.
const (
	maxLines     = 400
	maxTestLines = 800
)

var (
	generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

	// unfinished marks work that was put off.
	unfinished = regexp.MustCompile(`\b(TO[D]O|FIX[M]E|X{3})\b`)
	// machine is a path of somebody's machine.
	machine = regexp.MustCompile(`(^|[\s"'(=:])/(home|root|Users|work)/`)
	// tracker is a number that only a tracker outside of the repository explains.
	// The trackers of the projects that this one builds on are public.
	tracker  = regexp.MustCompile(`\b(?:(\w+) )?(?:[Ii]ssue|[Pp]ull request|PR|[Tt]icket) #?\d+\b`)
	upstream = regexp.MustCompile(`(?i)^(redis|redigo|raft|bbolt|protoactor|miniredis|go)$`)
	// paper is the name of a document. A local one must be there.
	paper = regexp.MustCompile(`(\S*://\S*)|\b[\w./-]+\.md\b`)
)

// file is one text file of the repository.
type file struct {
	path string // with slashes, from the root
	text []byte
}

func (f file) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }
func (f file) isGo() bool   { return strings.HasSuffix(f.path, ".go") }

// root returns the folder of go.mod.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// isOurs reports whether a file is one that somebody here wrote as text.
func isOurs(p string) bool {
	switch path.Ext(p) {
	case ".go", ".md", ".sh", ".yml", ".yaml", ".proto", ".mod":
		return true
	}
	return path.Dir(p) == ".ci"
}

// tree reads the repository's own text files.
func tree(t *testing.T) (files []file) {
	t.Helper()
	top := root(t)
	err := filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(top, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if name := d.Name(); name == ".git" || name == "testdata" || name == "node_modules" || rel == "bin" {
				return filepath.SkipDir
			}
			return nil
		}
		if !isOurs(rel) {
			return nil
		}
		text, err := os.ReadFile(p)
		files = append(files, file{rel, text})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 20 {
		t.Fatalf("only %d files found under %s", len(files), top)
	}
	return files
}

// checkFile returns what is wrong with a file. papers are the base names of the
// documents that the repository has.
func checkFile(f file, papers map[string]bool) (faults []string) {
	if generated.Match(f.text) {
		return nil
	}
	limit := maxLines
	if f.isTest() {
		limit = maxTestLines
	}
	if lines := bytes.Count(f.text, []byte("\n")); f.isGo() && lines > limit {
		faults = append(faults, fmt.Sprintf("%s has %d lines, the limit is %d: split it by what it decides", f.path, lines, limit))
	}
	for n, line := range strings.Split(string(f.text), "\n") {
		for _, word := range forbidden(line, papers) {
			faults = append(faults, fmt.Sprintf("%s:%d: %s", f.path, n+1, word))
		}
	}
	if f.isTest() {
		faults = append(faults, checkTest(f)...)
	}
	return faults
}

// has reports whether a line holds one of the words. It spares most lines the
// patterns, which are slow over a whole repository.
func has(line string, words ...string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(line, word) })
}

// forbidden returns what does not belong in a line.
func forbidden(line string, papers map[string]bool) (faults []string) {
	if has(line, "DO", "FIX", "XX") {
		if m := unfinished.FindString(line); m != "" {
			faults = append(faults, m+": finish it, or say in words what is left out and why")
		}
	}
	if has(line, "/home", "/root", "/Users", "/work") {
		if m := machine.FindString(line); m != "" {
			faults = append(faults, "a path of one machine: "+strings.TrimSpace(m))
		}
	}
	if has(line, "ssue ", "equest ", "PR ", "icket ") {
		if m := tracker.FindStringSubmatch(line); m != nil && !upstream.MatchString(m[1]) {
			faults = append(faults, m[0]+": explain the reason itself, the number means nothing here")
		}
	}
	if has(line, ".md") {
		for _, m := range paper.FindAllString(line, -1) {
			if strings.HasSuffix(m, ".md") && !strings.Contains(m, "://") && !papers[path.Base(m)] {
				faults = append(faults, m+": the repository has no such document; explain the reason itself")
			}
		}
	}
	return faults
}

// checkTest returns which calls of a test file wait blindly or leave out a test.
// In files that use testing/synctest the time is simulated, and so is a sleep.
func checkTest(f file) (faults []string) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, f.path, f.text, parser.SkipObjectResolution)
	if err != nil {
		return []string{err.Error()}
	}
	simulated := slices.ContainsFunc(parsed.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing/synctest"` })
	ast.Inspect(parsed, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, isIdent := sel.X.(*ast.Ident)
		switch sel.Sel.Name {
		case "Sleep":
			if isIdent && x.Name == "time" && !simulated {
				faults = append(faults, fmt.Sprintf("%s: time.Sleep: wait for the condition itself, with a deadline", set.Position(sel.Pos())))
			}
		case "Skip", "Skipf", "SkipNow":
			faults = append(faults, fmt.Sprintf("%s: %s: a skipped test passes for a green one; let it fail", set.Position(sel.Pos()), sel.Sel.Name))
		}
		return true
	})
	return faults
}

func TestFiles(t *testing.T) {
	files := tree(t)
	papers := map[string]bool{}
	for _, f := range files {
		if path.Ext(f.path) == ".md" {
			papers[path.Base(f.path)] = true
		}
	}
	for _, f := range files {
		for _, fault := range checkFile(f, papers) {
			t.Error(fault)
		}
	}
}

func TestCheckFileFindsFaults(t *testing.T) {
	lines := func(n int) string { return "package x\n" + strings.Repeat("//\n", n-1) }
	call := func(expr string) string { return "package x\nfunc f() { " + expr + " }\n" }
	papers := map[string]bool{"README" + ".md": true}
	for _, tc := range []struct {
		path, text, fault string
	}{
		{"a.go", lines(maxLines), ""},
		{"a.go", lines(maxLines + 1), "401 lines"},
		{"a_test.go", lines(maxTestLines), ""},
		{"a_test.go", lines(maxTestLines + 1), "801 lines"},
		{"a.sh", lines(maxTestLines + 1), ""},
		{"a.pb.go", "// Code generated by protoc. DO NOT EDIT.\n" + lines(maxLines+1), ""},
		{"a.go", "// Code generated by protoc.\n" + lines(maxLines+1), "402 lines"},
		{"a.go", "// TO" + "DO: later\n", "a.go:1: TO" + "DO: finish it"},
		{"a.sh", "\n# FIX" + "ME\n", "a.sh:2: FIX" + "ME"},
		{"a.go", "// X" + "XX\n", "X" + "XX"},
		{"a.go", "// mastodon, prefixmed, XXXL\n", ""},
		{"a.sh", "cd /ho" + "me/ada/evtlog\n", "path of one machine"},
		{"a.go", `open("/ro` + `ot/x")`, "path of one machine"},
		{"a.sh", "at https://example.org/home/x and docs/home/y\n", ""},
		{"a.go", "// see issue " + "#12\n", "the number means nothing"},
		{"a.go", "// see PR " + "7\n", "the number means nothing"},
		{"a.go", "// at issue is 12\n", ""},
		{"a.go", "// see redis issue 12\n", ""},
		{"a.go", "// see README" + ".md, docs/README" + ".md and https://example.org/other.md\n", ""},
		{"a.go", "// see docs/PLAN" + ".md\n", "docs/PLAN" + ".md: the repository has no such document"},
		{"a_test.go", call("time.Sleep(1)"), "a_test.go:2:12: time.Sleep"},
		{"a_test.go", call("g := time.Sleep; g(1)"), "time.Sleep"},
		{"a_test.go", call("clock.Sleep(1)"), ""},
		{"a_test.go", "package x\nimport _ \"testing/synctest\"\nfunc f() { time.Sleep(1) }\n", ""},
		{"a.go", call("time.Sleep(1)"), ""},
		{"a_test.go", call("t.Skip()"), "Skip: a skipped test"},
		{"a_test.go", call(`t.Skipf("x")`), "Skipf: a skipped test"},
		{"a_test.go", call("t.SkipNow()"), "SkipNow: a skipped test"},
		{"a_test.go", "package", "expected"},
	} {
		faults := checkFile(file{tc.path, []byte(tc.text)}, papers)
		switch {
		case tc.fault == "" && len(faults) > 0:
			t.Errorf("%s %.60q: %q", tc.path, tc.text, faults)
		case tc.fault != "" && (len(faults) != 1 || !strings.Contains(faults[0], tc.fault)):
			t.Errorf("%s %.60q: found %q, want %q", tc.path, tc.text, faults, tc.fault)
		}
	}
}
