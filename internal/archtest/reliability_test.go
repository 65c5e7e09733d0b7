package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// reliability is the document whose tables name tests.
const reliability = "docs/reliability.md"

var (
	faultID   = regexp.MustCompile(`^[A-Z]\d\d$`)
	namedTest = regexp.MustCompile("`([\\w./-]+)\\.(Test\\w+)`")
)

// faultRow is one row of a table in the document.
type faultRow struct {
	id, state string
	tests     [][2]string // folder and name
	open      string
}

// faultRows reads the tables.
func faultRows(text string) (rows []faultRow) {
	for line := range strings.SplitSeq(text, "\n") {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != 5 || !faultID.MatchString(strings.TrimSpace(cells[0])) {
			continue
		}
		r := faultRow{id: strings.TrimSpace(cells[0]), state: strings.TrimSpace(cells[2]), open: cells[4]}
		for _, m := range namedTest.FindAllStringSubmatch(cells[3], -1) {
			r.tests = append(r.tests, [2]string{m[1], m[2]})
		}
		rows = append(rows, r)
	}
	return rows
}

// checkFaultRows returns what is wrong with the rows. tests are the tests that
// there are, by folder.
func checkFaultRows(rows []faultRow, tests map[string]map[string]bool) (faults []string) {
	seen := map[string]bool{}
	for _, r := range rows {
		if seen[r.id] {
			faults = append(faults, r.id+" has two rows")
		}
		seen[r.id] = true
		switch {
		case !slices.Contains([]string{"covered", "in part", "does not apply"}, r.state):
			faults = append(faults, fmt.Sprintf("%s: the state %q is none of covered, in part, does not apply", r.id, r.state))
		case len(r.tests) == 0:
			faults = append(faults, r.id+" names no test")
		case r.state == "in part" && !strings.Contains(r.open, "Open: "):
			faults = append(faults, r.id+" does not say what is open")
		}
		for _, t := range r.tests {
			if !tests[t[0]][t[1]] {
				faults = append(faults, fmt.Sprintf("%s names %s in %s, and there is no such test", r.id, t[1], t[0]))
			}
		}
	}
	return faults
}

var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)

// testsByFolder lists the tests of the module.
func testsByFolder(files []file) map[string]map[string]bool {
	tests := map[string]map[string]bool{}
	for _, f := range files {
		if !f.isTest() {
			continue
		}
		for _, m := range testFunc.FindAllSubmatch(f.text, -1) {
			folder := path.Dir(f.path)
			if tests[folder] == nil {
				tests[folder] = map[string]bool{}
			}
			tests[folder][string(m[1])] = true
		}
	}
	return tests
}

func TestReliabilityTable(t *testing.T) {
	files := tree(t)
	at := slices.IndexFunc(files, func(f file) bool { return f.path == reliability })
	if at < 0 {
		t.Fatal(reliability + " is not there")
	}
	rows := faultRows(string(files[at].text))
	if len(rows) < 40 {
		t.Errorf("only %d rows were found", len(rows))
	}
	for _, fault := range checkFaultRows(rows, testsByFolder(files)) {
		t.Error(fault)
	}
}

func TestReliabilityTableFindsFaults(t *testing.T) {
	tests := map[string]map[string]bool{"a/b": {"TestX": true}}
	for row, want := range map[string]string{
		"| A01 | x | covered | `a/b.TestX` | y |":                                          "",
		"| A01 | x | in part | `a/b.TestX` | y. Open: z |":                                 "",
		"| A01 | x | in part | `a/b.TestX` | y |":                                          "what is open",
		"| A01 | x | covered | `a/b.TestY` | y |":                                          "no such test",
		"| A01 | x | covered | `a.TestX` `a/b.TestX` | y |":                                "no such test",
		"| A01 | x | covered | TestX | y |":                                                "names no test",
		"| A01 | x | mostly | `a/b.TestX` | y |":                                           `the state "mostly"`,
		"| A01 | x | covered | `a/b.TestX` | y |\n| A01 | x | covered | `a/b.TestX` | y |": "two rows",
	} {
		faults := checkFaultRows(faultRows(row), tests)
		if want == "" && len(faults) > 0 || want != "" && (len(faults) != 1 || !strings.Contains(faults[0], want)) {
			t.Errorf("%s: %q, want %q", row, faults, want)
		}
	}
	if rows := faultRows("| Id | Fault | State | Tests | Open |\n|---|---|---|---|---|\ntext\n"); len(rows) != 0 {
		t.Errorf("a head is no row: %+v", rows)
	}
}

// dangerous are commands that no code here may send, and why.
var dangerous = map[string]string{
	"XDEL":   "with trims it makes servers of version 8 write snapshots that they cannot load, and a read cannot tell the hole",
	"XSETID": "set low, it makes snapshots that cannot be loaded and lets ids go back",
	"KEYS":   "it blocks the server: scan",
}

// literals returns the string literals of a file that match.
func literals(f file, match func(s string) bool) (found []string) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, f.path, f.text, parser.SkipObjectResolution)
	if err != nil {
		return []string{err.Error()}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil && match(s) {
				found = append(found, fmt.Sprintf("%s: %s", set.Position(lit.Pos()), s))
			}
		}
		return true
	})
	return found
}

func isDangerous(s string) bool { return dangerous[strings.ToUpper(s)] != "" }

func TestNoDangerousCommands(t *testing.T) {
	for _, f := range tree(t) {
		if !f.isGo() || f.isTest() || generated.Match(f.text) {
			continue
		}
		for _, found := range literals(f, isDangerous) {
			_, name, _ := strings.Cut(found, ": ")
			t.Errorf("%s: %s", found, dangerous[strings.ToUpper(name)])
		}
	}
	bad := file{"a.go", []byte("package a\nvar x = []string{\"XDEL\", `keys`, \"XDELX\"}\n")}
	if found := literals(bad, isDangerous); len(found) != 2 || found[0] != "a.go:2:18: XDEL" {
		t.Errorf("of two commands that are not allowed %q were found", found)
	}
}

// TestOnlyTheActorPackageIsUsed: the actor library's cluster and remote parts
// keep state of their own, which grows.
func TestOnlyTheActorPackageIsUsed(t *testing.T) {
	found := 0
	for _, f := range tree(t) {
		if !f.isGo() || f.path == "internal/archtest/table_test.go" {
			continue
		}
		for _, l := range literals(f, within(protoactor)) {
			found++
			if !strings.HasSuffix(l, ": "+protoactor+"/actor") {
				t.Errorf("%s: only its package actor is used here", l)
			}
		}
	}
	if found == 0 {
		t.Error("nothing imports the library: the check looks at the wrong name")
	}
}
