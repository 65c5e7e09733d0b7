package redislog

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evtlog/evtlog/internal/redistest"
)

// selfSigned writes a certificate for 127.0.0.1 and its key, and returns the
// pool that trusts it.
func selfSigned(t *testing.T) (certFile, keyFile string, roots *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "evtlog test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "EC PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	roots.AddCert(cert)
	return certFile, keyFile, roots
}

func TestTLS(t *testing.T) {
	cert, key, roots := selfSigned(t)
	addr := redistest.FreeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	redistest.Start(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert, "--tls-auth-clients", "no")

	l := openAt(t, Config{URL: "rediss://" + addr, TLS: &tls.Config{RootCAs: roots}}).Log(feed(t))
	fill(t, l, 1, 500)
	createGroup(t, l, "g", Head())
	g := readerOf(t, l, "g", "c")
	entries, err := g.ReadNew(1000, 0)
	if err != nil || len(entries) != 500 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	page, _, err := l.Page(t.Context(), at(100), at(200), 1000)
	if err != nil || len(page) != 100 {
		t.Fatalf("%d records, %v", len(page), err)
	}
	// A parked read on an encrypted connection ends by the server's time-out, and
	// by Close.
	if entries, err := g.ReadNew(1, 20*time.Millisecond); err != nil || entries != nil {
		t.Fatalf("%v, %v", entries, err)
	}

	_, err = Open(t.Context(), Config{URL: "rediss://" + addr})
	if !isConnError(err) || !strings.Contains(err.Error(), "certificate") {
		t.Fatalf("an unknown authority was trusted: %v", err)
	}
	_, err = Open(within(t, 2*time.Second), Config{URL: "redis://" + addr})
	if !isConnError(err) {
		t.Fatalf("plain text was spoken to a TLS port: %v", err)
	}
}
