package redislog

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"
)

const (
	// idleCheck is how long a connection may rest before it is asked whether it
	// still works; idleClose when it is given up; maxAge when it is replaced, so
	// that a changed address is found without a failure.
	idleCheck = 10 * time.Second
	idleClose = time.Minute
	maxAge    = 30 * time.Minute
)

func (c *Client) newPool() *redis.Pool {
	return &redis.Pool{
		MaxIdle:         c.cfg.PoolSize,
		MaxActive:       c.cfg.PoolSize,
		Wait:            true,
		IdleTimeout:     idleClose,
		MaxConnLifetime: maxAge,
		DialContext: func(ctx context.Context) (redis.Conn, error) {
			l, err := c.dial(ctx, "commands")
			if err != nil {
				return nil, err
			}
			return &pooled{Conn: l.redis, wire: newWire(l.net, c.ep.addr, c.cfg.CommandTimeout)}, nil
		},
		TestOnBorrowContext: func(ctx context.Context, conn redis.Conn, lastUsed time.Time) error {
			if time.Since(lastUsed) < idleCheck {
				return nil
			}
			_, err := redis.DoContext(conn, ctx, "PING")
			return err
		},
	}
}

// pooled is what the pool holds: redigo's connection, plus the rule when it may
// not be used again. It implements redis.Conn and redis.ConnWithContext.
type pooled struct {
	redis.Conn
	// wire speaks on the same socket, for commands whose answer is worth
	// decoding by hand. Between commands neither side has anything buffered.
	wire *wire
	// err is why the connection must not be used again although redigo would.
	err error
}

// handWritten is a command that reads its own answer. It is given to Do as the
// only argument, which is how it gets through redigo's pool to the socket.
type handWritten func(w *wire) error

// DoContext runs a command under the limit of ctx and CommandTimeout. When ctx
// ends first the socket is closed. redigo's own DoContext would start a
// goroutine for each command and leave it with the connection's buffers.
func (p *pooled) DoContext(ctx context.Context, name string, args ...any) (any, error) {
	if err := p.Err(); err != nil {
		return nil, err
	}
	detach := context.AfterFunc(ctx, func() { _ = p.wire.close() })
	reply, err := p.run(ctx, name, args)
	if !detach() {
		p.err = context.Cause(ctx)
	}
	p.inspect(reply, err)
	return reply, err
}

func (p *pooled) run(ctx context.Context, name string, args []any) (any, error) {
	if len(args) == 1 {
		if run, ok := args[0].(handWritten); ok {
			return nil, p.wire.settled(run(p.wire))
		}
	}
	limit := p.wire.timeout
	if deadline, ok := ctx.Deadline(); ok {
		// Zero would mean no limit at all.
		limit = max(min(limit, time.Until(deadline)), time.Millisecond)
	}
	return redis.DoWithTimeout(p.Conn, limit, name, args...)
}

// inspect marks the connection when the server is not the one to talk to.
func (p *pooled) inspect(reply any, err error) {
	var refused redis.Error
	if errors.As(err, &refused) && lookUp(string(refused)).closes {
		p.err = refused
	}
	if replies, ok := reply.([]any); ok {
		for _, r := range replies {
			if refused, ok := r.(redis.Error); ok && lookUp(string(refused)).closes {
				p.err = refused
			}
		}
	}
}

// Err tells the pool to drop the connection.
func (p *pooled) Err() error {
	if p.err != nil {
		return p.err
	}
	if p.wire.err != nil {
		return p.wire.err
	}
	return p.Conn.Err()
}

// Do runs a command; the pool calls it with "" to read what is outstanding when
// a connection is given back.
func (p *pooled) Do(name string, args ...any) (any, error) {
	return p.DoContext(context.Background(), name, args...)
}

// Send buffers a command. Nothing is written to a connection that is to be
// dropped.
func (p *pooled) Send(name string, args ...any) error {
	if err := p.Err(); err != nil {
		return err
	}
	return p.Conn.Send(name, args...)
}

// ReceiveContext completes redis.ConnWithContext; answers are read by DoContext.
func (p *pooled) ReceiveContext(context.Context) (any, error) { return p.Receive() }
