package streamconsumer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/evtid"
)

func TestPoisonHoldsNothingUpAndEndsInTheDeadStream(t *testing.T) {
	w := newWorld(t)
	ids := w.append(6)
	cannot := errors.New("cannot do this one")
	j := journal{then: func(_ context.Context, d evtlog.Delivery) error {
		if d.ID == ids[2] {
			return cannot
		}
		return nil
	}}
	m := w.start("a", j.handle, with(func(c *Config) { c.MaxDeliveries = 4 }))
	until(t, "the poison entry is dead", func() bool { return len(eventsOf[evtlog.DeadLettered](m.events)) == 1 })
	equalIDs(t, "the others go on", j.ids()[:6], ids)
	var attempts []int
	for _, d := range j.deliveries() {
		if d.ID == ids[2] {
			attempts = append(attempts, d.Attempts)
		} else if d.Attempts != 1 {
			t.Errorf("entry %s has Attempts %d, want 1", d.ID, d.Attempts)
		}
	}
	if len(attempts) != 4 || attempts[0] != 1 || attempts[3] != 4 {
		t.Errorf("attempts of the poison entry = %v, want 1 to 4", attempts)
	}
	until(t, "nothing is pending", func() bool { return len(w.pending()) == 0 })

	failed := eventsOf[evtlog.HandlerFailed](m.events)
	if len(failed) != 4 || !errors.Is(failed[3].Err, cannot) || failed[3].Panicked || failed[3].Attempts != 4 {
		t.Errorf("HandlerFailed = %+v, want 4", failed)
	}
	event := eventsOf[evtlog.DeadLettered](m.events)[0]
	if event.ID != ids[2] || event.Entry != ids[2].Entry() || event.Attempts != 4 || event.Reason != cannot.Error() {
		t.Errorf("DeadLettered = %+v", event)
	}
	checkLetter(t, w.records(w.deadLog()), ids[2], cannot.Error())
	if s := m.Stats(); s.Failed != 4 || s.Dead != 1 || s.Redelivered != 3 || s.Waiting != 0 {
		t.Errorf("Stats = %+v", s)
	}
}

func checkLetter(t *testing.T, letters []evtlog.Record, origin evtid.ID, reason string) {
	t.Helper()
	if len(letters) != 1 {
		t.Fatalf("%d dead letters, want 1", len(letters))
	}
	var first, last time.Time
	for name, check := range map[string]func(string) bool{
		"n":           func(v string) bool { return v == "2" },
		FieldReason:   func(v string) bool { return v == reason },
		FieldAttempts: func(v string) bool { return v == "4" },
		FieldGroup:    func(v string) bool { return v == testGroup },
		FieldOrigin:   func(v string) bool { return v == origin.String() },
		FieldFirst:    func(v string) (ok bool) { first, ok = parseTime(v); return ok },
		FieldLast:     func(v string) (ok bool) { last, ok = parseTime(v); return ok },
	} {
		if v, ok := letters[0].Get(name); !ok || !check(v) {
			t.Errorf("dead letter has %s = %q", name, v)
		}
	}
	if !first.Before(last) {
		t.Errorf("dead letter from %s to %s", first, last)
	}
	if letters[0].Fields[0].Name != "n" {
		t.Errorf("the entry's own fields do not come first: %v", letters[0].Fields)
	}
}

func parseTime(v string) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339Nano, v)
	return at, err == nil && strings.HasSuffix(v, "Z")
}

// A failed entry is not read again before its back-off is over, whatever else
// goes on, and a waiting entry does not make the loop spin.
func TestBackoffIsKeptWithoutSpinning(t *testing.T) {
	w := newWorld(t)
	ids := w.append(1)
	var at []time.Time
	j := journal{}
	j.then = func(_ context.Context, d evtlog.Delivery) error {
		if d.ID != ids[0] {
			return nil
		}
		at = append(at, time.Now())
		if d.Attempts < 3 {
			return errors.New("later")
		}
		return nil
	}
	calls := countingReads()
	w.start("a", j.handle, calls.option, with(func(c *Config) {
		c.RetryMin, c.RetryMax = 600*time.Millisecond, 10*time.Second // halved by the test's random number
	}))
	until(t, "first attempt", func() bool { return j.len() == 1 })
	last := w.append(3)[2]
	until(t, "all is done", func() bool { return w.allDone(last) && j.times(ids[0]) == 3 })
	if d := at[1].Sub(at[0]); d < 300*time.Millisecond {
		t.Errorf("second attempt after %s, want at least 300ms", d)
	}
	if d := at[2].Sub(at[1]); d < 600*time.Millisecond {
		t.Errorf("third attempt after %s, want at least 600ms", d)
	}
	if n := calls.pending.Load(); n != 2 {
		t.Errorf("%d reads of the own pending list for two retries", n)
	}
	// About 1 s at Block = 50 ms. It was up to 100 when a wait of less than a
	// millisecond was spent on asking.
	if n := calls.fresh.Load(); n > 40 {
		t.Errorf("%d reads of new entries while one waited", n)
	}
}

