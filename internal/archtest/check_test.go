package archtest

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// pkg is what the go command says about one package.
type pkg struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
	Error        *struct{ Err string }
}

// local returns the path inside the module, "." for its root.
func local(importPath string) (string, bool) {
	if importPath == modulePath {
		return ".", true
	}
	return strings.CutPrefix(importPath, modulePath+"/")
}

// within returns whether a package belongs to a module or folder.
func within(module string) func(string) bool {
	return func(dep string) bool { return dep == module || strings.HasPrefix(dep, module+"/") }
}

// standard reports whether a package is of the standard library, whose paths
// have no dot in the first element.
func standard(dep string) bool {
	first, _, _ := strings.Cut(dep, "/")
	return !strings.Contains(first, ".")
}

func thirdParty(dep string) bool {
	_, ours := local(dep)
	return !ours && !standard(dep)
}

// covers reports whether pattern stands for the package at p.
func covers(pattern, p string) bool {
	base, dots := strings.CutSuffix(pattern, "...")
	if !dots {
		return pattern == p
	}
	base = strings.TrimSuffix(base, "/")
	return base == "" || within(base)(p)
}

// rowFor returns the most specific row for the package at p.
func rowFor(rows []row, p string) (best row, ok bool) {
	for _, r := range rows {
		if covers(r.path, p) && (!ok || r.path == p || best.path != p && len(r.path) > len(best.path)) {
			best, ok = r, true
		}
	}
	return best, ok
}

// checkImports returns what a package imports against the table.
func checkImports(rows []row, p pkg) (faults []string) {
	at, ours := local(p.ImportPath)
	if !ours {
		return []string{p.ImportPath + " is not of this module"}
	}
	r, ok := rowFor(rows, at)
	if !ok {
		return []string{at + " has no row in the import table: add one that says what it may import"}
	}
	for _, dep := range p.Imports {
		if why := refuse(r, at, dep); why != "" {
			faults = append(faults, fmt.Sprintf("%s imports %s: %s", at, dep, why))
		}
	}
	for _, dep := range slices.Concat(p.TestImports, p.XTestImports) {
		if why := refuseInTest(r, at, dep); why != "" {
			faults = append(faults, fmt.Sprintf("a test of %s imports %s: %s", at, dep, why))
		}
	}
	return faults
}

// refuse says why a package with row r may not import dep, or "".
func refuse(r row, at, dep string) string {
	target, ours := local(dep)
	switch {
	case ours && siblings(at, target):
		return "actors do not know each other; declare a small interface and let runtime wire them"
	case ours && !slices.ContainsFunc(r.may, func(pattern string) bool { return covers(pattern, target) }):
		return "its row in the import table does not allow it"
	case thirdParty(dep) && !slices.ContainsFunc(r.third, func(module string) bool { return within(module)(dep) }):
		return "its row in the import table names no such module"
	case r.pure && slices.Contains(impure, dep):
		return "the package does no I/O"
	}
	return ""
}

// refuseInTest says why a test may not import dep, or "".
func refuseInTest(r row, at, dep string) string {
	if target, ours := local(dep); ours {
		if siblings(at, target) {
			return "actors do not know each other, in tests neither"
		}
		return ""
	}
	allowed := slices.Concat(testLibraries, r.third, r.tests)
	if thirdParty(dep) && !slices.ContainsFunc(allowed, func(module string) bool { return within(module)(dep) }) {
		return "neither a test library nor in its row of the import table"
	}
	return ""
}

// siblings reports whether a and b are two different actors.
func siblings(a, b string) bool {
	actor := func(p string) string {
		rest, ok := strings.CutPrefix(p, "actors/")
		name, _, _ := strings.Cut(rest, "/")
		if !ok || name == "supervise" || name == "internal" {
			return ""
		}
		return name
	}
	return actor(a) != "" && actor(b) != "" && actor(a) != actor(b)
}

// checkOwners returns which rows name a module that belongs to others.
func checkOwners(rows []row, owners map[string][]string) (faults []string) {
	for _, r := range rows {
		for _, module := range slices.Concat(r.third, r.tests) {
			if owned, ok := owners[module]; ok && !slices.Contains(owned, r.path) {
				faults = append(faults, fmt.Sprintf("the row of %s names %s, which belongs to %v", r.path, module, owned))
			}
		}
	}
	return faults
}

// checkLinks returns which of the packages in deps are banned.
func checkLinks(at string, deps []string, banned func(string) bool, why string) (faults []string) {
	for _, dep := range deps {
		if banned(dep) {
			faults = append(faults, fmt.Sprintf("%s links %s: %s", at, dep, why))
		}
	}
	return faults
}

// importPath is the inverse of local.
func importPath(at string) string { return path.Join(modulePath, at) }
