package publisher_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/publisher"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/faultproxy"
	"github.com/evtlog/evtlog/internal/redistest"
)

// ledger is what callers were told.
type ledger struct {
	mu        sync.Mutex
	committed map[string]evtid.ID
	told      int
}

// append appends one record with this key and notes the answer, which must be a
// commit.
func (l *ledger) append(t testing.TB, b *bench, key string) {
	t.Helper()
	id, err := b.Append(within(t), evtlog.F("k", key))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told++
	if err != nil {
		t.Errorf("append of %s: %v", key, err)
		return
	}
	if l.committed == nil {
		l.committed = map[string]evtid.ID{}
	}
	l.committed[key] = id
}

// check compares the ledger with the stream: each commit is there once, and
// nothing else is.
func (l *ledger) check(t testing.TB, records []evtlog.Record) {
	t.Helper()
	found := map[string]int{}
	for i, r := range records {
		key, _ := r.Get("k")
		found[key]++
		if l.committed[key] != r.ID {
			t.Errorf("the stream has %s under %s; its caller was told %s", key, r.ID, l.committed[key])
		}
		if i > 0 && !records[i-1].ID.Less(r.ID) {
			t.Errorf("%s follows %s", r.ID, records[i-1].ID)
		}
	}
	for key, n := range found {
		if n != 1 {
			t.Errorf("%s is %d times in the stream", key, n)
		}
	}
	if len(found) != len(l.committed) {
		t.Errorf("%d records in the stream, %d callers were told committed", len(found), len(l.committed))
	}
}

// A proxy swallows the k-th answer: every call still has one verdict, and the
// stream one record for each.
func TestEverySwallowedAnswerIsSettled(t *testing.T) {
	const calls = 12
	server := redistest.Start(t)
	for k := range calls {
		t.Run(fmt.Sprint("answer ", k+1), func(t *testing.T) {
			server.Do("FLUSHALL")
			proxy := faultproxy.Start(t, server.Addr)
			b := start(t, proxy.URL(), publisher.Config{}, nil)
			proxy.Swallow(k, 1)
			var l ledger
			var wg sync.WaitGroup
			for i := range calls {
				wg.Go(func() { l.append(t, b, fmt.Sprint(i)) })
			}
			wg.Wait()
			b.stop(t)
			l.check(t, stored(t, client(t, server.URL()).Log(feedStream(t))))
			if l.told != calls {
				t.Errorf("%d verdicts for %d calls", l.told, calls)
			}
		})
	}
}

// The network breaks at a byte, of what is sent or of what is answered.
func TestACutAtAnyByteIsSettled(t *testing.T) {
	const calls = 6
	server := redistest.Start(t)
	for name, cut := range map[string]func(*faultproxy.Proxy, int){
		"requests": (*faultproxy.Proxy).CutRequests, "replies": (*faultproxy.Proxy).CutReplies,
	} {
		// Steps that share no factor with the length of a command or an answer.
		for n := 0; n < 400; n += 13 {
			t.Run(fmt.Sprint(name, " ", n), func(t *testing.T) {
				server.Do("FLUSHALL")
				proxy := faultproxy.Start(t, server.Addr)
				b := start(t, proxy.URL(), publisher.Config{}, nil)
				cut(proxy, n)
				var l ledger
				var wg sync.WaitGroup
				for i := range calls {
					wg.Go(func() { l.append(t, b, fmt.Sprint(i)) })
				}
				wg.Wait()
				b.stop(t)
				l.check(t, stored(t, client(t, server.URL()).Log(feedStream(t))))
			})
		}
	}
}

