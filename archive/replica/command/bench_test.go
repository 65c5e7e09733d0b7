package command

import (
	"testing"

	"github.com/evtlog/evtlog"
)

// benchFold is an entry of the size that a full fold has: 1,000 records.
func benchFold() Command {
	return Command{Op: OpFold, Stream: evtlog.StreamName{Queue: "cm", Name: "scores"}, Body: make([]byte, 130_000)}
}

func BenchmarkAppend(b *testing.B) {
	c := benchFold()
	buf := c.Append(nil)
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		buf = c.Append(buf[:0])
	}
}

func BenchmarkDecode(b *testing.B) {
	encoded := benchFold().Append(nil)
	b.SetBytes(int64(len(encoded)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(encoded); err != nil {
			b.Fatal(err)
		}
	}
}
