package redislog

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"
)

// Defaults of Config.
const (
	DefaultURL            = "redis://127.0.0.1:6379/0"
	DefaultClientName     = "evtlog"
	DefaultDialTimeout    = 5 * time.Second
	DefaultCommandTimeout = 5 * time.Second
	DefaultPoolSize       = 8
)

// Config says how to reach Redis. The zero value is a local server without a
// password.
type Config struct {
	// URL is redis://[[user]:password@]host[:port][/database], the same with
	// rediss:// for TLS, or unix://[[user]:password@]/path/to.sock[?db=n].
	// Special characters of the password are percent-encoded. Default
	// DefaultURL.
	URL string
	// TLS is used with rediss://. nil verifies the server by the system's roots
	// and the URL's host name.
	TLS *tls.Config
	// ClientName begins the name that each connection gives itself (CLIENT
	// LIST); its role follows, as in "evtlog:writer:cm/feed". What the server
	// refuses in a name becomes '_'. Default DefaultClientName.
	ClientName string
	// DialTimeout limits dialling, TLS, authentication and naming of one
	// connection together. Default DefaultDialTimeout.
	DialTimeout time.Duration
	// CommandTimeout limits each command, or flush of a pipeline, on top of any
	// time that the command itself may block. Default DefaultCommandTimeout.
	CommandTimeout time.Duration
	// PoolSize is the largest number of connections for short commands. Writers,
	// group readers, subscriptions and look-ups are not counted. Default
	// DefaultPoolSize.
	PoolSize int
	// Dialer makes the network connection; tests put a faulty network here. nil
	// dials TCP or a Unix socket.
	Dialer func(ctx context.Context, network, addr string) (net.Conn, error)
	// Logger takes a line for each connection that is dropped. nil discards.
	Logger *slog.Logger
}

// ConfigError names the field that was refused. Nothing was dialled.
type ConfigError struct {
	// Field is the name of the Config field, such as "URL".
	Field string
	// Reason says what is wrong with it. It never repeats a password.
	Reason string
}

// Error implements error.
func (e *ConfigError) Error() string {
	return fmt.Sprintf("redislog: Config.%s refused: %s", e.Field, e.Reason)
}

func (c Config) withDefaults() Config {
	if c.URL == "" {
		c.URL = DefaultURL
	}
	if c.ClientName == "" {
		c.ClientName = DefaultClientName
	}
	if c.DialTimeout == 0 {
		c.DialTimeout = DefaultDialTimeout
	}
	if c.CommandTimeout == 0 {
		c.CommandTimeout = DefaultCommandTimeout
	}
	if c.PoolSize == 0 {
		c.PoolSize = DefaultPoolSize
	}
	if c.Dialer == nil {
		c.Dialer = (&net.Dialer{KeepAlive: keepAlive}).DialContext
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// validate looks at a Config that has its defaults.
func (c Config) validate() (endpoint, error) {
	switch {
	case c.DialTimeout < time.Millisecond:
		return endpoint{}, &ConfigError{Field: "DialTimeout", Reason: c.DialTimeout.String() + " is below 1ms"}
	case c.CommandTimeout < time.Millisecond:
		return endpoint{}, &ConfigError{Field: "CommandTimeout", Reason: c.CommandTimeout.String() + " is below 1ms"}
	case c.PoolSize < 0:
		return endpoint{}, &ConfigError{Field: "PoolSize", Reason: strconv.Itoa(c.PoolSize) + " is negative"}
	}
	ep, err := parseURL(c.URL)
	if err != nil {
		return endpoint{}, err
	}
	if c.TLS != nil && !ep.tls {
		return endpoint{}, &ConfigError{Field: "TLS", Reason: "it is set but the URL is not rediss://; the connection would be in the clear"}
	}
	return ep, nil
}

// roleName is the name a connection gives itself. Redis refuses spaces and
// everything outside of printable ASCII.
func roleName(base, role string) string {
	name := []byte(base + ":" + role)
	for i, c := range name {
		if c < '!' || c > '~' {
			name[i] = '_'
		}
	}
	return string(name)
}
