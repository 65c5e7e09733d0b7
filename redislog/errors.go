package redislog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/keyspace"
)

// Class is what to do about an error.
type Class uint8

// The classes. The zero Class belongs to a nil error.
const (
	// Transient: nothing is wrong with the request. Connect again with back-off.
	Transient Class = iota + 1
	// BackPressure: the server cannot take this now. Keep the connection, slow
	// down, try again.
	BackPressure
	// Topology: the server, stream or group is not what it was. Look again
	// (address, group), then go on.
	Topology
	// Terminal: it stays refused until a person changes something. Do not retry.
	Terminal
	// Caller: the request itself is wrong. Do not repeat it.
	Caller
)

// String returns the lower-case name, "none" for the zero Class.
func (c Class) String() string {
	names := [...]string{"none", "transient", "back-pressure", "topology", "terminal", "caller"}
	if int(c) >= len(names) {
		return fmt.Sprintf("class(%d)", uint8(c))
	}
	return names[c]
}

// ServerError is an answer of the server that begins with '-'. The command was
// not done. It wraps the evtlog sentinel of its row in the table (ErrOutOfMemory,
// ErrDenied, ErrNoGroup, …); branch with errors.Is, or on Class.
type ServerError struct {
	// Op is the command and its subject, such as "XADD cm/feed".
	Op string
	// Addr is the server's address, without credentials.
	Addr string
	// Prefix is the first word of the message, such as "OOM".
	Prefix string
	// Message is the server's text.
	Message string
	// Class is what to do about it.
	Class Class

	sentinel error
	next     string
}

// Error implements error.
func (e *ServerError) Error() string {
	return fmt.Sprintf("redislog: %s at %s: %s; %s", e.Op, e.Addr, e.Message, e.next)
}

// Unwrap returns the evtlog sentinel.
func (e *ServerError) Unwrap() error { return e.sentinel }

// opConnect is the Op of making a connection.
const opConnect = "connect"

// ConnError is a connection that could not be made, broke, ran out of time, was
// cancelled or spoke nonsense. It has been closed. What was sent on it may or
// may not have been done: read before repeating anything that is not idempotent.
// It wraps evtlog.ErrUnavailable and the cause. Make a new connection with
// back-off.
type ConnError struct {
	// Op is what was being done, Addr the server's address without credentials.
	Op, Addr string
	// Err is the cause; after Close it is net.ErrClosed.
	Err error
}

// Error implements error.
func (e *ConnError) Error() string {
	next := "the connection is closed, its last commands may or may not have been done"
	switch {
	case errors.Is(e.Err, net.ErrClosed):
		next = "its last commands may or may not have been done"
	case e.Op == opConnect:
		next = "nothing was asked of it yet; see that Redis serves there and that the URL is right"
	}
	return fmt.Sprintf("redislog: %s at %s: %v; %s", e.Op, e.Addr, e.Err, next)
}

// Unwrap returns evtlog.ErrUnavailable and the cause.
func (e *ConnError) Unwrap() []error { return []error{evtlog.ErrUnavailable, e.Err} }

// protocolError is an answer that is not what the protocol or the command
// allows. The connection cannot be trusted after it.
type protocolError string

func (e protocolError) Error() string { return "protocol error: " + string(e) }

// Classify returns the class of an error of this package, 0 for nil. A *ConnError
// is Transient unless a refusal is behind it. Errors that are not known here (a
// cancelled context, a network error) are Transient.
func Classify(err error) Class {
	if err == nil {
		return 0
	}
	// A connection that was dropped because of a refusal has the refusal's class.
	var server *ServerError
	if errors.As(err, &server) {
		return server.Class
	}
	if class, ok := classifyOwn(err); ok {
		return class
	}
	return Transient
}

// classifyOwn classifies the errors that are made on this side of the wire.
func classifyOwn(err error) (Class, bool) {
	var (
		config  *ConfigError
		version *VersionError
		name    *keyspace.NameError
		arg     *ArgumentError
		effect  *TrimEffectError
	)
	switch {
	case errors.As(err, &config), errors.As(err, &version), errors.As(err, &effect),
		errors.Is(err, evtlog.ErrForeignFormat), errors.Is(err, evtlog.ErrForeignEntry):
		return Terminal, true
	case errors.As(err, &name), errors.As(err, &arg), errors.Is(err, evtlog.ErrNonMonotonic),
		errors.Is(err, evtlog.ErrBadField), errors.Is(err, evtlog.ErrTooLarge), errors.Is(err, evtlog.ErrBadWindow):
		return Caller, true
	}
	return 0, false
}

// ArgumentError is a request that was refused before anything was sent.
type ArgumentError struct {
	// Op is the method, Name the argument, Reason the rule it breaks.
	Op, Name, Reason string
}

// Error implements error.
func (e *ArgumentError) Error() string {
	return fmt.Sprintf("redislog: %s: %s refused: %s", e.Op, e.Name, e.Reason)
}

func badArgument(op, name, reason string) error {
	return &ArgumentError{Op: op, Name: name, Reason: reason}
}

// cause prefers the context's reason: it says why the connection was closed
// under the command.
func cause(ctx context.Context, err error) error {
	if ctxErr := context.Cause(ctx); ctxErr != nil && (err == nil || errors.Is(err, net.ErrClosed) || isTimeout(err)) {
		return ctxErr
	}
	return err
}

func isTimeout(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) && netErr.Timeout()
}

// scrub removes a secret from a server's text: old servers repeat the arguments
// of a command they do not know.
func scrub(text, secret string) string {
	if secret == "" {
		return text
	}
	return strings.ReplaceAll(text, secret, "***")
}
