package streamconsumer

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/redislog"
)

// BenchmarkConsume is one member with a handler that does nothing, COUNT 100,
// every entry acknowledged; entries of an id field plus three fields with about
// 120 bytes. One operation is one entry.
func BenchmarkConsume(b *testing.B) { consumeAll(b, func(*Config) {}) }

// BenchmarkConsumeTogether is the same with four workers and a key of ten values:
// what handing entries to workers costs when handlers do nothing.
func BenchmarkConsumeTogether(b *testing.B) {
	consumeAll(b, func(c *Config) {
		c.Workers = 4
		c.Key = func(d evtlog.Delivery) string { return "0123456789"[d.ID.Snowflake()%10:][:1] }
	})
}

func consumeAll(b *testing.B, change func(*Config)) {
	server := redistest.Start(b)
	client, err := redislog.Open(b.Context(), redislog.Config{URL: server.URL()})
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	stream := testStream(b)
	log := client.Log(stream)
	fill(b, log, b.N)
	var handled atomic.Int64
	done := make(chan struct{})
	cfg := Config{
		Stream: stream, Group: testGroup, Name: "a", Start: FromHead,
		Handler: func(context.Context, evtlog.Delivery) error {
			if handled.Add(1) == int64(b.N) {
				close(done)
			}
			return nil
		},
	}
	change(&cfg)
	c, err := New(cfg, log, nil, func(context.Context, ...evtlog.Field) (evtid.ID, error) { return evtid.ID{}, nil })
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error)
	b.ReportAllocs()
	b.ResetTimer()
	go func() { ended <- newRunner(c).Run(ctx, func() {}) }()
	<-done
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "entries/s")
	stop()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
	if n, _, _, err := log.PendingSummary(context.Background(), testGroup); n != 0 || err != nil {
		b.Fatalf("%d entries left pending, %v", n, err)
	}
}

// fill appends n records of about 120 bytes.
func fill(b *testing.B, log *redislog.Log, n int) {
	writer, err := log.NewWriter(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer writer.Close()
	minter, err := evtid.NewMinter(evtid.MinterConfig{MaxSkew: 1 << 62})
	if err != nil {
		b.Fatal(err)
	}
	fields := []evtlog.Field{
		evtlog.F("event", "scored"),
		evtlog.F("game", "0123456789012345678901234567890123456789"),
		evtlog.F("payload", "01234567890123456789012345678901234567890123456789"),
	}
	ids := make([]evtid.ID, 0, 256)
	for n > 0 {
		ids = ids[:0]
		for range min(n, cap(ids)) {
			id, err := minter.Mint()
			if err != nil {
				b.Fatal(err)
			}
			writer.Append(id, fields)
			ids = append(ids, id)
		}
		if err := writer.Flush(); err != nil {
			b.Fatal(err)
		}
		for _, id := range ids {
			if err := writer.ReceiveAppend(id); err != nil {
				b.Fatal(err)
			}
		}
		n -= len(ids)
	}
}
