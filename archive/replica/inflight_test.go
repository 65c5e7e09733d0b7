package replica

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/replica/client"
	"github.com/evtlog/evtlog/evtid"
)

func TestMayFollow(t *testing.T) {
	at := func(n int) evtid.ID {
		id, err := evtid.Make(evtid.EpochMillis+int64(n), 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	for _, c := range []struct {
		name      string
		prev      evtid.ID
		watermark evtid.ID
		ends      []evtid.ID
		want      bool
	}{
		{"on nothing", evtid.ID{}, evtid.ID{}, nil, true},
		{"on the watermark", at(4), at(4), nil, true},
		{"on what is long archived", at(2), at(4), nil, true},
		{"on what has not come", at(6), at(4), nil, false},
		{"on what raft has", at(6), at(4), []evtid.ID{at(6)}, true},
		{"on what raft has, with more behind it", at(6), at(4), []evtid.ID{at(6), at(8)}, true},
		{"between what raft has", at(7), at(4), []evtid.ID{at(6), at(8)}, false},
		{"behind what raft has", at(9), at(4), []evtid.ID{at(6), at(8)}, false},
	} {
		if got := mayFollow(c.prev, c.watermark, c.ends); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

func TestLanes(t *testing.T) {
	l, other := newLanes(), evtlog.StreamName{Queue: "cm", Name: "other"}
	one, two := evtid.ID{}.Next(), evtid.ID{}.Next().Next()
	changed := l.note.next()
	l.enter(scores, one)
	<-changed
	l.enter(scores, two)
	// The same fold again, as after a lost answer.
	l.enter(scores, one)
	if got := l.inFlight(scores); len(got) != 3 || len(l.inFlight(other)) != 0 {
		t.Errorf("%v", got)
	}
	l.leave(scores, one)
	if got := l.inFlight(scores); len(got) != 2 || got[0] != two || got[1] != one {
		t.Errorf("%v", got)
	}
	for _, id := range []evtid.ID{two, one, one} {
		l.leave(scores, id)
	}
	if len(l.ends) != 0 {
		t.Errorf("%v is kept for nothing", l.ends)
	}
}

// windowWriter folds numbered records, several folds at a time, and settles what
// fails as an archiver does.
type windowWriter struct {
	stream evtlog.StreamName
	arch   archive.Pipelined
	rnd    *rand.Rand

	// begun is the number of the last record ever sent, failures counts the windows
	// that had to be settled. Both belong to run until it has ended.
	begun, failures int

	mu sync.Mutex
	// acked is the number of the last record acknowledged.
	acked int
}

type windowFold struct {
	from, to int
	err      error
	ended    chan struct{}
}

// run folds until ctx ends. Each single fold may take a minute.
func (w *windowWriter) run(ctx context.Context) error {
	var flights []*windowFold
	for ctx.Err() == nil || len(flights) > 0 {
		if ctx.Err() == nil && len(flights) < w.arch.FoldsInFlight() {
			from := w.position(flights)
			f := &windowFold{from: from, to: from + w.rnd.IntN(20), ended: make(chan struct{})}
			w.send(f, len(flights) > 0)
			flights = append(flights, f)
			continue
		}
		f := flights[0]
		<-f.ended
		if f.err == nil {
			w.confirm(f.to)
			flights = flights[1:]
			continue
		}
		for _, f := range flights {
			<-f.ended
		}
		if err := w.settle(f.err); err != nil {
			return err
		}
		flights = nil
	}
	return nil
}

// position is the number of the next record to send.
func (w *windowWriter) position(flights []*windowFold) int {
	if n := len(flights); n > 0 {
		return flights[n-1].to + 1
	}
	return w.acknowledged() + 1
}

func (w *windowWriter) send(f *windowFold, behind bool) {
	w.begun = max(w.begun, f.to)
	fold := w.arch.Fold
	if behind {
		fold = w.arch.FoldBehind
	}
	go func() {
		defer close(f.ended)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		got, err := fold(ctx, w.stream, numbered(f.from-1).ID, numberedRecords(f.from, f.to))
		if err == nil && got != numbered(f.to).ID {
			err = fmt.Errorf("answered with %q", got)
		}
		f.err = err
	}()
}

// settle reads the watermark once nothing is on its way.
func (w *windowWriter) settle(cause error) error {
	w.failures++
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	at, err := w.arch.Watermark(ctx, w.stream)
	if err != nil {
		return errors.Join(err, cause)
	}
	n := w.acknowledged()
	if at.Less(numbered(n).ID) {
		return fmt.Errorf("the watermark is %q, %d was acknowledged: %w", at, n, cause)
	}
	for numbered(n).ID != at {
		if n++; n > w.begun {
			return fmt.Errorf("the watermark %q is none of this writer: %w", at, cause)
		}
	}
	w.confirm(n)
	return nil
}

func (w *windowWriter) confirm(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acked = n
}

func (w *windowWriter) acknowledged() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.acked
}

// numbered returns the n-th record; number 0 has the zero id.
func numbered(n int) evtlog.Record {
	if n == 0 {
		return evtlog.Record{}
	}
	id, err := evtid.Make(evtid.EpochMillis+int64(n), 1, 0)
	if err != nil {
		panic(err)
	}
	return evtlog.Record{ID: id, Fields: []evtlog.Field{evtlog.F("n", fmt.Sprint(n))}}
}

func numberedRecords(from, to int) (out []evtlog.Record) {
	for n := from; n <= to; n++ {
		out = append(out, numbered(n))
	}
	return out
}

// checkOn reads the stream on one node and compares it with what was sent: each
// record once up to the last acknowledged one, nothing that was not sent.
func (w *windowWriter) checkOn(t *testing.T, addr string) {
	t.Helper()
	cl, err := client.New(client.Config{Addresses: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	n := 0
	for rec, err := range cl.Read(ctx, w.stream, archive.Range{AtLeast: numbered(w.acked).ID}) {
		if err != nil {
			t.Fatalf("%s: read after record %d: %v", addr, n, err)
		}
		n++
		if want := numbered(n); rec.ID != want.ID || len(rec.Fields) != 1 || rec.Fields[0] != want.Fields[0] {
			t.Fatalf("%s: record %d is %s %q", addr, n, rec.ID, rec.Fields)
		}
	}
	if n < w.acked || n > w.begun {
		t.Errorf("%s holds %d records; %d were acknowledged, %d sent", addr, n, w.acked, w.begun)
	}
}

// TestLeaderKilledWithFoldsInFlight kills the leader of three processes again and
// again while several folds of each stream are on their way to it.
func TestLeaderKilledWithFoldsInFlight(t *testing.T) {
	t.Parallel()
	seed := soakSeed(t)
	nodes, addrs := processCluster(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg sync.WaitGroup
	writers := make([]*windowWriter, 2)
	errs := make([]error, len(writers))
	for i := range writers {
		cl, err := client.New(client.Config{Addresses: addrs, Logger: testLogger()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cl.Close() })
		w := &windowWriter{
			stream: evtlog.StreamName{Queue: "inflight", Name: fmt.Sprint("s", i)}, arch: cl,
			rnd: rand.New(rand.NewPCG(seed, uint64(i))),
		}
		writers[i] = w
		wg.Go(func() { errs[i] = w.run(ctx) })
	}
	kills := 0
	for end := time.Now().Add(soakTime(t) / 2); time.Now().Before(end) || kills < 3; kills++ {
		before := writers[0].acknowledged()
		eventually(t, 60*time.Second, "progress", func() bool { return writers[0].acknowledged() > before+200 })
		victim := leaderOf(t, nodes, nodes[0])
		victim.kill()
		victim.start()
	}
	cancel()
	wg.Wait()
	for i, w := range writers {
		if errs[i] != nil {
			t.Errorf("%s: %v", w.stream, errs[i])
		}
		t.Logf("%d kills: %d records acknowledged to %s, %d windows that failed and were settled", kills, w.acked, w.stream, w.failures)
		for _, addr := range addrs {
			w.checkOn(t, addr)
		}
	}
}
