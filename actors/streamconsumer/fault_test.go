package streamconsumer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// readerIDs returns the server's numbers of the connections of group readers.
func (w *world) readerIDs() (ids []string) {
	for _, line := range strings.Split(w.server.Do("CLIENT", "LIST"), "\n") {
		if !strings.Contains(line, "reader:") {
			continue
		}
		id, _, _ := strings.Cut(strings.TrimPrefix(line, "id="), " ")
		ids = append(ids, id)
	}
	return ids
}

// blockedClients returns how many reads are parked at the server.
func (w *world) blockedClients() int {
	_, rest, _ := strings.Cut(w.server.Do("INFO", "clients"), "blocked_clients:")
	number, _, _ := strings.Cut(rest, "\r")
	n, err := strconv.Atoi(number)
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

func TestKilledConnectionIsReplaced(t *testing.T) {
	w := newWorld(t)
	var j journal
	m := w.start("a", j.handle)
	<-m.ready
	var ids []evtid.ID
	var former string
	for range 3 {
		until(t, "a new connection", func() bool { now := w.readerIDs(); return len(now) == 1 && now[0] != former })
		former = w.readerIDs()[0]
		w.server.Do("CLIENT", "KILL", "ID", former)
		ids = append(ids, w.append(20)...)
		until(t, "entries are handled again", func() bool { return j.times(ids[len(ids)-1]) > 0 })
	}
	until(t, "nothing is pending", func() bool { return w.allDone(ids[len(ids)-1]) })
	equalIDs(t, "handled, each once", j.ids(), ids)
	s := m.Stats()
	if s.Reconnects != 3 {
		t.Errorf("Stats.Reconnects = %d, want 3", s.Reconnects)
	}
	if age := time.Since(s.LastReply); age > time.Second {
		t.Errorf("the last reply is %s old", age)
	}
}

// Acknowledgements that were on the way when the connection broke are sent
// again, so what was handled is not handled again.
func TestBrokenConnectionRepeatsNoWork(t *testing.T) {
	w := newWorld(t)
	var j journal
	w.start("a", j.handle, with(func(c *Config) { c.Count = 7 }))
	ids := []evtid.ID{}
	for range 8 {
		ids = append(ids, w.append(50)...)
		for _, id := range w.readerIDs() {
			w.server.Do("CLIENT", "KILL", "ID", id)
		}
	}
	until(t, "nothing is pending", func() bool { return w.allDone(ids[len(ids)-1]) })
	equalIDs(t, "handled, each once", j.ids(), ids)
}

func TestServerRestart(t *testing.T) {
	w := newWorld(t, "--appendonly", "yes", "--appendfsync", "always")
	ids := w.append(10)
	states := &recorder{}
	system := supervise.NewSystem(supervise.Config{Observer: func(e evtlog.Event) {
		if s, ok := e.(evtlog.StateChanged); !ok || s.Component == "consumer/cm/feed/notify/a" {
			states.observe(e)
		}
	}})
	defer func() { _ = system.Stop(context.Background()) }()
	var j journal
	c, err := New(Config{
		Stream: w.stream, Group: testGroup, Name: "a", Start: FromHead, Handler: j.handle,
		Block: 50 * time.Millisecond,
	}, w.log, nil, w.dead)
	if err != nil {
		t.Fatal(err)
	}
	branch, err := system.Branch(t.Context(), "consumer/cm/feed/notify", c.Spec())
	if err != nil {
		t.Fatal(err)
	}
	until(t, "all are handled", func() bool { return j.len() == 10 && len(w.pending()) == 0 })
	w.server.Kill()
	until(t, "it is degraded", func() bool { return hasState(states, evtlog.Degraded) })
	w.server.Restart()
	until(t, "it is ready again", func() bool { s := eventsOf[evtlog.StateChanged](states); return s[len(s)-1].State == evtlog.Ready })
	ids = append(ids, w.append(5)...)
	until(t, "later entries are handled", func() bool { return j.len() == 15 && len(w.pending()) == 0 })
	equalIDs(t, "handled, each once", j.ids(), ids)
	if err := branch.Stop(t.Context()); err != nil {
		t.Errorf("Stop = %v", err)
	}
	var seen []string
	for _, e := range eventsOf[evtlog.StateChanged](states) {
		seen = append(seen, e.State.String())
	}
	if got := strings.Join(seen, " "); got != "starting ready degraded ready stopped" {
		t.Errorf("states: %s; want each change once", got)
	}
	if n := len(eventsOf[evtlog.Restarted](states)); n != 0 {
		t.Errorf("%d restarts for a lost connection, want none", n)
	}
}

func hasState(r *recorder, state evtlog.State) bool {
	for _, e := range eventsOf[evtlog.StateChanged](r) {
		if e.State == state {
			return true
		}
	}
	return false
}

// A vanished group is made anew behind the last acknowledged entry.
func TestGroupIsMadeAnew(t *testing.T) {
	for name, tc := range map[string]struct {
		ruin []string
		// again: the stream is still there, so nothing was lost.
		streamLeft bool
	}{
		"DEL":            {[]string{"DEL", "KEY"}, false},
		"FLUSHALL":       {[]string{"FLUSHALL"}, false},
		"XGROUP DESTROY": {[]string{"XGROUP", "DESTROY", "KEY", testGroup}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ids := w.append(5)
			var j journal
			m := w.start("a", j.handle)
			until(t, "all are handled", func() bool { return w.allDone(ids[4]) })
			for i, word := range tc.ruin {
				if word == "KEY" {
					tc.ruin[i] = w.stream.Key()
				}
			}
			w.server.Do(tc.ruin...)
			until(t, "the group is there again", func() bool { return len(eventsOf[evtlog.GroupRecreated](m.events)) == 1 })
			ids = append(ids, w.append(4)...)
			until(t, "later entries are handled", func() bool { return w.allDone(ids[8]) })
			equalIDs(t, "handled, none twice", j.ids(), ids)
			if got := eventsOf[evtlog.GroupRecreated](m.events); len(got) != 1 || got[0].At != ids[4] || got[0].Group != testGroup {
				t.Errorf("GroupRecreated = %+v, want one at %s", got, ids[4])
			}
			if s := m.Stats(); s.Reconnects > 3 {
				t.Errorf("Stats = %+v, want a try per back-off step", s)
			}
		})
	}
}

