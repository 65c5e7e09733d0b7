package publisher_test

import (
	"context"
	"strconv"
	"sync"
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/publisher"
	"github.com/evtlog/evtlog/internal/redistest"
)

func benchFields() []evtlog.Field {
	return []evtlog.Field{evtlog.F("event", "scored"), evtlog.F("game", "4242424242"), evtlog.F("body", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx")}
}

func BenchmarkAppend(b *testing.B) {
	for _, callers := range []int{1, 64, 1024} {
		b.Run("callers="+strconv.Itoa(callers), func(b *testing.B) {
			p := running(b, redistest.Start(b), publisher.Config{})
			fields := benchFields()
			ctx := b.Context()
			b.ReportAllocs()
			b.ResetTimer()
			spread(b, callers, func(n int) {
				for range n {
					if _, err := p.Append(ctx, fields[0], fields[1], fields[2]); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
		})
	}
}

func BenchmarkAnnounce(b *testing.B) {
	for _, callers := range []int{1, 1024} {
		b.Run("callers="+strconv.Itoa(callers), func(b *testing.B) {
			p := running(b, redistest.Start(b), publisher.Config{})
			fields := benchFields()
			ctx := b.Context()
			b.ReportAllocs()
			b.ResetTimer()
			spread(b, callers, func(n int) {
				for range n {
					if _, err := p.Announce(ctx, "scored", "JOB0KHTOWnGLuC", fields[1], fields[2]); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "announces/s")
		})
	}
}

func BenchmarkAppendBatch(b *testing.B) {
	p := running(b, redistest.Start(b), publisher.Config{})
	records := make([][]evtlog.Field, 256)
	for i := range records {
		records[i] = benchFields()
	}
	ctx := context.Background()
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if _, err := p.AppendBatch(ctx, records); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(256*b.N)/b.Elapsed().Seconds(), "records/s")
}

// spread divides b.N calls among the callers.
func spread(b *testing.B, callers int, work func(n int)) {
	var wg sync.WaitGroup
	for i := range callers {
		n := b.N / callers
		if i < b.N%callers {
			n++
		}
		if n > 0 {
			wg.Go(func() { work(n) })
		}
	}
	wg.Wait()
}
