package replica

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/archive/replica/client"
	"github.com/evtlog/evtlog/evtid"
)

// testTLS returns settings that trust one new authority, with a certificate of
// it for this host.
func testTLS(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		RootCAs:      pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}
}

func TestMutualTLSAndToken(t *testing.T) {
	t.Parallel()
	conf := testTLS(t)
	c := newCluster(t, 3, func(_ string, cfg *Config) { cfg.TLS, cfg.Token = conf, "secret" })
	addrs := c.httpAddresses()
	try := func(token string, tc *tls.Config) error {
		cl, err := client.New(client.Config{Addresses: addrs, Token: token, TLS: tc})
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		w := &writer{stream: scores, arch: cl}
		return w.fold(ctx, 1)
	}
	if err := try("secret", conf); err != nil {
		t.Errorf("with certificate and token: %v", err)
	}
	if err := try("wrong", conf); !errors.Is(err, api.ErrDenied) || strings.Contains(err.Error(), "secret") {
		t.Errorf("with a wrong token: %v", err)
	}
	stranger := testTLS(t)
	stranger.RootCAs = conf.RootCAs
	for name, tc := range map[string]*tls.Config{"no certificate": {RootCAs: conf.RootCAs}, "a stranger's certificate": stranger, "cleartext": nil} {
		if err := try("secret", tc); err == nil {
			t.Errorf("a fold got in with %s", name)
		}
	}
	// Embedded folds from every node, over TLS between them.
	c.waitEqual(scores, 1)
	w := &writer{stream: scores, arch: c.follower().Archive(), n: 1}
	first, err := evtid.Make(evtid.EpochMillis+1, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	w.w = first
	w.mustFold(t, 3, 1)
	c.waitEqual(scores, 4)
}

func TestProbesAndLimits(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, func(_ string, cfg *Config) {
		cfg.Handlers = map[string]http.Handler{"/metrics": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "up 1\n") })}
	})
	n := c.leader()
	eventually(t, 30*time.Second, "settled node", func() bool { return n.engine().settled.Load() && n.engine().caughtUp.Load() })
	base := "http://" + n.Address().HTTP
	get := func(path string) (int, string) {
		t.Helper()
		res, err := httpForTests.Get(base + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(b)
	}
	if code, body := get("/readyz"); code != 200 || !strings.Contains(body, "[+]leader ok\n") {
		t.Errorf("readyz: %d %q", code, body)
	}
	if code, body := get("/metrics"); code != 200 || body != "up 1\n" {
		t.Errorf("metrics: %d %q", code, body)
	}
	why := errors.New("the test sets it aside")
	n.aside.Store(&why)
	if code, body := get("/readyz"); code != 503 || !strings.Contains(body, "[-]serving the test sets it aside\n") {
		t.Errorf("readyz of a node that stepped aside: %d %q", code, body)
	}
	if code, _ := get("/livez"); code != 200 {
		t.Errorf("livez: %d", code)
	}
	n.aside.Store(nil)

	// A request larger than any fold is refused, and a fold that does not fit one
	// entry of the log is refused with its size.
	res, err := httpForTests.Post(base+"/evtlog.archive.v1.ArchiveService/Fold", "application/proto", bytes.NewReader(make([]byte, maxRequestBytes+1)))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode == 200 {
		t.Error("a request of any size is taken")
	}
	w := &writer{stream: scores, arch: c.client(), size: 400 << 10}
	var large *api.TooLargeError
	if err := w.fold(context.Background(), 2); !errors.As(err, &large) {
		t.Errorf("a fold of 800 KiB: %v", err)
	}
	w.size = 1 << 20
	if err := w.fold(context.Background(), 1); err != nil {
		t.Errorf("a lone record of 1 MiB: %v", err)
	}
}
