package redislog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/faultproxy"
	"github.com/evtlog/evtlog/internal/redistest"
)

// faulty returns a log behind a proxy, and one that reaches the server directly.
func faulty(t *testing.T, cfg Config) (proxy *faultproxy.Proxy, through, direct *Log) {
	t.Helper()
	srv := redistest.Start(t)
	proxy = faultproxy.Start(t, srv.Addr)
	cfg.URL = proxy.URL()
	return proxy, openAt(t, cfg).Log(feed(t)), openAt(t, Config{URL: srv.URL()}).Log(feed(t))
}

// TestWriterCutAtEachByte of the answers to a mixed pipeline: what was answered
// is exactly what the caller was told, and the rest is open.
func TestWriterCutAtEachByte(t *testing.T) {
	proxy, l, direct := faulty(t, Config{})
	n := 0
	for cut := 0; ; cut++ {
		w := writerOf(t, l)
		first := n + 1
		for range 3 {
			n++
			w.Append(at(n), []evtlog.Field{evtlog.F("k", "v")})
			w.Publish([]byte("x"))
		}
		proxy.CutReplies(cut)
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		answered, err := 0, error(nil)
		for i := first; i <= n && err == nil; i++ {
			if err = w.ReceiveAppend(at(i)); err != nil {
				break
			}
			answered++
			var receivers int64
			if receivers, err = w.ReceiveInt(); err == nil && receivers != 0 {
				t.Fatalf("cut at %d: %d receivers", cut, receivers)
			}
		}
		_ = w.Close()
		// An append answers 25 bytes, an announcement 4.
		if want := (cut + 4) / 29; answered != min(want, 3) {
			t.Fatalf("cut at %d: %d answered, want %d", cut, answered, want)
		}
		if err == nil {
			if cut < 87 {
				t.Fatalf("cut at %d: no error", cut)
			}
			break
		}
		if !isConnError(err) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		// All were done: the look-up finds each.
		for i := first + answered; i <= n; i++ {
			if found, err := direct.Lookup(t.Context(), at(i)); err != nil || !found.Found {
				t.Fatalf("cut at %d: record %d: %+v, %v", cut, i, found, err)
			}
		}
	}
}

// TestWriterSwallowedAnswer: the answer of a later append is never taken for the
// one that was lost.
func TestWriterSwallowedAnswer(t *testing.T) {
	proxy, l, direct := faulty(t, Config{CommandTimeout: 500 * time.Millisecond})
	n := 0
	for k := range 4 {
		w := writerOf(t, l)
		first := n + 1
		for range 4 {
			n++
			w.Append(at(n), nil)
		}
		proxy.Swallow(k, 1)
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		for i := range k {
			if err := w.ReceiveAppend(at(first + i)); err != nil {
				t.Fatal(err)
			}
		}
		err := w.ReceiveAppend(at(first + k))
		if !isConnError(err) {
			t.Fatalf("swallowed %d: %v", k, err)
		}
		if err2 := w.ReceiveAppend(at(first + k + 1)); !errors.Is(err2, err) {
			t.Fatalf("after it: %v", err2)
		}
		if found, err := direct.Lookup(t.Context(), at(first+k)); err != nil || !found.Found || found.Top != at(n) {
			t.Fatalf("%+v, %v", found, err)
		}
	}
}

// TestPageCutAtEachByte: a page is whole, or an error; the next one is right.
func TestPageCutAtEachByte(t *testing.T) {
	proxy, l, _ := faulty(t, Config{})
	fill(t, l, 1, 2)
	if err := l.Seal(t.Context(), at(1)); err != nil {
		t.Fatal(err)
	}
	for cut := 0; ; cut++ {
		proxy.CutReplies(cut)
		page, floor, err := l.Page(t.Context(), evtid.ID{}, evtid.Max, 10)
		if err == nil {
			wantIDs(t, recordIDs(page), 1, 2)
			if cut < 100 || floor != at(1) {
				t.Fatalf("cut at %d: floor %v", cut, floor)
			}
			break
		}
		if !isConnError(err) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		proxy.Heal()
		page, floor, err = l.Page(t.Context(), at(1), evtid.Max, 10)
		if err != nil || floor != at(1) {
			t.Fatalf("after the cut at %d: %v, %v", cut, floor, err)
		}
		wantIDs(t, recordIDs(page), 2)
	}
}

