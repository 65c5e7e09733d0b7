package redislog

import (
	"bytes"

	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

// The record of the benchmarks: about 120 bytes in an id field and three fields.
var benchFields = []evtlog.Field{
	evtlog.F("event", "scored"), evtlog.F("game", "game-000017-season-2025"), evtlog.F("note", "0123456789012345678901234567890123456789012345678901"),
}

// BenchmarkAppendEncode is the cost of an append before the network.
func BenchmarkAppendEncode(b *testing.B) {
	w := &Writer{w: newWire(nil, "", 0), head: appendBulk(appendBulk(nil, "XADD"), "emq:{cm}:stream:feed")}
	id := at(1)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		w.Append(id, benchFields)
		if i%256 == 255 {
			w.w.out = w.w.out[:0]
		}
	}
}

// BenchmarkReceiveAppend is the cost of its answer after the network.
func BenchmarkReceiveAppend(b *testing.B) {
	id := at(1)
	answers := bytes.Repeat(appendBulk(nil, id.Entry()), 256)
	src := &endless{data: answers}
	w := &Writer{w: newWire(nil, "", 0)}
	w.w.in = newReader(src)
	b.ReportAllocs()
	for b.Loop() {
		w.w.unanswered++
		if !w.accepted(id) {
			h, err := w.w.answer("")
			if err == nil {
				err = w.checkReceipt(h, id)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

// endless repeats its data for ever.
type endless struct {
	data []byte
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.data[e.at:])
	e.at = (e.at + n) % len(e.data)
	return n, nil
}

// BenchmarkDecodeEntry is one entry from the read buffer to its fields.
func BenchmarkDecodeEntry(b *testing.B) {
	id := at(1)
	words := []string{"id", id.String()}
	for _, f := range benchFields {
		words = append(words, f.Name, f.Value)
	}
	rd := newReader(&endless{data: bytes.Repeat([]byte(wireEntry(id.Entry(), words...)), 100)})
	b.ReportAllocs()
	for b.Loop() {
		if _, ok, err := rd.entry(); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}

// fillBench appends n records of the benchmark's size from first on.
func fillBench(b *testing.B, w *Writer, first, n int) {
	b.Helper()
	for done := 0; done < n; {
		batch := min(256, n-done)
		for i := range batch {
			w.Append(at(first+done+i), benchFields)
		}
		if err := w.Flush(); err != nil {
			b.Fatal(err)
		}
		for i := range batch {
			if err := w.ReceiveAppend(at(first + done + i)); err != nil {
				b.Fatal(err)
			}
		}
		done += batch
	}
}

// BenchmarkAppend is a batch of 256 on a real server, one flush in flight.
func BenchmarkAppend(b *testing.B) {
	_, l := realLog(b)
	w := writerOf(b, l)
	n := 1
	b.ReportAllocs()
	for b.Loop() {
		fillBench(b, w, n, 256)
		n += 256
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkConsume reads 100 new entries and acknowledges them with the next
// read.
func BenchmarkConsume(b *testing.B) {
	_, l := realLog(b)
	w := writerOf(b, l)
	const count = 100
	n := count * 2000
	fillBench(b, w, 1, n)
	created, err := l.CreateGroup(b.Context(), "g", Head())
	if err != nil || !created {
		b.Fatal(created, err)
	}
	g := readerOf(b, l, "g", "c")
	read := 0
	b.ReportAllocs()
	for b.Loop() {
		entries, err := g.ReadNew(count, 0)
		if err != nil {
			b.Fatal(err)
		}
		if len(entries) == 0 {
			b.StopTimer()
			fillBench(b, w, n+1, n)
			n *= 2
			b.StartTimer()
		}
		for _, e := range entries {
			g.Ack(e.ID)
		}
		read += len(entries)
	}
	b.ReportMetric(float64(read)/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkPage reads 1,000 records, against the same pages through redigo.
func BenchmarkPage(b *testing.B) {
	srv, l := realLog(b)
	const n = 1000
	fillBench(b, writerOf(b, l), 1, n)
	b.Run("own", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			page, _, err := l.Page(b.Context(), evtid.ID{}, evtid.Max, n)
			if err != nil || len(page) != n {
				b.Fatal(len(page), err)
			}
		}
	})
	b.Run("redigo", func(b *testing.B) {
		conn, err := redis.Dial("tcp", srv.Addr)
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
		b.ReportAllocs()
		for b.Loop() {
			page, err := redis.Values(conn.Do("XRANGE", l.stream.Key(), "-", "+", "COUNT", n))
			if err != nil || len(page) != n {
				b.Fatal(len(page), err)
			}
		}
	})
}

// BenchmarkShortCommand is a pooled round trip with its deadline and context.
func BenchmarkShortCommand(b *testing.B) {
	_, l := realLog(b)
	fillBench(b, writerOf(b, l), 1, 1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Last(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// TestDecodeAllocations holds the decoder to one string and one slice an entry.
func TestDecodeAllocations(t *testing.T) {
	id := at(1)
	for _, c := range []struct {
		words []string
		want  float64
	}{
		{[]string{"id", id.String(), "a", "1", "b", "2", "c", "3"}, 2},
		{[]string{"a", "1"}, 2},
		{[]string{"id", id.String()}, 0},
	} {
		rd := newReader(&endless{data: bytes.Repeat([]byte(wireEntry(id.Entry(), c.words...)), 100)})
		got := testing.AllocsPerRun(1000, func() {
			if _, ok, err := rd.entry(); !ok || err != nil {
				t.Fatal(ok, err)
			}
		})
		if got > c.want {
			t.Errorf("%v: %v allocations", c.words, got)
		}
	}
}
