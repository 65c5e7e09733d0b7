package redislog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"

	"github.com/gomodule/redigo/redis"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/keyspace"
)

// levelDropped is the level of the line about a dropped connection. The caller
// gets the error itself, and decides whether it deserves more.
const levelDropped = slog.LevelDebug

// Client is the way to one Redis. It is safe for concurrent use.
type Client struct {
	cfg    Config
	ep     endpoint
	pool   *redis.Pool
	closed atomic.Bool
	// canMoveGroups: the server is known to move a group's position with XCLAIM.
	// A stand-in that does not say its version is not trusted with it.
	canMoveGroups bool
}

// Open connects and answers once the server has: it was reached, let this user
// in, has a version that works, and its fence key names this wire format (it is
// set when there is none). All of it happens within ctx.
//
// A *ConfigError names a wrong field, a *ConnError an unreachable server, a
// *ServerError its refusal (evtlog.ErrDenied for a wrong password), a
// *VersionError a server that cannot be used, a *FenceError
// (evtlog.ErrForeignFormat) a server that belongs to another system.
func Open(ctx context.Context, cfg Config) (*Client, error) {
	cfg = cfg.withDefaults()
	ep, err := cfg.validate()
	if err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, ep: ep}
	c.pool = c.newPool()
	if err := c.admit(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// Addr returns the server's address, without credentials.
func (c *Client) Addr() string { return c.ep.addr }

// Close closes the pool. Writers, readers and subscriptions are closed by those
// who made them. It may be called twice.
func (c *Client) Close() error {
	c.closed.Store(true)
	return c.pool.Close()
}

// Log returns the handle of one stream. It costs nothing, and every handle of a
// stream is as good as another.
func (c *Client) Log(stream keyspace.Stream) *Log { return &Log{c: c, stream: stream} }

func (c *Client) errClosed(op string) error {
	return &ConnError{Op: op, Addr: c.ep.addr, Err: fmt.Errorf("the client was closed: %w", net.ErrClosed)}
}

// admit is what Open asks of the server.
func (c *Client) admit(ctx context.Context) error {
	return c.with(ctx, "open", func(s *session) error {
		if _, err := s.do(command{"PING"}); err != nil {
			return err
		}
		version, err := s.version()
		if err != nil {
			return err
		}
		if reason, ok := checkVersion(version); !ok {
			return &VersionError{Version: version, Reason: reason, Addr: c.ep.addr}
		}
		c.canMoveGroups = version != ""
		return s.fence()
	})
}

// version returns "" when the server does not tell, or does not let this user
// ask.
func (s *session) version() (string, error) {
	replies, err := s.pipeline(command{"INFO", "server"})
	if err != nil {
		return "", err
	}
	text, _ := redis.String(replies[0], nil)
	return infoField(text, "redis_version"), nil
}

// fence claims a server that has no fence key, and refuses one that belongs to
// another wire format.
func (s *session) fence() error {
	replies, err := s.pipeline(
		command{"SET", keyspace.VersionKey, keyspace.VersionValue, "NX"},
		command{"GET", keyspace.VersionKey},
	)
	if err != nil {
		return err
	}
	value, err := redis.String(replies[1], s.refusal(replies[1]))
	if errors.Is(err, redis.ErrNil) {
		// Neither set nor there: the SET was refused.
		if err = s.refusal(replies[0]); err == nil {
			err = protocolError("the fence key vanished")
		}
	}
	if err != nil {
		return err
	}
	if value != keyspace.VersionValue {
		return &FenceError{Addr: s.c.ep.addr, Value: value}
	}
	return nil
}

// FenceError says that the server holds data of another wire format. It wraps
// evtlog.ErrForeignFormat. Point the program at another server or database.
type FenceError struct {
	// Addr is the server's address, Value what its fence key says.
	Addr, Value string
}

// Error implements error.
func (e *FenceError) Error() string {
	return fmt.Sprintf("redislog: %s at %s is %q, not %q: the server belongs to another system; use another server or database", keyspace.VersionKey, e.Addr, e.Value, keyspace.VersionValue)
}

// Unwrap returns evtlog.ErrForeignFormat.
func (e *FenceError) Unwrap() error { return evtlog.ErrForeignFormat }

// Log is one stream in Redis. It is safe for concurrent use. It implements
// archive.Live.
type Log struct {
	c      *Client
	stream keyspace.Stream
	arch   Archived // nil: none that this handle knows
}

// Stream returns the stream.
func (l *Log) Stream() keyspace.Stream { return l.stream }

// name is the stream in the shared types.
func (l *Log) name() evtlog.StreamName {
	return evtlog.StreamName{Queue: l.stream.Queue(), Name: l.stream.Name()}
}

// op names a command on this stream for errors.
func (l *Log) op(verb string) string { return verb + " " + l.stream.String() }

// ask runs one command on this stream; see Client.ask.
func (l *Log) ask(ctx context.Context, verb string, cmd command, decode func(reply any) error) error {
	if err := l.check(verb); err != nil {
		return err
	}
	return l.c.ask(ctx, l.op(verb), cmd, decode)
}

func (l *Log) with(ctx context.Context, verb string, f func(*session) error) error {
	if err := l.check(verb); err != nil {
		return err
	}
	return l.c.with(ctx, l.op(verb), f)
}

// private dials a connection of its own for this stream; who is "" or the member
// it is for.
func (l *Log) private(ctx context.Context, role, who string) (*wire, int64, error) {
	if err := l.check(role); err != nil {
		return nil, 0, err
	}
	name := role + ":" + l.stream.String()
	if who != "" {
		name += ":" + who
	}
	return l.c.private(ctx, name)
}

// check refuses the zero Stream, whose keys would be everybody's.
func (l *Log) check(op string) error {
	if l.stream == (keyspace.Stream{}) {
		return badArgument(op, "stream", "it is the zero Stream; make one with keyspace.NewStream")
	}
	return nil
}

func attrs(op, addr string, err error) []slog.Attr {
	return []slog.Attr{slog.String("op", op), slog.String("addr", addr), slog.Any("err", err)}
}
