package redislog

import (
	"context"
	"errors"

	"github.com/gomodule/redigo/redis"
)

// command is a command's words. Only strings, byte slices and whole numbers are
// put in: redigo would print anything else.
type command []any

func (c command) name() string { return c[0].(string) }

// session is one pooled connection for the length of one operation.
type session struct {
	c    *Client
	ctx  context.Context
	conn redis.Conn
	// op is what errors say was being done.
	op string
}

// with runs f on a pooled connection.
func (c *Client) with(ctx context.Context, op string, f func(*session) error) error {
	if c.closed.Load() {
		return c.errClosed(op)
	}
	conn, err := c.pool.GetContext(ctx)
	if err != nil {
		return c.borrowError(ctx, op, err)
	}
	defer func() {
		if err := conn.Err(); err != nil {
			c.cfg.Logger.LogAttrs(ctx, levelDropped, "redislog: connection dropped", attrs(op, c.ep.addr, err)...)
		}
		_ = conn.Close()
	}()
	s := &session{c: c, ctx: ctx, conn: conn, op: op}
	err = f(s)
	var nonsense protocolError
	if errors.As(err, &nonsense) {
		return s.drop(nonsense)
	}
	return err
}

// drop closes the connection after an answer that made no sense: the next one
// could be the answer to something else.
func (s *session) drop(why protocolError) error {
	_ = s.byHand(func(w *wire) error { return w.fail(s.op, why) })
	return &ConnError{Op: s.op, Addr: s.c.ep.addr, Err: why}
}

// borrowError passes on what dialling says, which is typed already.
func (c *Client) borrowError(ctx context.Context, op string, err error) error {
	var server *ServerError
	var conn *ConnError
	if errors.As(err, &server) || errors.As(err, &conn) {
		return err
	}
	if c.closed.Load() {
		return c.errClosed(op)
	}
	return &ConnError{Op: op, Addr: c.ep.addr, Err: cause(ctx, err)}
}

// do runs one command.
func (s *session) do(cmd command) (any, error) {
	reply, err := redis.DoContext(s.conn, s.ctx, cmd.name(), cmd[1:]...)
	return reply, s.typed(err)
}

// byHand gives the socket to f. It returns what f does, except that a broken
// connection is put down to the context when that broke it.
func (s *session) byHand(f handWritten) error {
	ran := false
	_, err := redis.DoContext(s.conn, s.ctx, "", handWritten(func(w *wire) error {
		ran = true
		return f(w)
	}))
	var conn *ConnError
	switch {
	case !ran:
		return s.typed(err)
	case errors.As(err, &conn):
		return &ConnError{Op: s.op, Addr: conn.Addr, Err: cause(s.ctx, conn.Err)}
	}
	return err
}

// pipeline runs the commands in one round trip. Refusals are elements of the
// result, of type redis.Error; err is about the connection only.
func (s *session) pipeline(cmds ...command) ([]any, error) {
	for _, cmd := range cmds {
		if err := s.conn.Send(cmd.name(), cmd[1:]...); err != nil {
			return nil, s.typed(err)
		}
	}
	reply, err := redis.DoContext(s.conn, s.ctx, "")
	if err != nil {
		return nil, s.typed(err)
	}
	replies, _ := reply.([]any)
	if len(replies) != len(cmds) {
		return nil, protocolError("the number of answers is not that of the commands")
	}
	return replies, nil
}

// all runs the commands in one round trip and fails with the first refusal.
func (s *session) all(cmds ...command) ([]any, error) {
	replies, err := s.pipeline(cmds...)
	if err != nil {
		return nil, err
	}
	for _, r := range replies {
		if err := s.refusal(r); err != nil {
			return nil, err
		}
	}
	return replies, nil
}

// transaction runs the commands between MULTI and EXEC. done is false when a
// watched key had changed and nothing was executed. Refusals of single commands
// are elements of the result: they do not stop the others.
func (s *session) transaction(cmds ...command) (replies []any, done bool, err error) {
	framed := append(append([]command{{"MULTI"}}, cmds...), command{"EXEC"})
	answers, err := s.pipeline(framed...)
	if err != nil {
		return nil, false, err
	}
	// A command that was refused when it was queued says why; EXEC only says
	// EXECABORT.
	for _, a := range answers {
		if err := s.refusal(a); err != nil {
			return nil, false, err
		}
	}
	switch last := answers[len(answers)-1].(type) {
	case nil:
		return nil, false, nil
	case []any:
		if len(last) == len(cmds) {
			return last, true, nil
		}
	}
	return nil, false, protocolError("EXEC did not answer each command")
}

// refusal returns the typed error of a reply that is one.
func (s *session) refusal(reply any) error {
	if refused, ok := reply.(redis.Error); ok {
		return serverError(s.op, s.c.ep.addr, string(refused))
	}
	return nil
}

// refusalAt is refusal for a command on another key than the operation is about:
// op names it.
func (s *session) refusalAt(reply any, op string) error {
	if refused, ok := reply.(redis.Error); ok {
		return serverError(op, s.c.ep.addr, string(refused))
	}
	return nil
}

// typed turns redigo's error into one of this package.
func (s *session) typed(err error) error {
	if err == nil {
		return nil
	}
	var refused redis.Error
	if errors.As(err, &refused) {
		return serverError(s.op, s.c.ep.addr, string(refused))
	}
	return &ConnError{Op: s.op, Addr: s.c.ep.addr, Err: cause(s.ctx, err)}
}

// ask runs one command on a pooled connection and has its answer decoded before
// the connection is given back: an answer that does not fit the question takes
// the connection with it. A nil decode takes any answer.
func (c *Client) ask(ctx context.Context, op string, cmd command, decode func(reply any) error) error {
	return c.with(ctx, op, func(s *session) error {
		reply, err := s.do(cmd)
		if err != nil || decode == nil {
			return err
		}
		return decode(reply)
	})
}
