package evtid_test

import (
	"testing"

	"github.com/evtlog/evtlog/evtid"
)

// work is what an append and a read do with ids for each record.
func work(t testing.TB) map[string]func() {
	m := newMinter(t, evtid.MinterConfig{Node: 7})
	id := parse(t, "EVT0KHTOWnGLuC")
	buf := make([]byte, 0, 64)
	branded, entry := []byte(id.String()), []byte(id.Entry())
	text, entryText := id.String(), id.Entry()
	return map[string]func(){
		"AppendTo":          func() { id.AppendTo(buf) },
		"AppendEntry":       func() { id.AppendEntry(buf) },
		"AppendEntryOfZero": func() { evtid.ID{}.AppendEntry(buf) },
		"Parse":             func() { check(evtid.Parse(branded)) },
		"ParseString":       func() { check(evtid.Parse(text)) },
		"ParseEntry":        func() { check(evtid.ParseEntry(entry)) },
		"ParseEntryString":  func() { check(evtid.ParseEntry(entryText)) },
		"Mint":              func() { check(m.Mint()) },
		"MintAndBothForms": func() {
			id, err := m.Mint()
			check(id, err)
			id.AppendTo(buf)
			id.AppendEntry(buf)
		},
	}
}

func check(_ evtid.ID, err error) {
	if err != nil {
		panic(err)
	}
}

func TestNoAllocations(t *testing.T) {
	for name, f := range work(t) {
		if n := testing.AllocsPerRun(1000, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

func Benchmark(b *testing.B) {
	for name, f := range work(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
		})
	}
}

func BenchmarkMintParallel(b *testing.B) {
	m := newMinter(b, evtid.MinterConfig{})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			check(m.Mint())
		}
	})
}