func TestPanicIsContained(t *testing.T) {
	w := newWorld(t)
	ids := w.append(3)
	j := journal{then: func(_ context.Context, d evtlog.Delivery) error {
		if d.ID == ids[1] && d.Attempts == 1 {
			panic("handler bug")
		}
		return nil
	}}
	m := w.start("a", j.handle)
	until(t, "all are handled", func() bool { return w.allDone(ids[2]) })
	failed := eventsOf[evtlog.HandlerFailed](m.events)
	var panicked *supervise.PanicError
	if len(failed) != 1 || !failed[0].Panicked || !errors.As(failed[0].Err, &panicked) || len(panicked.Stack) == 0 {
		t.Errorf("HandlerFailed = %+v, want one panic with its stack", failed)
	}
	if j.times(ids[1]) != 2 {
		t.Errorf("the entry was handled %d times, want 2", j.times(ids[1]))
	}
}

// As long as the dead stream takes nothing, the entry stays pending.
func TestDeadStreamDown(t *testing.T) {
	w := newWorld(t)
	ids := w.append(2)
	down := make(chan struct{})
	j := journal{then: func(_ context.Context, d evtlog.Delivery) error {
		if d.ID == ids[0] {
			return errors.New("cannot")
		}
		return nil
	}}
	refused := make(chan struct{}, 100)
	m := w.start("a", j.handle, with(func(c *Config) { c.MaxDeliveries = 2 }), func(_ *Config, p *ports) {
		dead := p.dead
		p.dead = func(ctx context.Context, fields ...evtlog.Field) (evtid.ID, error) {
			select {
			case <-down:
				return dead(ctx, fields...)
			default:
				refused <- struct{}{}
				return evtid.ID{}, evtlog.ErrOutOfMemory
			}
		}
	})
	<-refused
	<-refused
	if got := w.pending(); len(got) != 1 || got[0].ID != ids[0] {
		t.Errorf("pending = %v, want the entry that nobody took", got)
	}
	if j.times(ids[0]) != 2 {
		t.Errorf("the handler was called %d times, want MaxDeliveries = 2", j.times(ids[0]))
	}
	close(down)
	until(t, "nothing is pending", func() bool { return len(w.pending()) == 0 })
	if n := m.Stats().Dead; n != 1 {
		t.Errorf("Stats.Dead = %d, want 1", n)
	}
}

// A dead letter that would pass the limit for a record goes without the body;
// an id field, which a record cannot have, is renamed.
func TestDeadLetterFields(t *testing.T) {
	d := deadLetter{
		id: tid(5), entry: tid(5).Entry(), group: "g", reason: strings.Repeat("x", 5000), attempts: 3, last: at(9),
		fields: []evtlog.Field{evtlog.F("id", "EVT00000000000"), evtlog.F("a", "1"), evtlog.F("a", "2")},
	}
	full := d.compose(false)
	if full[0] != evtlog.F(FieldStoredID, "EVT00000000000") || full[1] != evtlog.F("a", "1") || full[2] != evtlog.F("a", "2") {
		t.Errorf("fields = %v", full)
	}
	if d.fields[0].Name != "id" {
		t.Error("compose changed the entry")
	}
	if err := evtlog.CheckFields(full, 0); err != nil {
		t.Errorf("the dead letter cannot be appended: %v", err)
	}
	r := evtlog.Record{Fields: full}
	if reason, _ := r.Get(FieldReason); len(reason) != maxReason {
		t.Errorf("reason of %d bytes, want %d", len(reason), maxReason)
	}
	if first, _ := r.Get(FieldFirst); first != at(9).UTC().Format(time.RFC3339Nano) {
		t.Errorf("first = %q, want that of last when it is not known", first)
	}
	short := evtlog.Record{Fields: d.compose(true)}
	if _, ok := short.Get("a"); ok {
		t.Error("the truncated letter has the entry's fields")
	}
	if v, _ := short.Get(FieldTruncated); v != "true" {
		t.Error("the truncated letter does not say so")
	}
}

func TestTooLargeDeadLetterIsTruncated(t *testing.T) {
	w := newWorld(t)
	ids := w.append(1)
	j := journal{then: func(context.Context, evtlog.Delivery) error { return errors.New("cannot") }}
	m := w.start("a", j.handle, with(func(c *Config) { c.MaxDeliveries = 1 }), func(_ *Config, p *ports) {
		dead := p.dead
		p.dead = func(ctx context.Context, fields ...evtlog.Field) (evtid.ID, error) {
			if fields[0].Name == "n" {
				return evtid.ID{}, &evtlog.TooLargeError{Size: 2, Limit: 1}
			}
			return dead(ctx, fields...)
		}
	})
	until(t, "the entry is dead", func() bool { return m.Stats().Dead == 1 })
	letters := w.records(w.deadLog())
	if origin, _ := letters[0].Get(FieldOrigin); origin != ids[0].String() {
		t.Errorf("dead letter = %v", letters[0])
	}
}

