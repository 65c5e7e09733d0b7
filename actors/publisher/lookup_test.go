package publisher

import (
	"strings"
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive/archivetest"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// The server comes back empty while an id is in doubt that the archive has passed.
// Sent again it would stand below the watermark, where nobody reads it.
func TestAnIDBelowTheWatermarkIsNotSentAgain(t *testing.T) {
	f, arch := &fakeStream{}, archivetest.NewMemory()
	full := true
	restart := func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if !full {
			return
		}
		if _, err := arch.Fold(t.Context(), feedName, evtid.ID{}, f.records); err != nil {
			t.Error(err)
		}
		full, f.records, f.top = false, nil, evtid.ID{}
	}
	p := onFake(t, f, Config{OnCommit: restart})
	p.archive = arch
	// The first flush is lost unsent. Of the second the first record is refused,
	// and once the other one is committed and archived the server restarts.
	f.onFlush = onceBroken(false)
	var first evtid.ID
	f.refuse = func(id evtid.ID) error {
		if first.IsZero() {
			first = id
		}
		if full && id == first {
			return &redislog.ServerError{Prefix: "OOM", Message: "OOM no room", Class: redislog.BackPressure}
		}
		return nil
	}
	runPump(t, p)
	receipts, _ := p.AppendBatch(t.Context(), [][]evtlog.Field{{evtlog.F("k", "1")}, {evtlog.F("k", "2")}})
	if len(receipts) != 2 || receipts[1].Err != nil || receipts[0].Err == nil {
		t.Errorf("%+v; want the first rejected and the second committed", receipts)
	}
	if live := f.all(); len(live) != 0 {
		t.Errorf("%+v is in the stream, below the watermark %s", live, receipts[1].ID)
	}
}

// A look-up that finds a lower top than the one that has refused the id is of
// another server, as after a failover that has not reached the append connection:
// that connection is given up, with a pause, and not asked again and again.
func TestALookUpOnAnotherServer(t *testing.T) {
	const lies = 4
	f := &fakeStream{}
	looked := 0
	f.onLookup = func(l *redislog.Lookup) {
		if looked++; looked <= lies {
			*l = redislog.Lookup{}
		}
	}
	p := onFake(t, f, Config{})
	f.onFlush = onceBroken(true)
	runPump(t, p)
	if _, err := p.Append(t.Context(), evtlog.F("k", "v")); err != nil {
		t.Fatal(err)
	}
	// One to begin with, one after the loss, and one for each two look-ups that
	// contradict each other.
	if f.dials != 2+lies/2 || len(f.all()) != 1 {
		t.Errorf("%d connections, %d records", f.dials, len(f.all()))
	}
}

// A record of another writer came behind one whose answer was lost. It stays the
// newest that is known when that one is settled: the next announcement names it as
// the one before.
func TestASettledRecordDoesNotHideANewerOne(t *testing.T) {
	f := &fakeStream{}
	p := onFake(t, f, Config{})
	var other evtid.ID
	f.onFlush = onceBroken(true)
	f.onDial = func() {
		if len(f.records) == 1 && other.IsZero() {
			other = f.top.Next()
			f.top, f.records = other, append(f.records, evtlog.Record{ID: other})
		}
	}
	runPump(t, p)
	first, err := p.Append(t.Context(), evtlog.F("k", "v"))
	if err != nil || !first.Less(other) {
		t.Fatalf("%s before %q, %v", first, other, err)
	}
	if _, err := p.Announce(t.Context(), "e", first.String()); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "it is announced", func() bool { return p.Stats().Announced == 1 })
	if payload := string(f.published[0]); !strings.Contains(payload, `"prev":"`+other.String()+`"`) {
		t.Errorf("%s does not name %s as the one before", payload, other)
	}
}