// TestGroupReaderCutAtEachByte: nothing that was delivered is lost, and an
// acknowledgement counts once.
func TestGroupReaderCutAtEachByte(t *testing.T) {
	proxy, l, direct := faulty(t, Config{})
	createGroup(t, l, "g", Head())
	n := 0
	for cut := 0; ; cut++ {
		g := readerOf(t, l, "g", "c")
		fill(t, direct, n+1, n+2)
		first, err := g.ReadNew(1, 0)
		if err != nil {
			t.Fatal(err)
		}
		wantIDs(t, idsOf(first), n+1)
		g.Ack(at(n + 1))
		proxy.CutReplies(cut)
		entries, err := g.ReadNew(5, 0)
		if err == nil {
			wantIDs(t, idsOf(entries), n+2)
			if cut < 100 {
				t.Fatalf("cut at %d: no error", cut)
			}
			break
		}
		if !isConnError(err) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		_ = g.Close()
		again := readerOf(t, direct, "g", "c")
		pending, err := again.ReadPending(evtid.ID{}, 10)
		if err != nil {
			t.Fatal(err)
		}
		wantIDs(t, idsOf(pending), n+2)
		again.Ack(at(n + 2))
		if err := again.FlushAcks(); err != nil || again.LostAcks() != 0 {
			t.Fatalf("%v, lost %d", err, again.LostAcks())
		}
		_ = again.Close()
		n += 2
	}
}

// TestTrimCutAtEachByte of what is sent: either nothing was trimmed, or all of
// it and the group's range is recorded.
func TestTrimCutAtEachByte(t *testing.T) {
	proxy, l, direct := faulty(t, Config{})
	for cut, trimmed := 0, 0; ; cut++ {
		name := stream(t, "cm", fmt.Sprint("s", cut))
		log, look := l.c.Log(name), direct.c.Log(name)
		fill(t, look, 1, 3)
		createGroup(t, look, "g", Head())
		proxy.CutRequests(cut)
		_, err := log.TrimThrough(t.Context(), at(2))
		info, infoErr := look.Info(t.Context())
		ranges, rangesErr := look.SkippedRanges(t.Context(), "g")
		if infoErr != nil || rangesErr != nil {
			t.Fatal(infoErr, rangesErr)
		}
		switch {
		case info.Length == 3 && len(ranges) == 0 && err != nil:
		case info.Length == 1 && len(ranges) == 1 && ranges[0] == span(-1, 2):
			trimmed++
		default:
			t.Fatalf("cut at %d: %d entries left, recorded %v, %v", cut, info.Length, ranges, err)
		}
		if err == nil {
			if trimmed != 1 || cut < 500 {
				t.Fatalf("through after %d bytes", cut)
			}
			return
		}
		if !isConnError(err) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
	}
}

// TestCreateGroupCutAtEachByte: a group that exists has its range.
func TestCreateGroupCutAtEachByte(t *testing.T) {
	proxy, l, direct := faulty(t, Config{})
	for cut := 0; ; cut += 3 {
		name := stream(t, "cm", fmt.Sprint("s", cut))
		log, look := l.c.Log(name), direct.c.Log(name)
		if err := look.Seal(t.Context(), at(5)); err != nil {
			t.Fatal(err)
		}
		proxy.CutRequests(cut)
		_, err := log.CreateGroup(t.Context(), "g", Head())
		groups, groupsErr := look.Groups(t.Context())
		ranges, rangesErr := look.SkippedRanges(t.Context(), "g")
		if groupsErr != nil || rangesErr != nil || len(groups) != len(ranges) {
			t.Fatalf("cut at %d: groups %v %v, ranges %v %v", cut, groups, groupsErr, ranges, rangesErr)
		}
		if err == nil {
			return
		}
	}
}