func TestUnbrandedEntriesAreHandledAndReported(t *testing.T) {
	w := newWorld(t)
	ids := w.append(1)
	bare, err := w.minter.Mint()
	if err != nil {
		t.Fatal(err)
	}
	other, err := w.minter.Mint()
	if err != nil {
		t.Fatal(err)
	}
	w.server.Do("XADD", w.stream.Key(), bare.Entry(), "k", "v")
	w.server.Do("XADD", w.stream.Key(), other.Entry(), "id", ids[0].String(), "k", "v")
	var j journal
	m := w.start("a", j.handle)
	until(t, "all are handled", func() bool { return w.allDone(other) })
	equalIDs(t, "handled by position", j.ids(), []evtid.ID{ids[0], bare, other})
	got := eventsOf[evtlog.Unbranded](m.events)
	if len(got) != 2 || got[0].ID != bare || got[0].Stored != "" || got[1].ID != other || got[1].Stored != ids[0].String() {
		t.Errorf("Unbranded = %+v", got)
	}
}

// An entry at a position that no id has cannot be delivered. It goes to the
// dead stream with its fields and is acknowledged, new or found pending.
func TestForeignPositionsAreDeadLettered(t *testing.T) {
	w := newWorld(t)
	w.server.Do("XADD", w.stream.Key(), "1-1", "k", "old")
	w.server.Do("XADD", w.stream.Key(), "5-0", "k", "old")
	ids := w.append(2)
	tail := ids[1].Entry()[:13] + "-4194304" // behind every id of its millisecond
	w.server.Do("XADD", w.stream.Key(), tail, "id", "x", "k", "tail")
	until(t, "the next millisecond", func() bool { return time.Now().UnixMilli() > ids[1].UnixMilli() })
	ids = append(ids, w.append(1)...)
	w.abandon("a", 2)
	var j journal
	m := w.start("a", j.handle, with(func(c *Config) { c.Count = 1 }))
	until(t, "all is done", func() bool { return w.allDone(ids[2]) })
	equalIDs(t, "handled", j.ids(), ids)
	var entries []string
	for _, e := range eventsOf[evtlog.DeadLettered](m.events) {
		entries = append(entries, e.Entry)
		if !e.ID.IsZero() {
			t.Errorf("DeadLettered = %+v, want no id", e)
		}
	}
	if strings.Join(entries, " ") != "1-1 5-0 "+tail {
		t.Errorf("dead lettered %v", entries)
	}
	letters := w.records(w.deadLog())
	if v, _ := letters[2].Get("k"); v != "tail" {
		t.Errorf("dead letter = %v", letters[2])
	}
	if v, _ := letters[2].Get(FieldOrigin); v != tail {
		t.Errorf("dead letter of %s, want %s", v, tail)
	}
}

// Foreign entries that the dead stream refuses stay pending and are tried again.
func TestForeignPositionsWhileTheDeadStreamIsDown(t *testing.T) {
	w := newWorld(t)
	w.server.Do("XADD", w.stream.Key(), "1-1", "k", "old")
	ids := w.append(1)
	tries := 0
	var j journal
	m := w.start("a", j.handle, func(_ *Config, p *ports) {
		dead := p.dead
		p.dead = func(ctx context.Context, fields ...evtlog.Field) (evtid.ID, error) {
			if tries++; tries < 4 {
				return evtid.ID{}, evtlog.ErrUnavailable
			}
			return dead(ctx, fields...)
		}
	})
	until(t, "all is done", func() bool { return w.allDone(ids[0]) })
	if n := m.Stats().Dead; n != 1 {
		t.Errorf("Stats.Dead = %d, want 1", n)
	}
	if s := m.Stats(); s.Reconnects != 0 || j.len() != 1 {
		t.Errorf("Stats = %+v, handled %d", s, j.len())
	}
}

// A new connection looks through the own pending list, and still leaves alone
// what waits: not even the server's count moves.
func TestWaitingEntryIsNotOfferedByANewConnection(t *testing.T) {
	w := newWorld(t)
	ids := w.append(4)
	w.abandon("a", 3)
	j := journal{then: func(_ context.Context, d evtlog.Delivery) error {
		if d.ID == ids[1] {
			return errors.New("later")
		}
		return nil
	}}
	m := w.start("a", j.handle, with(func(c *Config) { c.RetryMin, c.RetryMax = time.Hour, time.Hour }))
	until(t, "the others are done", func() bool { return len(w.pending()) == 1 && j.times(ids[3]) == 1 })
	for n := range int64(3) {
		w.server.Do("CLIENT", "KILL", "ID", w.readerIDs()[0])
		id := w.append(1)[0]
		until(t, "it is back", func() bool { return m.Stats().Reconnects == n+1 && j.times(id) == 1 })
	}
	until(t, "only the waiting one is pending", func() bool { return len(w.pending()) == 1 })
	if p := w.pending()[0]; p.ID != ids[1] || p.Attempts != 2 || j.times(ids[1]) != 1 {
		t.Errorf("pending = %+v and handled %d times, want 2 deliveries and 1", p, j.times(ids[1]))
	}
}