// A server that persists is killed under load, again and again.
func TestKilledServerUnderLoad(t *testing.T) {
	const callers, kills = 16, 4
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	b := running(t, server, publisher.Config{})
	var l ledger
	var done atomic.Bool
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for n := 0; !done.Load(); n++ {
				l.append(t, b, fmt.Sprintf("%d.%d", c, n))
			}
		})
	}
	for range kills {
		before := b.Stats().Appended
		await(t, "appends go on", func() bool { return b.Stats().Appended > before+500 })
		server.Kill()
		server.Restart()
	}
	before := b.Stats().Appended
	await(t, "appends go on", func() bool { return b.Stats().Appended > before+500 })
	done.Store(true)
	wg.Wait()
	b.stop(t)
	l.check(t, stored(t, client(t, server.URL()).Log(feedStream(t))))
	if lost := seen[evtlog.Lost](&b.journal); len(lost) != 0 {
		t.Errorf("losses were reported: %+v", lost)
	}
	if s := b.Stats(); s.Reconnects < kills || s.Unsettled != 0 {
		t.Errorf("stats %+v", s)
	}
	var states []evtlog.State
	for _, e := range seen[evtlog.StateChanged](&b.journal) {
		if e.Component == "stream/cm/feed/publisher" {
			states = append(states, e.State)
		}
	}
	if len(states) < 3 || states[2] != evtlog.Degraded {
		t.Errorf("states %v; want ready, degraded, ready, …", states)
	}
}

// At the server's memory limit appends are refused with a typed error, and go on
// by themselves afterwards, in order.
func TestOutOfMemoryAndRecovery(t *testing.T) {
	server := redistest.Start(t)
	b := running(t, server, publisher.Config{})
	var l ledger
	l.append(t, b, "before")
	server.Do("CONFIG", "SET", "maxmemory", "1")
	for range 3 {
		_, err := b.Append(within(t), evtlog.F("k", "refused"))
		var rejected *evtlog.RejectedError
		if !errors.Is(err, evtlog.ErrOutOfMemory) || !errors.As(err, &rejected) || rejected.ID.IsZero() {
			t.Errorf("append at the memory limit: %v", err)
		}
	}
	await(t, "it is reported as degraded", func() bool {
		nodes := b.system.Tree()
		return nodes[1].State == evtlog.Degraded && errors.Is(nodes[1].Err, evtlog.ErrOutOfMemory)
	})
	server.Do("CONFIG", "SET", "maxmemory", "0")
	l.append(t, b, "after")
	await(t, "it is ready again", func() bool { return b.system.Tree()[1].State == evtlog.Ready })
	l.check(t, stored(t, b.log))
	if s := b.Stats(); s.Appended != 2 || s.Rejected != 3 {
		t.Errorf("stats %+v", s)
	}
}

// In one flush, the records behind a refused one are judged by their own answers.
func TestRecordsBehindARefusedOne(t *testing.T) {
	server := redistest.Start(t)
	b := running(t, server, publisher.Config{})
	server.Do("SET", feedStream(t).Key(), "not a stream")
	receipts, err := b.AppendBatch(within(t), [][]evtlog.Field{{evtlog.F("k", "1")}, {evtlog.F("k", "2")}})
	var failed *publisher.BatchError
	if !errors.As(err, &failed) || failed.Failed != 2 || !errors.Is(err, evtlog.ErrWrongType) {
		t.Errorf("batch on a string: %v", err)
	}
	for _, r := range receipts {
		if !errors.Is(r.Err, evtlog.ErrWrongType) || r.ID.IsZero() {
			t.Errorf("receipt %+v", r)
		}
	}
	server.Do("DEL", feedStream(t).Key())
	if _, err := b.Append(within(t), evtlog.F("k", "3")); err != nil {
		t.Errorf("append after the key was removed: %v", err)
	}
}

func TestAWrongTypeFailsTheStartAtOnce(t *testing.T) {
	server := redistest.Start(t)
	server.Do("SET", feedStream(t).Key(), "not a stream")
	p, err := publisher.New(publisher.Config{Stream: feedStream(t)}, client(t, server.URL()).Log(feedStream(t)), nil)
	if err != nil {
		t.Fatal(err)
	}
	system := supervise.NewSystem(supervise.Config{})
	_, err = system.Branch(within(t), "b", p.Spec())
	var failed *supervise.FailedError
	if !errors.As(err, &failed) || failed.Restarts != 0 || !errors.Is(err, evtlog.ErrWrongType) {
		t.Errorf("start on a string: %v", err)
	}
	if _, err := p.Append(within(t), evtlog.F("k", "v")); !errors.Is(err, evtlog.ErrWrongType) {
		t.Errorf("append to a failed publisher: %v", err)
	}
	if err := system.Stop(within(t)); err != nil {
		t.Error(err)
	}
}

