package volume

import (
	"testing"
)

func TestDecideApply(t *testing.T) {
	at := func(i, term uint64) Position { return Position{Index: i, Term: term} }
	tests := []struct {
		name string
		f    applyFacts
		want Verdict
	}{
		{"local, from the watermark", applyFacts{intact: true, wellFormed: true, prev: id(3), watermark: id(3)}, Applied},
		{"local, into nothing", applyFacts{intact: true, wellFormed: true}, Applied},
		{"local, repeated", applyFacts{intact: true, wellFormed: true, prev: id(2), watermark: id(3), repeated: true}, Duplicate},
		{"local, stale", applyFacts{intact: true, wellFormed: true, prev: id(2), watermark: id(3)}, Conflict},
		{"local, ahead", applyFacts{intact: true, wellFormed: true, prev: id(4), watermark: id(3)}, Conflict},
		{"a damaged volume comes first", applyFacts{wellFormed: true, at: at(1, 1), own: at(2, 2)}, Corrupt},
		{"bad bytes", applyFacts{intact: true}, Malformed},
		{"next in the log", applyFacts{intact: true, wellFormed: true, at: at(9, 2), own: at(7, 2)}, Applied},
		{"next in a later term", applyFacts{intact: true, wellFormed: true, at: at(9, 3), own: at(7, 2)}, Applied},
		{"next in the log, stale", applyFacts{intact: true, wellFormed: true, at: at(9, 2), own: at(7, 2), prev: id(1), watermark: id(2)}, Conflict},
		{"next in the log, repeated", applyFacts{intact: true, wellFormed: true, at: at(9, 2), own: at(7, 2), prev: id(1), watermark: id(2), repeated: true}, Duplicate},
		{"next in the log, bad bytes", applyFacts{intact: true, at: at(9, 2), own: at(7, 2)}, Malformed},
		{"the same entry again", applyFacts{intact: true, wellFormed: true, at: at(7, 2), own: at(7, 2), prev: id(1), watermark: id(1)}, Skipped},
		{"an older entry again", applyFacts{intact: true, wellFormed: true, at: at(5, 1), own: at(7, 2)}, Skipped},
		{"an older entry again, bad bytes", applyFacts{intact: true, at: at(5, 1), own: at(7, 2)}, Skipped},
		{"the same index of another term", applyFacts{intact: true, wellFormed: true, at: at(7, 3), own: at(7, 2)}, Rewritten},
		{"the same index of an older term", applyFacts{intact: true, wellFormed: true, at: at(7, 1), own: at(7, 2)}, Rewritten},
		{"a lower index of a later term", applyFacts{intact: true, wellFormed: true, at: at(5, 3), own: at(7, 2)}, Rewritten},
		{"a higher index of an older term", applyFacts{intact: true, wellFormed: true, at: at(9, 1), own: at(7, 2)}, Rewritten},
	}
	for _, tt := range tests {
		if got := decideApply(tt.f); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestDecideAdopt(t *testing.T) {
	a, b := [32]byte{1}, [32]byte{2}
	tests := []struct {
		name string
		f    adoptFacts
		want Verdict
	}{
		{"the first", adoptFacts{intact: true, wellFormed: true, lsn: 1, chain: a, own: a}, Applied},
		{"the next", adoptFacts{intact: true, wellFormed: true, lsn: 5, head: 4, prev: id(3), watermark: id(3), chain: a, own: a}, Applied},
		{"the next of another history", adoptFacts{intact: true, wellFormed: true, lsn: 5, head: 4, prev: id(3), watermark: id(3), chain: a, own: b}, Diverged},
		{"the next from another watermark", adoptFacts{intact: true, wellFormed: true, lsn: 5, head: 4, prev: id(2), watermark: id(3), chain: a, own: a}, Diverged},
		{"one that is there", adoptFacts{intact: true, wellFormed: true, lsn: 4, head: 4, prev: id(1), watermark: id(3), chain: a, own: a}, Duplicate},
		{"an old one of another history", adoptFacts{intact: true, wellFormed: true, lsn: 2, head: 4, chain: a, own: b}, Diverged},
		{"one too far", adoptFacts{intact: true, wellFormed: true, lsn: 6, head: 4, chain: a, own: b}, Gap},
		{"without a number", adoptFacts{intact: true, wellFormed: true}, Malformed},
		{"bad bytes", adoptFacts{intact: true, lsn: 1, chain: a, own: a}, Malformed},
		{"a damaged volume comes first", adoptFacts{wellFormed: true, lsn: 9}, Corrupt},
	}
	for _, tt := range tests {
		if got := decideAdopt(tt.f); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestDecideFate(t *testing.T) {
	for _, tt := range []struct {
		full, visible bool
		want          writeFate
	}{{true, false, fateFull}, {true, true, fateUnknown}, {false, false, fateUnknown}, {false, true, fateUnknown}} {
		if got := decideFate(tt.full, tt.visible); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

func TestVerdictNames(t *testing.T) {
	seen := map[string]bool{}
	for v := Applied; v <= Gap; v++ {
		if seen[v.String()] || v.String() == "" {
			t.Errorf("verdict %d has the name %q", v, v)
		}
		seen[v.String()] = true
	}
}
