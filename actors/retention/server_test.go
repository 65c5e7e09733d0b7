package retention

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/actors/supervise/supervisetest"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/redislog"
)

// real is a stream on a real server, with an appender.
type real struct {
	t      testing.TB
	server *redistest.Server
	log    *redislog.Log
	writer *redislog.Writer
	mint   *evtid.Minter
	ids    []evtid.ID
}

func newReal(t testing.TB) *real {
	t.Helper()
	server := redistest.Start(t)
	client, err := redislog.Open(t.Context(), redislog.Config{URL: server.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	log := client.Log(stream(t))
	writer, err := log.NewWriter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = writer.Close() })
	mint, err := evtid.NewMinter(evtid.MinterConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return &real{t: t, server: server, log: log, writer: writer, mint: mint}
}

func (r *real) append(n int) {
	r.t.Helper()
	from := len(r.ids)
	for range n {
		next, err := r.mint.Mint()
		if err != nil {
			r.t.Fatal(err)
		}
		r.ids = append(r.ids, next)
		r.writer.Append(next, []evtlog.Field{{Name: "event", Value: "scored"}})
	}
	if err := r.writer.Flush(); err != nil {
		r.t.Fatal(err)
	}
	for _, k := range r.ids[from:] {
		if err := r.writer.ReceiveAppend(k); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *real) retention(keep evtlog.Keep, observe evtlog.Observer) *Retention {
	r.t.Helper()
	ret, err := New(Config{Stream: stream(r.t), Keep: keep, Every: 10 * time.Millisecond, Observer: observe}, r.log)
	if err != nil {
		r.t.Fatal(err)
	}
	return ret
}

func (r *real) live() (ids []evtid.ID) {
	r.t.Helper()
	for after := (evtid.ID{}); ; {
		page, _, err := r.log.Page(r.t.Context(), after, evtid.Max, 1000)
		if err != nil {
			r.t.Fatal(err)
		}
		if len(page) == 0 {
			return ids
		}
		for _, rec := range page {
			ids = append(ids, rec.ID)
		}
		after = ids[len(ids)-1]
	}
}

// The newest n stay, whatever is appended while the component trims, and nothing
// else is touched.
func TestServerKeepsTheNewest(t *testing.T) {
	for _, keep := range []evtlog.Keep{KeepLast(150), exactly(KeepLast(150))} {
		t.Run(fmt.Sprintf("exact %v", keep.Exact), func(t *testing.T) {
			r := newReal(t)
			s := supervise.NewSystem(supervise.Config{})
			if _, err := s.Branch(t.Context(), "stream/cm/feed", r.retention(keep, nil).Spec()); err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := s.Stop(context.Background()); err != nil {
					t.Error(err)
				}
			}()
			for range 200 {
				r.append(37)
				live := r.live()
				if n := len(live); n < min(150, len(r.ids)) || !slices.Equal(live, r.ids[len(r.ids)-n:]) {
					t.Fatalf("%d are left of %d, or not the newest", n, len(r.ids))
				}
			}
			most := 150
			if !keep.Exact {
				most += 99
			}
			deadline := time.Now().Add(10 * time.Second)
			for len(r.live()) > most {
				if time.Now().After(deadline) {
					t.Fatalf("%d are left", len(r.live()))
				}
				<-time.After(time.Millisecond)
			}
		})
	}
}

func TestServerReportsWhatGroupsMiss(t *testing.T) {
	r := newReal(t)
	if _, err := r.log.CreateGroup(t.Context(), "late", redislog.Head()); err != nil {
		t.Fatal(err)
	}
	r.append(30)
	reader, err := r.log.NewGroupReader(t.Context(), "late", "one")
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if _, err := reader.ReadNew(10, 10*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	reader.Ack(r.ids[0], r.ids[1])
	if err := reader.FlushAcks(); err != nil {
		t.Fatal(err)
	}
	ret := r.retention(exactly(KeepLast(5)), nil)
	res, err := ret.Trim(t.Context())
	if err != nil || res.Removed != 25 || len(res.Lost) != 2 {
		t.Fatalf("%+v, %v", res, err)
	}
	for i, want := range []struct{ after, to evtid.ID }{{r.ids[9], r.ids[24]}, {r.ids[2].Prev(), r.ids[9]}} {
		if g := res.Lost[i]; g.Group != "late" || g.After != want.after || g.To != want.to {
			t.Errorf("event %d: %+v, want (%s, %s]", i, g, want.after, want.to)
		}
	}
	// Each loss is told once.
	r.append(10)
	if res, err = ret.Trim(t.Context()); err != nil || len(res.Lost) != 1 || res.Lost[0].After != r.ids[24] || res.Lost[0].To != r.ids[34] {
		t.Fatalf("%+v, %v", res, err)
	}
}

func TestServerOutOfMemory(t *testing.T) {
	r := newReal(t)
	r.append(400)
	r.server.Do("CONFIG", "SET", "maxmemory", "1mb")
	if got := r.server.Do("XADD", "other", "*", "a", "b"); !strings.HasPrefix(got, "-OOM") {
		t.Fatalf("the server has room: %s", got)
	}
	if res, err := r.retention(KeepLast(100), nil).Trim(t.Context()); err != nil || res.Removed != 300 {
		t.Fatalf("%+v, %v", res, err)
	}
}

func TestServerForeignEntry(t *testing.T) {
	r := newReal(t)
	r.server.Do("XADD", stream(t).Key(), "5-1", "made", "by hand")
	r.append(300)
	ret := r.retention(exactly(KeepLast(100)), nil)
	var foreign *evtlog.ForeignEntryError
	if res, err := ret.Trim(t.Context()); !errors.As(err, &foreign) || res.Removed != 201 {
		t.Fatalf("%+v, %v", res, err)
	}
	if _, err := ret.Trim(t.Context()); err != nil {
		t.Fatalf("told twice: %v", err)
	}
}

func TestServerFaultsAreToldOnce(t *testing.T) {
	r := newReal(t)
	r.append(50)
	var mu sync.Mutex
	states, lost := map[evtlog.State]int{}, []evtlog.Lost{}
	observe := func(e evtlog.Event) {
		mu.Lock()
		defer mu.Unlock()
		switch e := e.(type) {
		case evtlog.StateChanged:
			if strings.HasSuffix(e.Component, "/retention") {
				states[e.State]++
			}
		case evtlog.Lost:
			lost = append(lost, e)
		}
	}
	ret := r.retention(KeepLast(1000), observe)
	s := supervise.NewSystem(supervise.Config{Observer: observe})
	if _, err := s.Branch(t.Context(), "stream/cm/feed", ret.Spec()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Stop(context.Background()) }()
	wait := func(what string, ok func() bool) {
		t.Helper()
		deadline := time.Now().Add(15 * time.Second)
		for {
			mu.Lock()
			done := ok()
			mu.Unlock()
			if done {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("not in time: %s; %v", what, states)
			}
			<-time.After(time.Millisecond)
		}
	}
	wait("seen", func() bool { return ret.Stats().Length == 50 })
	r.server.Do("FLUSHALL")
	wait("the loss", func() bool { return len(lost) == 1 && lost[0].To == r.ids[49] })
	r.server.Kill()
	wait("degraded", func() bool { return states[evtlog.Degraded] == 1 })
	r.server.Restart()
	wait("ready again", func() bool { return states[evtlog.Ready] == 2 })
	r.server.Do("SET", stream(t).Key(), "text")
	wait("given up", func() bool { return states[evtlog.Failed] == 1 })
	if states[evtlog.Degraded] != 1 || len(lost) != 1 {
		t.Errorf("%v, %+v", states, lost)
	}
}

func TestServerLifecycle(t *testing.T) {
	r := newReal(t)
	r.append(300)
	supervisetest.StressRunner(t, func() supervise.Spec { return r.retention(KeepLast(100), nil).Spec() })
}