// What failed and waits when the group vanishes is delivered again.
func TestGroupIsMadeAnewBehindWhatIsOwed(t *testing.T) {
	w := newWorld(t)
	ids := w.append(4)
	var again = make(chan struct{})
	j := journal{then: func(_ context.Context, d evtlog.Delivery) error {
		select {
		case <-again:
			return nil
		default:
		}
		if d.ID == ids[1] {
			return errors.New("later")
		}
		return nil
	}}
	m := w.start("a", j.handle, with(func(c *Config) { c.RetryMin, c.RetryMax = time.Hour, time.Hour }))
	until(t, "all but one are done", func() bool { return len(w.pending()) == 1 && j.len() == 4 })
	close(again)
	w.server.Do("XGROUP", "DESTROY", w.stream.Key(), testGroup)
	until(t, "it is delivered again", func() bool { return w.settledAt(ids[3]) && j.times(ids[1]) == 2 })
	if got := eventsOf[evtlog.GroupRecreated](m.events); len(got) != 1 || got[0].At != ids[1].Prev() {
		t.Errorf("GroupRecreated = %+v, want one before %s", got, ids[1])
	}
}

// A group of FromNew that vanishes before its first acknowledgement begins again
// where "new" was.
func TestGroupOfFromNewIsMadeAnewWhereItBegan(t *testing.T) {
	w := newWorld(t)
	w.append(3)
	block := make(chan struct{})
	var j journal
	j.then = func(ctx context.Context, _ evtlog.Delivery) error {
		select {
		case <-block:
		default:
			return errors.New("later")
		}
		return nil
	}
	m := w.start("a", j.handle, with(func(c *Config) { c.Start = FromNew }))
	<-m.ready
	ids := w.append(2)
	until(t, "the handler was called", func() bool { return j.len() > 0 })
	w.server.Do("XGROUP", "DESTROY", w.stream.Key(), testGroup)
	close(block)
	until(t, "all are done", func() bool { return w.allDone(ids[1]) })
	for _, id := range j.ids() {
		if id.Less(ids[0]) {
			t.Errorf("%s was there before the group", id)
		}
	}
}

