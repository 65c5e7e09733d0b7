package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const subject = "bench"

// embedded is a JetStream of one or three servers in this process, with a
// connection to the one that leads the stream.
type embedded struct {
	servers []*server.Server
	conn    *nats.Conn
	js      jetstream.JetStream
	stream  jetstream.Stream
}

func (e *embedded) close() {
	if e.conn != nil {
		e.conn.Close()
	}
	for _, s := range e.servers {
		s.Shutdown()
		s.WaitForShutdown()
	}
}

// startJetStream starts the servers and makes a file stream with as many
// replicas. JetStream does not fsync each message.
func startJetStream(ctx context.Context, dir string, replicas int) (*embedded, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	e := &embedded{}
	if err := e.startServers(dir, replicas); err != nil {
		e.close()
		return nil, err
	}
	if err := e.makeStream(ctx, replicas); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

func (e *embedded) startServers(dir string, n int) error {
	routes, err := freePorts(n)
	if err != nil {
		return err
	}
	var urls []string
	for _, port := range routes {
		urls = append(urls, "nats://127.0.0.1:"+strconv.Itoa(port))
	}
	for i := range n {
		o := &server.Options{
			ServerName: fmt.Sprint("n", i), Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true,
			JetStream: true, StoreDir: filepath.Join(dir, fmt.Sprint("nats", i)),
		}
		if n > 1 {
			o.Cluster = server.ClusterOpts{Name: "bench", Host: "127.0.0.1", Port: routes[i]}
			o.Routes = server.RoutesFromStr(strings.Join(urls, ","))
		}
		s, err := server.NewServer(o)
		if err != nil {
			return err
		}
		e.servers = append(e.servers, s)
		s.Start()
	}
	for _, s := range e.servers {
		if !s.ReadyForConnections(20 * time.Second) {
			return errors.New("a NATS server did not get ready")
		}
	}
	return nil
}

func freePorts(n int) (ports []int, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// makeStream makes the stream as soon as the cluster has a leader, and connects
// to the server that leads it.
func (e *embedded) makeStream(ctx context.Context, replicas int) error {
	cfg := jetstream.StreamConfig{Name: "BENCH", Subjects: []string{subject}, Storage: jetstream.FileStorage, Replicas: replicas}
	if err := e.connect(e.servers[0]); err != nil {
		return err
	}
	for {
		// Before the cluster has a leader nobody answers.
		try, cancel := context.WithTimeout(ctx, time.Second)
		stream, err := e.js.CreateStream(try, cfg)
		cancel()
		if err == nil {
			e.stream = stream
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("make the stream: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
	for _, s := range e.servers {
		cluster := e.stream.CachedInfo().Cluster
		if cluster == nil || cluster.Leader != s.Name() || s == e.servers[0] {
			continue
		}
		e.conn.Close()
		if err := e.connect(s); err != nil {
			return err
		}
		var err error
		e.stream, err = e.js.Stream(ctx, cfg.Name)
		return err
	}
	return nil
}

// stall is how long a publication may wait for one of those before it.
const stall = 30 * time.Second

// window is how many publications may be on their way at a time.
const window = 4096

func (e *embedded) connect(s *server.Server) (err error) {
	if e.conn, err = nats.Connect("", nats.InProcessServer(s)); err != nil {
		return err
	}
	e.js, err = jetstream.New(e.conn, jetstream.WithPublishAsyncMaxPending(window))
	return err
}

// check compares what the stream holds with what was published.
func (e *embedded) check(ctx context.Context, records int) error {
	info, err := e.stream.Info(ctx)
	if err != nil {
		return err
	}
	if info.State.Msgs != uint64(records) {
		return fmt.Errorf("the stream holds %d messages after %d were published", info.State.Msgs, records)
	}
	return nil
}

// jetstreamPublish publishes to one file replica from many goroutines, each
// waiting for its acknowledgement.
func jetstreamPublish(ctx context.Context, j job) (Result, error) {
	e, err := startJetStream(ctx, j.dir, 1)
	if err != nil {
		return Result{}, err
	}
	defer e.close()
	result, err := called(j.records, j.callers, func() error {
		_, err := e.js.Publish(ctx, subject, payload)
		return err
	})
	if err != nil {
		return result, err
	}
	return result, e.check(ctx, result.Records)
}

// jetstreamAsync publishes to three file replicas without waiting for each
// acknowledgement, and then for all.
func jetstreamAsync(ctx context.Context, j job) (Result, error) {
	e, err := startJetStream(ctx, j.dir, 3)
	if err != nil {
		return Result{}, err
	}
	defer e.close()
	result, err := timed(j.records, nil, func() error { return e.publishAll(ctx, j.records) })
	if err != nil {
		return result, err
	}
	return result, e.check(ctx, j.records)
}

func (e *embedded) publishAll(ctx context.Context, records int) error {
	for range records {
		if _, err := e.js.PublishAsync(subject, payload, jetstream.WithStallWait(stall)); err != nil {
			return err
		}
	}
	select {
	case <-e.js.PublishAsyncComplete():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// jetstreamConsume fetches 1,000 at a time and acknowledges each.
func jetstreamConsume(ctx context.Context, j job) (Result, error) {
	e, err := startJetStream(ctx, j.dir, 1)
	if err != nil {
		return Result{}, err
	}
	defer e.close()
	if err := e.publishAll(ctx, j.records); err != nil {
		return Result{}, err
	}
	consumer, err := e.stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: "c", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 20_000,
	})
	if err != nil {
		return Result{}, err
	}
	return timed(j.records, nil, func() error {
		for seen := 0; seen < j.records; {
			batch, err := consumer.Fetch(1000, jetstream.FetchMaxWait(5*time.Second))
			if err != nil {
				return err
			}
			for m := range batch.Messages() {
				if err := m.Ack(); err != nil {
					return err
				}
				seen++
			}
			if err := batch.Error(); err != nil {
				return err
			}
		}
		return e.conn.Flush()
	})
}