// The primary becomes a replica and another one takes its place behind the same
// address.
func TestReadOnlyServer(t *testing.T) {
	server := redistest.Start(t)
	b := running(t, server, publisher.Config{})
	var l ledger
	l.append(t, b, "before")
	server.Do("REPLICAOF", "127.0.0.1", "1")
	if _, err := b.Append(within(t), evtlog.F("k", "refused")); !errors.Is(err, evtlog.ErrReadOnly) {
		t.Errorf("append to a replica: %v", err)
	}
	server.Do("REPLICAOF", "NO", "ONE")
	begin := time.Now()
	for {
		if _, err := b.Append(within(t), evtlog.F("k", "after")); err == nil {
			break
		} else if !errors.Is(err, evtlog.ErrReadOnly) {
			t.Fatal(err)
		}
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("writes were back after %s", took)
	}
}

// A lone caller sends its record itself, and may leave all the same while the
// server is stalled. What it sent is settled by the answer that comes later.
func TestLeavingAlone(t *testing.T) {
	server := redistest.Start(t)
	b := running(t, server, publisher.Config{})
	if _, err := b.Append(within(t), evtlog.F("k", "0")); err != nil {
		t.Fatal(err)
	}
	server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, err := b.Append(ctx, evtlog.F("k", "1"))
	late, _ := ctx.Deadline()
	var doubt *evtlog.UncertainError
	if !errors.As(err, &doubt) || !errors.Is(err, context.DeadlineExceeded) || time.Since(late) > 800*time.Millisecond {
		t.Fatalf("%s after its deadline the caller was told %v", time.Since(late), err)
	}
	server.Resume()
	if err := b.Resolve(within(t), doubt.ID); err != nil {
		t.Errorf("resolve: %v", err)
	}
	if s := b.Stats(); s.Reconnects != 0 {
		t.Errorf("the connection was given up: %+v", s)
	}
	if got := stored(t, b.log); len(got) != 2 || got[1].ID != doubt.ID {
		t.Errorf("the stream holds %v", got)
	}
}

// A caller that leaves while the server is stalled learns which of the two cases
// it is; the record that was sent is settled later.
func TestLeavingWhileTheServerIsStalled(t *testing.T) {
	server := redistest.Start(t)
	b := running(t, server, publisher.Config{MaxBatch: 2})
	server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	const calls = 12
	errs := make([]error, calls)
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() { _, errs[i] = b.Append(ctx, evtlog.F("k", fmt.Sprint(i))) })
	}
	receipts, batchErr := b.AppendBatch(ctx, [][]evtlog.Field{{evtlog.F("k", "b1")}, {evtlog.F("k", "b2")}})
	wg.Wait()
	uncertain, withdrawn := 0, 0
	var open []evtid.ID
	for _, err := range append(errs, receipts2errors(receipts, batchErr)...) {
		var doubt *evtlog.UncertainError
		switch {
		case errors.As(err, &doubt):
			uncertain++
			open = append(open, doubt.ID)
		case errors.Is(err, evtlog.ErrOverloaded) && errors.Is(err, context.DeadlineExceeded):
			withdrawn++
		default:
			t.Errorf("got %v", err)
		}
	}
	if uncertain == 0 || withdrawn == 0 || uncertain > 8 {
		t.Errorf("%d uncertain and %d withdrawn; at most four flushes of two records were sent", uncertain, withdrawn)
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var doubt *evtlog.UncertainError
	if err := b.Resolve(short, open[0]); !errors.As(err, &doubt) {
		t.Errorf("resolve while stalled: %v", err)
	}
	server.Resume()
	for _, id := range open {
		if err := b.Resolve(within(t), id); err != nil {
			t.Errorf("resolve: %v", err)
		}
	}
	if got := stored(t, b.log); len(got) != uncertain {
		t.Errorf("%d records in the stream, want the %d that were sent", len(got), uncertain)
	}
	if s := b.Stats(); s.QueuedBytes != 0 || s.Queued != 0 {
		t.Errorf("room is missing: %+v", s)
	}
}

func receipts2errors(receipts []publisher.Receipt, err error) []error {
	if receipts == nil {
		return []error{err, err}
	}
	return []error{receipts[0].Err, receipts[1].Err}
}
