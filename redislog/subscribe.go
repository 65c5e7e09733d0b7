package redislog

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/evtlog/evtlog/keyspace"
)

// PingEvery is how long a subscription may be silent before it asks the server
// whether it is still there. Twice this long without a sign is a dead
// connection.
const PingEvery = 10 * time.Second

// Publish announces a payload on the channel of a queue and returns how many
// subscribers the server had for it. Delivery is at most once. A bad queue name
// is a *keyspace.NameError.
func (c *Client) Publish(ctx context.Context, queue string, payload []byte) (receivers int64, err error) {
	if err := keyspace.CheckQueue(queue); err != nil {
		return 0, err
	}
	err = c.ask(ctx, "PUBLISH "+queue, command{"PUBLISH", keyspace.Events(queue), payload}, func(reply any) (err error) {
		receivers, err = integer(reply)
		return err
	})
	return receivers, err
}

// Subscription receives the announcements of one queue on a connection of its
// own. One goroutine calls Receive; Close may be called by any and unblocks it.
//
// The server drops announcements while the connection is down and when the
// receiver is too slow: a subscriber compares each announcement's previous id
// with what it saw last, and reads the hole from the log.
type Subscription struct {
	w       *wire
	channel string
	op      string
	every   time.Duration
	// pinged is when the unanswered ping was sent, zero when there is none.
	pinged time.Time
}

// Subscribe returns after the server has confirmed the subscription: what is
// published from then on is received.
func (c *Client) Subscribe(ctx context.Context, queue string) (*Subscription, error) {
	if err := keyspace.CheckQueue(queue); err != nil {
		return nil, err
	}
	w, _, err := c.private(ctx, "feed:"+queue)
	if err != nil {
		return nil, err
	}
	s := &Subscription{w: w, channel: keyspace.Events(queue), op: "subscribe " + queue, every: PingEvery}
	stop := w.until(ctx)
	err = s.confirm()
	if stop() {
		// Confirmed or not, the connection is closed.
		err = &ConnError{Op: s.op, Addr: c.ep.addr, Err: context.Cause(ctx)}
	}
	if err != nil {
		_ = w.close()
		return nil, err
	}
	return s, nil
}

func (s *Subscription) confirm() error {
	s.w.out = appendCommand(s.w.out, "SUBSCRIBE", s.channel)
	s.w.unanswered++
	if err := s.w.flush(s.op, 0); err != nil {
		return err
	}
	v, err := s.w.value(s.op)
	if err != nil {
		return err
	}
	if refused, ok := v.(redis.Error); ok {
		return serverError(s.op, s.w.addr, string(refused))
	}
	kind, _, ok := message(v)
	if !ok || kind != "subscribe" {
		return s.w.fail(s.op, protocolError("the subscription was not confirmed"))
	}
	return nil
}

// Receive returns the next payload, which belongs to the receiver. When ctx ends
// it returns the context's error, and the subscription stays usable. Any other
// error is a *ConnError, at this and every later call: subscribe anew and fill
// the hole.
func (s *Subscription) Receive(ctx context.Context) ([]byte, error) {
	for {
		if err := s.await(ctx); err != nil {
			return nil, err
		}
		s.w.unanswered++
		v, err := s.w.value(s.op)
		if err != nil {
			return nil, err
		}
		s.pinged = time.Time{}
		kind, payload, ok := message(v)
		if !ok {
			return nil, s.w.fail(s.op, protocolError("not a message of a subscription"))
		}
		if kind == "message" {
			return payload, nil
		}
	}
}

// await waits until a whole message is buffered. It pings when nothing came for
// a while, and gives up when that is not answered.
func (s *Subscription) await(ctx context.Context) error {
	if s.w.err != nil {
		return s.w.err
	}
	since := time.Now()
	m := newMeasure()
	for {
		done, err := m.advance(s.w.in.buffered())
		if err != nil {
			return s.w.fail(s.op, err)
		}
		if done {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if !s.pinged.IsZero() {
			since = s.pinged
		}
		err = s.fill(ctx, since.Add(s.every))
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !isTimeout(err):
			return s.w.fail(s.op, err)
		case !s.pinged.IsZero():
			return s.w.fail(s.op, err)
		default:
			if err := s.ping(); err != nil {
				return err
			}
		}
	}
}

// fill reads once, until a deadline or the end of ctx.
func (s *Subscription) fill(ctx context.Context, deadline time.Time) error {
	if err := s.w.conn.SetReadDeadline(deadline); err != nil {
		return err
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		_ = s.w.conn.SetReadDeadline(time.Unix(1, 0))
	})
	err := s.w.in.fill()
	if !stop() {
		// Its deadline must not hit a later read.
		<-ended
	}
	return err
}

func (s *Subscription) ping() error {
	s.w.out = appendCommand(s.w.out, "PING")
	if err := s.w.flush(s.op, 0); err != nil {
		return err
	}
	s.pinged = time.Now()
	return nil
}

// message takes an answer of a subscribed connection apart. A pong has no
// channel.
func message(v any) (kind string, payload []byte, ok bool) {
	if s, isStatus := v.(string); isStatus {
		return s, nil, true
	}
	parts, _ := v.([]any)
	if len(parts) < 2 {
		return "", nil, false
	}
	first, _ := parts[0].([]byte)
	payload, _ = parts[len(parts)-1].([]byte)
	return string(first), payload, true
}

// Close ends the subscription. It may be called twice, and by any goroutine.
func (s *Subscription) Close() error { return s.w.close() }
