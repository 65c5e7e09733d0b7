package client

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/evtlog/evtlog/archive/replica/api"
)

// Config configures a Client. Only Addresses is required.
type Config struct {
	// Addresses are the HTTP addresses of the nodes, "host:port". Hosts may be
	// DNS names. One is enough when it is always up; give all of them.
	Addresses []string
	// Cluster is the cluster id that the nodes must belong to. Empty accepts any
	// and then holds on to the one met first.
	Cluster string
	// Token is the bearer token of the cluster; needed to fold when it has one.
	Token string
	// TLS makes every call use TLS; nil means cleartext.
	TLS *tls.Config
	// CallTimeout is the limit of one attempt, and for a streamed read the
	// longest silence. A frozen leader costs exactly this. Zero means 3 s. The
	// whole call is limited by the caller's context.
	CallTimeout time.Duration
	// RetryMin and RetryMax bound the pause between attempts, which doubles from
	// the one to the other. Zero means 20 ms and 100 ms: to ask who leads is cheap,
	// and a pause that is too long is time without a fold.
	RetryMin, RetryMax time.Duration
	// Dial replaces the dialler, which waits 1 s, or CallTimeout if that is less.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Logger gets one line for every attempt that failed, at debug level. nil
	// discards them.
	Logger *slog.Logger
}

// dialTimeout bounds a connect: nothing was sent, so another node can be tried.
const dialTimeout = time.Second

func (c Config) withDefaults() Config {
	if c.CallTimeout == 0 {
		c.CallTimeout = 3 * time.Second
	}
	if c.RetryMin == 0 {
		c.RetryMin = 20 * time.Millisecond
	}
	if c.RetryMax == 0 {
		c.RetryMax = 100 * time.Millisecond
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: min(c.CallTimeout, dialTimeout)}).DialContext
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	if len(c.Addresses) == 0 {
		return fmt.Errorf("client: %w: Addresses is empty; name at least one node", api.ErrBadRequest)
	}
	for i, a := range c.Addresses {
		if err := api.CheckHostPort(a); err != nil {
			return fmt.Errorf("client: Addresses[%d]: %w", i, err)
		}
	}
	if c.CallTimeout < 0 || c.RetryMin < 0 || c.RetryMax < c.RetryMin {
		return fmt.Errorf("client: %w: CallTimeout %s and RetryMin %s must not be negative, nor RetryMax %s below RetryMin", api.ErrBadRequest, c.CallTimeout, c.RetryMin, c.RetryMax)
	}
	return nil
}