// TestLateAnswerReachesNobody: a short command that runs into its limit takes
// its connection with it.
func TestLateAnswerReachesNobody(t *testing.T) {
	proxy, l, _ := faulty(t, Config{CommandTimeout: 400 * time.Millisecond, PoolSize: 1})
	fill(t, l, 1, 3)
	other := l.c.Log(stream(t, "cm", "other"))
	fill(t, other, 4, 9)
	check := func() {
		t.Helper()
		for log, want := range map[*Log]evtid.ID{l: at(3), other: at(9)} {
			if last, err := log.Last(t.Context()); err != nil || last != want {
				t.Fatalf("%v, %v; want %v", last, err, want)
			}
		}
	}
	check()
	for name, try := range map[string]func() error{
		"swallowed": func() error {
			proxy.Swallow(0, 1)
			_, err := l.Last(t.Context())
			return err
		},
		"late": func() error {
			proxy.Delay(600 * time.Millisecond)
			_, err := l.Last(t.Context())
			return err
		},
		"late page": func() error {
			proxy.Delay(600 * time.Millisecond)
			_, _, err := l.Page(t.Context(), evtid.ID{}, evtid.Max, 10)
			return err
		},
		"cancelled": func() error {
			proxy.Delay(50 * time.Millisecond)
			_, err := l.Last(within(t, 10*time.Millisecond))
			if !errors.Is(err, context.DeadlineExceeded) && !isTimeout(err) {
				t.Errorf("cancelled: %v", err)
			}
			return err
		},
		"cancelled page": func() error {
			proxy.Delay(50 * time.Millisecond)
			ctx, cancel := context.WithCancel(t.Context())
			later(t, 10*time.Millisecond, cancel)
			_, _, err := l.Page(ctx, evtid.ID{}, evtid.Max, 10)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled page: %v", err)
			}
			return err
		},
		"cancelled transaction": func() error {
			proxy.Delay(20 * time.Millisecond)
			ctx, cancel := context.WithCancel(t.Context())
			later(t, 30*time.Millisecond, cancel)
			_, err := l.AcquireLease(ctx, "busy", "me", time.Minute)
			if err == nil {
				_, err = l.AcquireLease(ctx, "busy", "me", time.Minute)
			}
			return err
		},
		"cut": func() error {
			proxy.CutReplies(5)
			_, err := l.Last(t.Context())
			return err
		},
	} {
		before := proxy.Accepted()
		if err := try(); !isConnError(err) || Classify(err) != Transient {
			t.Errorf("%s: %v", name, err)
		}
		proxy.Heal()
		check()
		if proxy.Accepted() != before+1 {
			t.Errorf("%s: %d new connections, want 1", name, proxy.Accepted()-before)
		}
	}
}

// TestPoolWaits for a connection no longer than its context.
func TestPoolWaits(t *testing.T) {
	proxy, l, _ := faulty(t, Config{PoolSize: 1})
	fill(t, l, 1, 1)
	if _, err := l.Last(t.Context()); err != nil {
		t.Fatal(err)
	}
	proxy.Silence(true)
	held := make(chan error)
	go func() {
		_, err := l.Last(within(t, 500*time.Millisecond))
		held <- err
	}()
	soon(t, "the connection is taken", func() bool { s := l.c.pool.Stats(); return s.ActiveCount == 1 && s.IdleCount == 0 })
	began := time.Now()
	_, err := l.Last(within(t, 30*time.Millisecond))
	if !isConnError(err) || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 400*time.Millisecond {
		t.Fatalf("got %v after %s", err, time.Since(began))
	}
	if err := <-held; !isConnError(err) {
		t.Fatalf("the holder: %v", err)
	}
	proxy.Heal()
	if last, err := l.Last(t.Context()); err != nil || last != at(1) {
		t.Fatalf("%v, %v", last, err)
	}
}

