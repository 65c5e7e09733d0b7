package evtlog

import "testing"

func BenchmarkCheckFields(b *testing.B) {
	fields := []Field{F("event", "scored"), F("game", "3f1d8c52-6b0e-4f6f-9c55-52a7a1c0a1de"), F("body", "0123456789012345678901234567890123456789")}
	b.ReportAllocs()
	for b.Loop() {
		if err := CheckFields(fields, 0); err != nil {
			b.Fatal(err)
		}
	}
}
