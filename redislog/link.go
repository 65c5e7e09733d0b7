package redislog

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/gomodule/redigo/redis"
)

// keepAlive finds peers that vanished without a word on connections that have
// nothing to say themselves.
const keepAlive = 30 * time.Second

// link is one connection, dialled, authenticated, named and pointed at its
// database by redigo. net is the socket below it, after TLS.
type link struct {
	redis redis.Conn
	net   net.Conn
}

// dial makes a connection for a role, within ctx and DialTimeout.
func (c *Client) dial(ctx context.Context, role string) (link, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.DialTimeout)
	defer cancel()
	var socket net.Conn
	conn, err := redis.DialContext(ctx, c.ep.network, c.ep.addr,
		redis.DialContextFunc(func(ctx context.Context, network, addr string) (net.Conn, error) {
			var err error
			socket, err = c.dialSocket(ctx, network, addr)
			return socket, err
		}),
		redis.DialReadTimeout(c.cfg.CommandTimeout),
		redis.DialWriteTimeout(c.cfg.CommandTimeout),
		redis.DialUsername(c.ep.user),
		redis.DialPassword(c.ep.password),
		redis.DialClientName(roleName(c.cfg.ClientName, role)),
		redis.DialDatabase(c.ep.db),
	)
	if err != nil {
		return link{}, c.dialError(ctx, err)
	}
	return link{redis: conn, net: socket}, nil
}

// dialSocket connects and, for rediss, shakes hands. TLS is done here and not by
// redigo so that the socket that is handed out is the encrypted one, and so that
// ctx bounds the handshake.
func (c *Client) dialSocket(ctx context.Context, network, addr string) (net.Conn, error) {
	socket, err := c.cfg.Dialer(ctx, network, addr)
	if err != nil || !c.ep.tls {
		return socket, err
	}
	cfg := c.cfg.TLS.Clone()
	if cfg == nil {
		cfg = &tls.Config{}
	}
	if cfg.ServerName == "" {
		cfg.ServerName = c.ep.host
	}
	conn := tls.Client(socket, cfg)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = socket.Close()
		return nil, err
	}
	return conn, nil
}

func (c *Client) dialError(ctx context.Context, err error) error {
	var refused redis.Error
	if errors.As(err, &refused) {
		return serverError(opConnect, c.ep.addr, scrub(string(refused), c.ep.password))
	}
	return &ConnError{Op: opConnect, Addr: c.ep.addr, Err: cause(ctx, err)}
}

// clientID asks for the server's number of the connection, 0 when the server
// does not know the command.
func (c *Client) clientID(ctx context.Context, l link) (int64, error) {
	reply, err := redis.DoContext(l.redis, ctx, "CLIENT", "ID")
	if err == nil {
		id, _ := reply.(int64)
		return id, nil
	}
	var refused redis.Error
	if errors.As(err, &refused) {
		return 0, nil
	}
	return 0, &ConnError{Op: "CLIENT ID", Addr: c.ep.addr, Err: cause(ctx, err)}
}

// private dials a connection of its own for a role that waits or streams. After
// this the hand-written protocol has the socket to itself.
func (c *Client) private(ctx context.Context, role string) (*wire, int64, error) {
	if c.closed.Load() {
		return nil, 0, c.errClosed(opConnect)
	}
	l, err := c.dial(ctx, role)
	if err != nil {
		return nil, 0, err
	}
	id, err := c.clientID(ctx, l)
	if err != nil {
		_ = l.redis.Close()
		return nil, 0, err
	}
	return newWire(l.net, c.ep.addr, c.cfg.CommandTimeout), id, nil
}
