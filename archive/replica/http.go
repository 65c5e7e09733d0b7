package replica

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/archive/replica/command"
	pb "github.com/evtlog/evtlog/archive/replica/replicapb"
)

// Limits of the HTTP port. A request that passes them is refused.
const (
	maxHeaderBytes = 16 << 10
	// maxRequestBytes is above the largest fold, whose records take a little more
	// room as messages than in the log.
	maxRequestBytes = 2*command.MaxLoneBytes + 1<<20
	headerTimeout   = 5 * time.Second
	bodyTimeout     = 30 * time.Second
	idleTimeout     = 2 * time.Minute
	// writeStall is how long a peer may leave one part of an answer unread.
	writeStall = 30 * time.Second
	// callLimit bounds a unary call that came without a deadline.
	callLimit = 30 * time.Second
)

// mutating are the calls that need the token.
var mutating = map[string]bool{
	pb.ArchiveServiceFoldProcedure:     true,
	pb.ArchiveServiceJoinProcedure:     true,
	pb.ArchiveServiceRemoveProcedure:   true,
	pb.ArchiveServiceTransferProcedure: true,
}

func (n *Node) newHTTPServer() *http.Server {
	mux := http.NewServeMux()
	for pattern, h := range n.cfg.Handlers {
		mux.Handle(pattern, h)
	}
	mux.HandleFunc("/livez", n.livez)
	mux.HandleFunc("/readyz", n.readyz)
	path, handler := pb.NewArchiveServiceHandler(service{n},
		connect.WithReadMaxBytes(maxRequestBytes),
		connect.WithInterceptors(gate{n}),
		connect.WithRecover(n.recovered),
	)
	mux.Handle(path, limitTimes(handler))
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           mux,
		Protocols:         protocols,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(n.cfg.Logger.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return n.ctx },
	}
}

// limitTimes bounds how long a body may take to arrive, and each part of an
// answer to be taken. A long answer may take as long as it makes progress.
func limitTimes(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		// Test recorders may not know deadlines; the call limit holds.
		_ = rc.SetReadDeadline(time.Now().Add(bodyTimeout))
		next.ServeHTTP(stallWriter{w, rc}, r)
	})
}

// stallWriter moves the write deadline on with every part it writes.
type stallWriter struct {
	http.ResponseWriter
	rc *http.ResponseController
}

func (w stallWriter) Write(b []byte) (int, error) {
	_ = w.rc.SetWriteDeadline(time.Now().Add(writeStall))
	return w.ResponseWriter.Write(b)
}

// Flush implements http.Flusher, which streamed answers need.
func (w stallWriter) Flush() {
	_ = w.rc.SetWriteDeadline(time.Now().Add(writeStall))
	_ = w.rc.Flush()
}

// Unwrap lets a http.ResponseController reach what is wrapped.
func (w stallWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (n *Node) recovered(_ context.Context, spec connect.Spec, _ http.Header, p any) error {
	n.cfg.Logger.Error("a call panicked", "call", spec.Procedure, "panic", p)
	return connect.NewError(connect.CodeInternal, fmt.Errorf("replica: %s failed inside the node; see its log", spec.Procedure))
}

// gate checks the cluster and the token of every call, gives it a deadline, and
// says in the answer who answered.
type gate struct{ n *Node }

func (g gate) check(procedure string, h http.Header) error {
	if err := g.n.identity().Matches(api.IdentityOf(h)); err != nil {
		return err
	}
	if mutating[procedure] {
		return api.CheckToken(g.n.cfg.Token, h)
	}
	return nil
}

func (g gate) sign(h http.Header) {
	id := g.n.identity()
	h.Set(api.HeaderCluster, id.Cluster)
	if id.Incarnation != "" {
		h.Set(api.HeaderIncarnation, id.Incarnation)
	}
}

// WrapUnary implements connect.Interceptor.
func (g gate) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if err := g.check(req.Spec().Procedure, req.Header()); err != nil {
			return nil, api.ToWire(err)
		}
		if _, ok := ctx.Deadline(); !ok {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, callLimit)
			defer cancel()
		}
		res, err := next(ctx, req)
		if err == nil {
			g.sign(res.Header())
		}
		return res, err
	}
}

// WrapStreamingClient implements connect.Interceptor; nodes use it nowhere.
func (g gate) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor.
func (g gate) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		if err := g.check(conn.Spec().Procedure, conn.RequestHeader()); err != nil {
			return api.ToWire(err)
		}
		g.sign(conn.ResponseHeader())
		return next(ctx, conn)
	}
}

// livez says that the process serves at all.
func (n *Node) livez(w http.ResponseWriter, _ *http.Request) {
	writeProbe(w, n.checks(), false)
}

// readyz says whether the node can do its work.
func (n *Node) readyz(w http.ResponseWriter, _ *http.Request) {
	writeProbe(w, n.checks(), true)
}

// Check is one line of a probe.
type Check struct {
	Name string
	OK   bool
	// Required: the node is not ready without it.
	Required bool
	// Detail says why it is not OK.
	Detail string
}

// probe renders checks: "[+]name ok" or "[-]name reason". ok is false when a
// required one fails.
func probe(checks []Check) (text string, ok bool) {
	var b strings.Builder
	ok = true
	for _, c := range checks {
		if c.OK {
			fmt.Fprintf(&b, "[+]%s ok\n", c.Name)
			continue
		}
		fmt.Fprintf(&b, "[-]%s %s\n", c.Name, c.Detail)
		ok = ok && !c.Required
	}
	return b.String(), ok
}

func writeProbe(w http.ResponseWriter, checks []Check, strict bool) {
	text, ok := probe(checks)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if strict && !ok {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	// The prober may be gone; there is nobody to tell.
	_, _ = w.Write([]byte(text))
}

// newPeerHTTP returns the HTTP client that nodes use among each other.
func newPeerHTTP(cfg Config) *http.Client {
	dial := (&net.Dialer{Timeout: 2 * time.Second}).DialContext
	if cfg.faults.dial != nil {
		dial = cfg.faults.dial
	}
	var tlsConfig *tls.Config
	if cfg.TLS != nil {
		tlsConfig = cfg.TLS.Clone()
	}
	return &http.Client{Transport: &http.Transport{
		DialContext:         dial,
		TLSClientConfig:     tlsConfig,
		TLSHandshakeTimeout: 3 * time.Second,
		MaxIdleConnsPerHost: 8,
		IdleConnTimeout:     time.Minute,
		ForceAttemptHTTP2:   cfg.TLS != nil,
	}}
}
