package streamconsumer

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// breaker breaks the private connection at chosen reads of new entries, before
// or after the server has done them.
type breaker struct {
	mu sync.Mutex
	// at returns "before" or "after" to break read number n, which carries so many
	// acknowledgements.
	at     func(n, acks int) string
	reads  int
	broken int
}

func (b *breaker) option(_ *Config, p *ports) {
	dial := p.dial
	p.dial = func(ctx context.Context, name string) (groupReader, error) {
		reader, err := dial(ctx, name)
		if err != nil {
			return nil, err
		}
		return &brokenReader{groupReader: reader, b: b}, nil
	}
}

func (b *breaker) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.broken
}

type brokenReader struct {
	groupReader
	b    *breaker
	acks int
}

func (r *brokenReader) Ack(ids ...evtid.ID) {
	r.acks += len(ids)
	r.groupReader.Ack(ids...)
}

func (r *brokenReader) ReadNew(count int, block time.Duration) ([]redislog.Entry, error) {
	r.b.mu.Lock()
	r.b.reads++
	when := r.b.at(r.b.reads, r.acks)
	if when != "" {
		r.b.broken++
	}
	r.b.mu.Unlock()
	r.acks = 0
	if when == "before" {
		return nil, r.fail()
	}
	entries, err := r.groupReader.ReadNew(count, block)
	if when == "after" {
		return nil, r.fail()
	}
	return entries, err
}

func (r *brokenReader) fail() error {
	_ = r.groupReader.Close()
	return &redislog.ConnError{Op: "test", Addr: "test", Err: errors.New("cut by the test")}
}

// Entries whose delivery was lost on the way are pending for the member, and are
// found before anything new.
func TestLostDeliveryIsFoundInTheOwnPendingList(t *testing.T) {
	w := newWorld(t)
	ids := w.append(9)
	b := &breaker{at: func(n, _ int) string {
		if n == 1 {
			return "after"
		}
		return ""
	}}
	var j journal
	w.start("a", j.handle, b.option, with(func(c *Config) {
		c.Count, c.MinIdle, c.ClaimEvery = 4, time.Hour, time.Hour
	}))
	until(t, "all are handled", func() bool { return w.allDone(ids[8]) })
	equalIDs(t, "handled, in order", j.ids(), ids)
	if b.count() != 1 {
		t.Errorf("broken %d times", b.count())
	}
}

// A read that carried acknowledgements and broke, whether the server has done it
// or not: what was handled is not handled again.
func TestLostAcknowledgementsAreSentAgain(t *testing.T) {
	for _, when := range []string{"before", "after"} {
		t.Run(when, func(t *testing.T) {
			w := newWorld(t)
			ids := w.append(30)
			b := &breaker{at: func(n, acks int) string {
				if acks > 0 && n%2 == 0 {
					return when
				}
				return ""
			}}
			var j journal
			m := w.start("a", j.handle, b.option, with(func(c *Config) { c.Count = 4 }))
			until(t, "all are handled", func() bool { return w.allDone(ids[29]) })
			equalIDs(t, "handled, each once and in order", j.ids(), ids)
			if b.count() == 0 {
				t.Error("no read that carried acknowledgements was broken, so this test shows nothing")
			}
			until(t, "all are counted", func() bool { s := m.Stats(); return s.Acked+s.NotOwned >= 30 })
		})
	}
}

// The client's half of the connection breaks while a read is parked at the
// server. The server would hand the next entry to the dead half.
func TestHalfOpenConnectionIsEndedAtTheServer(t *testing.T) {
	w := newWorld(t)
	proxy := newProxy(t, w.server.Addr)
	client := w.open(redislog.Config{URL: proxy.url()})
	var j journal
	m := w.startOn(client.Log(w.stream), "a", j.handle, with(func(c *Config) {
		c.Block, c.MinIdle, c.ClaimEvery = time.Minute, time.Hour, time.Hour
	}))
	<-m.ready
	until(t, "it is parked", m.parked)
	until(t, "the server knows", func() bool { return w.blockedClients() == 1 })
	proxy.cutClients()
	until(t, "it is parked again", func() bool { return m.Stats().Reconnects > 0 && m.parked() })
	ids := w.append(2)
	until(t, "they are handled", func() bool { return j.len() == 2 && w.allDone(ids[1]) })
	equalIDs(t, "handled", j.ids(), ids)
}
