package streamconsumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/redislog"
)

// patience is how long a test waits for something that must happen.
const patience = 20 * time.Second

const testGroup = "notify"

// world is a real server with one stream.
type world struct {
	t      *testing.T
	server *redistest.Server
	client *redislog.Client
	log    *redislog.Log
	stream keyspace.Stream
	minter *evtid.Minter
}

func newWorld(t *testing.T, args ...string) *world {
	t.Helper()
	server := redistest.Start(t, args...)
	w := &world{t: t, server: server, stream: testStream(t)}
	w.client = w.open(redislog.Config{URL: server.URL()})
	w.log = w.client.Log(w.stream)
	minter, err := evtid.NewMinter(evtid.MinterConfig{Node: 7})
	if err != nil {
		t.Fatal(err)
	}
	w.minter = minter
	return w
}

func testStream(t testing.TB) keyspace.Stream {
	stream, err := keyspace.NewStream("cm", "feed")
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

func (w *world) open(cfg redislog.Config) *redislog.Client {
	w.t.Helper()
	client, err := redislog.Open(w.t.Context(), cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = client.Close() })
	return client
}

// append appends n records with a running number in field n and returns their ids.
func (w *world) append(n int) []evtid.ID {
	w.t.Helper()
	ids := make([]evtid.ID, n)
	for i := range ids {
		id, err := w.minter.Mint()
		if err != nil {
			w.t.Fatal(err)
		}
		w.put(w.log, id, evtlog.F("n", fmt.Sprint(i)))
		ids[i] = id
	}
	return ids
}

func (w *world) put(log *redislog.Log, id evtid.ID, fields ...evtlog.Field) {
	w.t.Helper()
	if err := putRecord(w.t.Context(), log, id, fields...); err != nil {
		w.t.Fatal(err)
	}
}

func putRecord(ctx context.Context, log *redislog.Log, id evtid.ID, fields ...evtlog.Field) error {
	writer, err := log.NewWriter(ctx)
	if err != nil {
		return err
	}
	defer writer.Close()
	writer.Append(id, fields)
	if err := writer.Flush(); err != nil {
		return err
	}
	return writer.ReceiveAppend(id)
}

// records reads the whole live part of a log.
func (w *world) records(log *redislog.Log) []evtlog.Record {
	w.t.Helper()
	page, _, err := log.Page(w.t.Context(), evtid.ID{}, evtid.Max, 10_000)
	if err != nil {
		w.t.Fatal(err)
	}
	return page
}

// pending lists what the group has pending; nothing when there is no group.
func (w *world) pending() []redislog.PendingEntry {
	w.t.Helper()
	page, err := w.log.Pending(w.t.Context(), testGroup, evtid.ID{}, 10_000, "", 0)
	if err != nil && !errors.Is(err, evtlog.ErrNoGroup) {
		w.t.Fatal(err)
	}
	return page
}

// abandon makes the group, has a member read count entries, and drops its
// connection without an acknowledgement, as a crash does.
func (w *world) abandon(member string, count int) []redislog.Entry {
	w.t.Helper()
	if _, err := w.log.CreateGroup(w.t.Context(), testGroup, redislog.Head()); err != nil {
		w.t.Fatal(err)
	}
	reader, err := w.log.NewGroupReader(w.t.Context(), testGroup, member)
	if err != nil {
		w.t.Fatal(err)
	}
	defer reader.Close()
	entries, err := reader.ReadNew(count, 0)
	if err != nil || len(entries) != count {
		w.t.Fatalf("member %s read %d entries, %v; want %d", member, len(entries), err, count)
	}
	return entries
}

// deadLog is the dead stream of the world's stream.
func (w *world) deadLog() *redislog.Log { return w.client.Log(w.stream.Dead()) }

func (w *world) dead(ctx context.Context, fields ...evtlog.Field) (evtid.ID, error) {
	id, err := w.minter.Mint()
	if err != nil {
		return id, err
	}
	return id, putRecord(ctx, w.deadLog(), id, fields...)
}