// When a peer made the group anew behind what this member owed, that is said.
func TestGroupMadeAnewByAPeerIsReported(t *testing.T) {
	w := newWorld(t)
	ids := w.append(4)
	failed := make(chan struct{}, 10)
	j := journal{then: func(_ context.Context, d evtlog.Delivery) error {
		if d.ID == ids[1] {
			failed <- struct{}{}
			return errors.New("later")
		}
		return nil
	}}
	peer := &peerMakesGroup{groupLog: w.log, last: ids[3]}
	m := w.start("a", j.handle, func(c *Config, p *ports) {
		c.RetryMin, c.RetryMax = time.Hour, time.Hour
		p.log = peer
	})
	<-failed
	until(t, "the others are done", func() bool { return len(w.pending()) == 1 })
	peer.on.Store(true)
	w.server.Do("XGROUP", "DESTROY", w.stream.Key(), testGroup)
	until(t, "the loss is reported", func() bool { return len(eventsOf[evtlog.Lost](m.events)) == 1 })
	if l := eventsOf[evtlog.Lost](m.events)[0]; l.After != ids[1].Prev() || l.To != ids[1] {
		t.Errorf("Lost = %+v, want %s only", l, ids[1])
	}
}

// A connection that goes nowhere is found out and replaced, and an entry that
// the server hands to it meanwhile is not lost to MinIdle.
func TestBlackHoledConnection(t *testing.T) {
	w := newWorld(t)
	proxy := newProxy(t, w.server.Addr)
	client := w.open(redislog.Config{URL: proxy.url(), CommandTimeout: 300 * time.Millisecond})
	var j journal
	m := w.startOn(client.Log(w.stream), "a", j.handle, with(func(c *Config) { c.MinIdle = time.Hour }))
	ids := w.append(3)
	until(t, "all are handled", func() bool { return j.len() == 3 && len(w.pending()) == 0 })
	proxy.swallow.Store(true)
	until(t, "it is found out", func() bool { return m.Stats().Reconnects > 0 })
	ids = append(ids, w.append(3)...)
	proxy.swallow.Store(false)
	proxyBack := time.Now()
	until(t, "the rest is handled", func() bool { return j.len() >= 6 && w.allDone(ids[5]) })
	if took := time.Since(proxyBack); took > 15*time.Second {
		t.Errorf("it took %s to come back", took)
	}
	equalIDs(t, "handled, each once", j.ids(), ids)
}

func TestTerminalErrorsEndTheConsumer(t *testing.T) {
	w := newWorld(t)
	w.server.Do("SET", w.stream.Key(), "not a stream")
	m := w.start("a", (&journal{}).handle)
	err := m.waitEnd()
	if !supervise.IsTerminal(err) || !errors.Is(err, evtlog.ErrWrongType) {
		t.Errorf("Run = %v, want a terminal ErrWrongType", err)
	}
}

func TestTerminalErrorWhileRunning(t *testing.T) {
	w := newWorld(t)
	m := w.start("a", (&journal{}).handle)
	<-m.ready
	w.server.Do("DEL", w.stream.Key())
	w.server.Do("SET", w.stream.Key(), "not a stream")
	if err := m.waitEnd(); err != nil && !errors.Is(err, evtlog.ErrWrongType) {
		t.Errorf("Run = %v, want ErrWrongType", err)
	}
}

