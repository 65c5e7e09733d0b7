package archive

import "testing"

// step keeps the compiler from leaving the decision out.
var step Step

func BenchmarkDecidePage(b *testing.B) {
	f := PageFacts{Cursor: at(5), To: at(9000), Records: 1000, Asked: 1000, Last: at(2000), Proof: Proof{Floor: at(5)}}
	b.ReportAllocs()
	for b.Loop() {
		step = DecidePage(f)
	}
}

func BenchmarkDecideBelow(b *testing.B) {
	f := BelowFacts{After: at(5), High: at(2000), Proof: Proof{Floor: at(5)}}
	b.ReportAllocs()
	for b.Loop() {
		step = DecideBelow(f)
	}
}