// member is a running consumer.
type member struct {
	*Consumer
	t      *testing.T
	world  *world
	events *recorder
	stop   context.CancelFunc
	ended  chan error
	ready  chan struct{}
}

// option changes a member before it starts.
type option func(*Config, *ports)

func withArchive(a archive.Archive) option { return func(_ *Config, p *ports) { p.arch = a } }

func with(change func(*Config)) option { return func(c *Config, _ *ports) { change(c) } }

// quick makes everything happen within a test's time.
func quick(c *Config) {
	c.Block = 50 * time.Millisecond
	c.MinIdle = 400 * time.Millisecond
	c.RetryMin, c.RetryMax = 5*time.Millisecond, 50*time.Millisecond
}

// start runs a member until the end of the test, or stopped before.
func (w *world) start(name string, handler evtlog.Handler, opts ...option) *member {
	w.t.Helper()
	return w.startOn(w.log, name, handler, opts...)
}

func (w *world) startOn(log *redislog.Log, name string, handler evtlog.Handler, opts ...option) *member {
	w.t.Helper()
	events := &recorder{}
	cfg := Config{
		Stream: w.stream, Group: testGroup, Name: name, Start: FromHead, Handler: handler,
		Observer: events.observe,
	}
	quick(&cfg)
	p := ports{
		log: log, dead: w.dead, rnd: func() float64 { return 0.5 },
		dial: func(ctx context.Context, name string) (groupReader, error) {
			return log.NewGroupReader(ctx, testGroup, name)
		},
	}
	for _, o := range opts {
		o(&cfg, &p)
	}
	c, err := newConsumer(cfg, p)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	m := &member{Consumer: c, t: w.t, world: w, events: events, stop: stop, ended: make(chan error, 1), ready: make(chan struct{})}
	go func() { m.ended <- newRunner(c).Run(ctx, sync.OnceFunc(func() { close(m.ready) })) }()
	w.t.Cleanup(func() { m.halt() })
	return m
}

// halt stops the member and returns what Run returned.
func (m *member) halt() error {
	m.t.Helper()
	m.stop()
	select {
	case err := <-m.ended:
		m.ended <- err
		return err
	case <-time.After(patience):
		m.t.Errorf("member %s did not end", m.cfg.Name)
		return nil
	}
}

// until waits for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s in vain: %s", patience, what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// recorder keeps events.
type recorder struct {
	mu   sync.Mutex
	list []evtlog.Event
}

func (r *recorder) observe(e evtlog.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, e)
}

// eventsOf returns the recorded events of one type.
func eventsOf[E evtlog.Event](r *recorder) (found []E) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.list {
		if e, ok := e.(E); ok {
			found = append(found, e)
		}
	}
	return found
}

// journal is a handler that writes down what it is given.
type journal struct {
	mu   sync.Mutex
	list []evtlog.Delivery
	// then decides what the handler returns; nil: nil.
	then func(ctx context.Context, d evtlog.Delivery) error
}

func (j *journal) handle(ctx context.Context, d evtlog.Delivery) error {
	j.mu.Lock()
	j.list = append(j.list, d)
	j.mu.Unlock()
	if j.then != nil {
		return j.then(ctx, d)
	}
	return nil
}

func (j *journal) deliveries() []evtlog.Delivery {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.list)
}

func (j *journal) ids() (ids []evtid.ID) {
	for _, d := range j.deliveries() {
		ids = append(ids, d.ID)
	}
	return ids
}

func (j *journal) len() int { return len(j.deliveries()) }

// times counts the deliveries of one id.
func (j *journal) times(id evtid.ID) (n int) {
	for _, d := range j.deliveries() {
		if d.ID == id {
			n++
		}
	}
	return n
}

func equalIDs(t *testing.T, what string, got, want []evtid.ID) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
