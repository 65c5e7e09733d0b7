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

// BenchmarkConsumeTogether is BenchmarkConsume with four workers and a key of
// ten values: what handing entries to workers costs when handlers do nothing.
func BenchmarkConsumeTogether(b *testing.B) {
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
	c, err := New(Config{
		Stream: stream, Group: testGroup, Name: "a", Start: FromHead, Workers: 4,
		Key: func(d evtlog.Delivery) string { return "0123456789"[d.ID.Snowflake()%10:][:1] },
		Handler: func(context.Context, evtlog.Delivery) error {
			if handled.Add(1) == int64(b.N) {
				close(done)
			}
			return nil
		},
	}, log, nil, func(context.Context, ...evtlog.Field) (evtid.ID, error) { return evtid.ID{}, nil })
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
