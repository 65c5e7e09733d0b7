package api

import (
	"context"
	"crypto/subtle"
	"fmt"
	"net/http"

	"connectrpc.com/connect"
)

// Headers of every call. The cluster header is optional for clients and always
// set between nodes; a node refuses a call that names another cluster.
const (
	HeaderCluster     = "Evtlog-Cluster"
	HeaderIncarnation = "Evtlog-Incarnation"
)

// Identity is which cluster a caller or a node belongs to. Both parts may be
// empty: not known yet. Two clusters that were given the same id differ in
// their incarnation, which is drawn at random when a cluster is bootstrapped.
type Identity struct {
	Cluster, Incarnation string
}

// String returns "cluster/incarnation".
func (i Identity) String() string { return i.Cluster + "/" + i.Incarnation }

// Matches reports whether two identities may talk: what both know must be equal.
// Otherwise it is a *ForeignClusterError that names ours and theirs.
func (i Identity) Matches(theirs Identity) error {
	if differ(i.Cluster, theirs.Cluster) || differ(i.Incarnation, theirs.Incarnation) {
		return &ForeignClusterError{Ours: i.String(), Theirs: theirs.String()}
	}
	return nil
}

func differ(a, b string) bool { return a != "" && b != "" && a != b }

// Credentials are put on every call a client or node makes. The zero value adds
// nothing.
type Credentials struct {
	// Token is the bearer token of the mutating calls.
	Token string
	// Identity is read at each call.
	Identity func() Identity
}

// WrapUnary implements connect.Interceptor.
func (c Credentials) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		c.apply(req.Header())
		return next(ctx, req)
	}
}

// WrapStreamingClient implements connect.Interceptor.
func (c Credentials) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		conn := next(ctx, spec)
		c.apply(conn.RequestHeader())
		return conn
	}
}

// WrapStreamingHandler implements connect.Interceptor; it changes nothing.
func (c Credentials) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

func (c Credentials) apply(h http.Header) {
	if c.Token != "" {
		h.Set("Authorization", "Bearer "+c.Token)
	}
	if c.Identity != nil {
		id := c.Identity()
		setIf(h, HeaderCluster, id.Cluster)
		setIf(h, HeaderIncarnation, id.Incarnation)
	}
}

func setIf(h http.Header, key, value string) {
	if value != "" {
		h.Set(key, value)
	}
}

// IdentityOf returns what a call says of its cluster.
func IdentityOf(h http.Header) Identity {
	return Identity{Cluster: h.Get(HeaderCluster), Incarnation: h.Get(HeaderIncarnation)}
}

// CheckToken reports whether a call carries the token. An empty token lets
// every call through. The comparison takes the same time whatever differs. The
// error wraps ErrDenied and never holds a token.
func CheckToken(token string, h http.Header) error {
	if token == "" {
		return nil
	}
	got := h.Get("Authorization")
	if subtle.ConstantTimeCompare([]byte(got), []byte("Bearer "+token)) == 1 {
		return nil
	}
	if got == "" {
		return fmt.Errorf("replica: %w: this call needs the bearer token of the cluster", ErrDenied)
	}
	return fmt.Errorf("replica: %w: the bearer token is not the cluster's", ErrDenied)
}