// TestManyCallersThroughFaults: whatever happens to connections, each caller
// gets the answer to its own question or an error.
func TestManyCallersThroughFaults(t *testing.T) {
	proxy, l, direct := faulty(t, Config{CommandTimeout: 2 * time.Second, PoolSize: 4})
	const callers, rounds = 8, 150
	logs := make([]*Log, callers)
	for i := range logs {
		logs[i] = l.c.Log(stream(t, "cm", fmt.Sprint("s", i)))
		fill(t, direct.c.Log(logs[i].stream), i+1, i+1)
	}
	var done sync.WaitGroup
	stop := make(chan struct{})
	var faults sync.WaitGroup
	faults.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-time.After(3 * time.Millisecond):
			}
			switch n % 4 {
			case 0:
				proxy.CutReplies(n % 97)
			case 1:
				proxy.CutRequests(n % 61)
			case 2:
				proxy.Swallow(n%5, 1)
			case 3:
				proxy.CutAll()
			}
		}
	})
	for i, log := range logs {
		done.Go(func() {
			for range rounds {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				last, err := log.Last(ctx)
				if err == nil && last != at(i+1) {
					t.Errorf("caller %d was told %v", i, last)
				}
				page, _, err := log.Page(ctx, evtid.ID{}, evtid.Max, 5)
				if err == nil && (len(page) != 1 || page[0].ID != at(i+1)) {
					t.Errorf("caller %d was given %v", i, page)
				}
				cancel()
			}
		})
	}
	done.Wait()
	close(stop)
	faults.Wait()
	proxy.Heal()
	for i, log := range logs {
		// Connections that were cut while nobody used them are found one by one.
		soon(t, "the healed network serves", func() bool {
			last, err := log.Last(t.Context())
			if err == nil && last != at(i+1) {
				t.Fatalf("healed: caller %d was told %v", i, last)
			}
			return err == nil
		})
	}
}

// TestFailoverBehindTheAddress: connections to a demoted primary are not kept.
func TestFailoverBehindTheAddress(t *testing.T) {
	proxy, l, old := faulty(t, Config{})
	next := redistest.Start(t)
	nextLog := openAt(t, Config{URL: next.URL()}).Log(feed(t))
	fill(t, l, 1, 1)
	fill(t, nextLog, 1, 2)
	host, port, _ := net.SplitHostPort(next.Addr)
	if err := old.c.ask(t.Context(), "test", command{"REPLICAOF", host, port}, nil); err != nil {
		t.Fatal(err)
	}
	proxy.Retarget(next.Addr)
	if _, err := l.Trim(t.Context(), TrimPolicy{MaxLen: 1, Exact: true}); !errors.Is(err, evtlog.ErrReadOnly) {
		t.Fatalf("the old primary: %v", err)
	}
	if n, err := l.Trim(t.Context(), TrimPolicy{MaxLen: 1, Exact: true}); err != nil || n != 1 {
		t.Fatalf("the new one: %d, %v", n, err)
	}
}

// TestSilentPeer: a parked read notices a peer that is gone when its time is up.
func TestSilentPeer(t *testing.T) {
	proxy, l, _ := faulty(t, Config{CommandTimeout: 100 * time.Millisecond})
	createGroup(t, l, "g", Head())
	g := readerOf(t, l, "g", "c")
	proxy.Silence(true)
	began := time.Now()
	_, err := g.ReadNew(1, 50*time.Millisecond)
	if took := time.Since(began); !isConnError(err) || took < 140*time.Millisecond || took > 3*time.Second {
		t.Fatalf("%v after %s", err, took)
	}
	if _, err := l.Lookup(within(t, 50*time.Millisecond), at(1)); !isConnError(err) {
		t.Fatalf("look-up: %v", err)
	}
}