func (m *member) waitEnd() error {
	m.t.Helper()
	select {
	case err := <-m.ended:
		m.ended <- nil
		return err
	case <-time.After(patience):
		m.t.Fatal("the consumer goes on")
		return nil
	}
}

// At the memory limit the server refuses to record ranges and leases. New
// entries are still handled, and nothing is forgotten.
func TestOutOfMemoryDelaysOnlyRanges(t *testing.T) {
	w := newWorld(t)
	ids := w.append(8)
	w.abandon("a", 4)
	a := newMemory()
	w.archiveOnly(a, ids[1])
	w.trimForeign(ids[1])
	full := &fullLog{groupLog: w.log}
	full.full.Store(true)
	var j journal
	w.start("a", j.handle, withArchive(a), func(_ *Config, p *ports) { p.log = full })
	// The trimmed two stay pending for as long as they cannot be recorded.
	until(t, "what is live is handled", func() bool { return j.len() == 6 && len(w.pending()) == 2 })
	equalIDs(t, "handled", j.ids(), ids[2:])
	full.full.Store(false)
	until(t, "the rest is handled", func() bool { return j.len() == 8 && len(w.ranges()) == 0 })
	equalIDs(t, "handled later", j.ids()[6:], ids[:2])
}

// A server that really is at its limit.
func TestServerAtItsMemoryLimit(t *testing.T) {
	w := newWorld(t)
	ids := w.append(40)
	w.abandon("dead", 20)
	w.server.Do("CONFIG", "SET", "maxmemory", "1")
	var j journal
	m := w.start("b", j.handle)
	until(t, "everything is handled", func() bool { return w.allDone(ids[39]) })
	if j.len() != 40 {
		t.Errorf("handled %d, want 40", j.len())
	}
	if s := m.Stats(); s.Reconnects != 0 {
		t.Errorf("Stats = %+v", s)
	}
}

// Every wait has an end, and an idle member keeps its one connection.
func TestIdleForTenSeconds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.append(1)
	var j journal
	calls := countingReads()
	m := w.start("a", j.handle, calls.option, with(func(c *Config) { c.Block = DefaultBlock }))
	<-m.ready
	before := w.readerIDs()
	idle := time.After(10 * time.Second)
	for done := false; !done; {
		select {
		case <-idle:
			done = true
		case <-time.After(500 * time.Millisecond):
			if s := m.Stats(); time.Since(s.LastReply) > 3*DefaultBlock {
				t.Errorf("the last reply is %s old", time.Since(s.LastReply))
			}
		}
	}
	if s := m.Stats(); s.Reconnects != 0 || s.Delivered != 1 {
		t.Errorf("Stats = %+v", s)
	}
	if after := w.readerIDs(); len(after) != 1 || after[0] != before[0] {
		t.Errorf("connections %v, then %v; want the same one", before, after)
	}
	if reads, claims := calls.fresh.Load(), calls.claims.Load(); reads > 25 || claims > 12 {
		t.Errorf("%d reads and %d claims in 10 idle seconds", reads, claims)
	}
	id := w.append(1)[0]
	until(t, "it is still awake", func() bool { return j.times(id) == 1 })
}

func TestManyEntriesAndMembers(t *testing.T) {
	w := newWorld(t)
	var ids []evtid.ID
	var j journal
	for i := range 4 {
		w.start(fmt.Sprint("m", i), j.handle, with(func(c *Config) { c.Count = 5 }))
	}
	for range 10 {
		ids = append(ids, w.append(40)...)
	}
	until(t, "all are handled", func() bool { return w.allDone(ids[len(ids)-1]) })
	if j.len() != len(ids) {
		t.Errorf("handled %d, want each of %d once", j.len(), len(ids))
	}
	for i, d := range j.deliveries() {
		if _, err := strconv.Atoi(d.Fields[0].Value); err != nil || d.Attempts != 1 {
			t.Fatalf("delivery %d = %+v", i, d)
		}
	}
}
