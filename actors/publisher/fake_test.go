package publisher

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/redislog"
)

// fakeStream is a stream in memory whose connections break, refuse and stall as
// the test says.
type fakeStream struct {
	mu      sync.Mutex
	records []evtlog.Record
	top     evtid.ID
	// onFlush is called before a flush is executed: an error breaks the
	// connection before that, after reports that it breaks after.
	onFlush func() (err error, after bool)
	// refuse returns the refusal of an append, nil to execute it.
	refuse func(id evtid.ID) error
	// dialErr fails every connection; dials counts them.
	dialErr error
	dials   int
	// onDial is called at each connection, with mu held.
	onDial func()
	// onLookup changes what a look-up finds.
	onLookup func(*redislog.Lookup)
	// infoErr fails every look, of which looks are counted.
	infoErr error
	looks   int
	// slow reports that the answer takes longer than a caller in the seat waits.
	slow      func() bool
	published [][]byte
}

func (f *fakeStream) newWriter(ctx context.Context) (writer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dials++; f.dialErr != nil {
		return nil, f.dialErr
	}
	if f.onDial != nil {
		f.onDial()
	}
	return &fakeWriter{f: f}, nil
}

func (f *fakeStream) Last(context.Context) (evtid.ID, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.top, nil
}

func (f *fakeStream) find(id evtid.ID) (evtlog.Record, bool) {
	i, ok := slices.BinarySearchFunc(f.records, id, func(r evtlog.Record, id evtid.ID) int { return r.ID.Compare(id) })
	if !ok {
		return evtlog.Record{}, false
	}
	return f.records[i], true
}

func (f *fakeStream) Lookup(_ context.Context, id evtid.ID) (redislog.Lookup, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := redislog.Lookup{Exists: !f.top.IsZero(), Top: f.top}
	l.Record, l.Found = f.find(id)
	if f.onLookup != nil {
		f.onLookup(&l)
	}
	return l, nil
}

func (f *fakeStream) Info(context.Context) (redislog.StreamInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var info redislog.StreamInfo
	if f.looks++; f.infoErr != nil {
		return info, f.infoErr
	}
	if len(f.records) > 0 {
		info.First = f.records[0].ID
	}
	info.Exists, info.Last, info.EntriesAdded = !f.top.IsZero(), f.top, int64(len(f.records))
	return info, nil
}

// change does something to the stream.
func (f *fakeStream) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

func (f *fakeStream) all() []evtlog.Record {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.records)
}

// fakeWriter executes at Flush and answers from memory.
type fakeWriter struct {
	f       *fakeStream
	pending []func() (int64, error)
	answers []error
	numbers []int64
	broken  error
}

var errBroken = &redislog.ConnError{Op: "XADD", Addr: "fake", Err: errors.New("broken by the test")}

func (w *fakeWriter) Append(id evtid.ID, fields []evtlog.Field) {
	fields = slices.Clone(fields)
	w.pending = append(w.pending, func() (int64, error) {
		if w.f.refuse != nil {
			if err := w.f.refuse(id); err != nil {
				return 0, err
			}
		}
		if !w.f.top.Less(id) {
			return 0, &evtlog.NonMonotonicError{ID: id}
		}
		w.f.top = id
		w.f.records = append(w.f.records, evtlog.Record{ID: id, Fields: fields})
		return 0, nil
	})
}

func (w *fakeWriter) Publish(payload []byte) {
	payload = slices.Clone(payload)
	w.pending = append(w.pending, func() (int64, error) {
		w.f.published = append(w.f.published, payload)
		return 1, nil
	})
}

func (w *fakeWriter) Wait(int, time.Duration) {
	w.pending = append(w.pending, func() (int64, error) { return 0, nil })
}

func (w *fakeWriter) Flush() error {
	var after bool
	if w.f.onFlush != nil {
		if w.broken, after = w.f.onFlush(); w.broken != nil && !after {
			return w.broken
		}
	}
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	for _, execute := range w.pending {
		n, err := execute()
		w.numbers, w.answers = append(w.numbers, n), append(w.answers, err)
	}
	w.pending = w.pending[:0]
	return nil
}

func (w *fakeWriter) Await(time.Duration) bool {
	return w.broken == nil && (w.f.slow == nil || !w.f.slow()) && len(w.answers) > 0 && w.answers[0] == nil
}

func (w *fakeWriter) answer() (int64, error) {
	if w.broken != nil {
		return 0, w.broken
	}
	n, err := w.numbers[0], w.answers[0]
	w.numbers, w.answers = w.numbers[1:], w.answers[1:]
	return n, err
}

func (w *fakeWriter) ReceiveAppend(evtid.ID) error {
	_, err := w.answer()
	return err
}

func (w *fakeWriter) ReceiveInt() (int64, error) { return w.answer() }

func (w *fakeWriter) Close() error { return nil }

var feedName = evtlog.StreamName{Queue: "cm", Name: "feed"}

// onFake makes a publisher on a fake stream.
func onFake(t testing.TB, f *fakeStream, cfg Config) *Publisher {
	t.Helper()
	var err error
	if cfg.Stream, err = keyspace.NewStream("cm", "feed"); err != nil {
		t.Fatal(err)
	}
	p, err := newPublisher(cfg, f, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// runPump runs incarnations of the pump until the test ends, as a supervisor
// would: a panic starts the next one. The returned function stops it.
func runPump(t testing.TB, p *Publisher) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			func() {
				defer func() { _ = recover() }()
				_ = p.pump.run(ctx, func() {})
			}()
		}
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	t.Cleanup(stop)
	return stop
}
