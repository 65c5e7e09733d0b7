package replica

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evtlog/evtlog/archive/replica/api"
)

func TestConfigIsChecked(t *testing.T) {
	good := Config{Dir: "d", ID: "a", Cluster: "c"}
	if err := good.withDefaults().validate(); err != nil {
		t.Fatal(err)
	}
	cert := &tls.Config{Certificates: []tls.Certificate{{}}, ClientCAs: x509.NewCertPool()}
	mutual := cert.Clone()
	mutual.ClientAuth = tls.RequireAndVerifyClientCert
	for name, c := range map[string]struct {
		change func(*Config)
		ok     bool
	}{
		"no dir":                 {func(c *Config) { c.Dir = "" }, false},
		"bad id":                 {func(c *Config) { c.ID = "a b" }, false},
		"no cluster":             {func(c *Config) { c.Cluster = "" }, false},
		"short time-out":         {func(c *Config) { c.ElectionTimeout = time.Millisecond }, false},
		"few trailing logs":      {func(c *Config) { c.TrailingLogs = 1 }, false},
		"bad peer":               {func(c *Config) { c.Peers = []string{"nowhere"} }, false},
		"negative interval":      {func(c *Config) { c.SnapshotInterval = -1 }, false},
		"open network":           {func(c *Config) { c.HTTPListen = "0.0.0.0:1" }, false},
		"open network, token":    {func(c *Config) { c.HTTPListen, c.Token = "0.0.0.0:1", "x" }, false},
		"open network, by name":  {func(c *Config) { c.RaftListen = "example.org:1" }, false},
		"open network, allowed":  {func(c *Config) { c.HTTPListen, c.AllowInsecureNetwork = "0.0.0.0:1", true }, true},
		"open network, mutual":   {func(c *Config) { c.HTTPListen, c.TLS = "0.0.0.0:1", mutual }, true},
		"open network, TLS only": {func(c *Config) { c.HTTPListen, c.TLS = "0.0.0.0:1", cert }, false},
		"TLS and token":          {func(c *Config) { c.HTTPListen, c.TLS, c.Token = "0.0.0.0:1", cert, "x" }, true},
		"TLS without CAs":        {func(c *Config) { c.TLS = &tls.Config{Certificates: cert.Certificates} }, false},
	} {
		cfg := good
		c.change(&cfg)
		err := cfg.withDefaults().validate()
		if (err == nil) != c.ok || err != nil && !errors.Is(err, api.ErrBadRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A program that only uses the client must not link raft, nor the store.
func TestClientLinksNoRaft(t *testing.T) {
	for _, pkg := range []string{"client", "api", "portable", "manifest"} {
		out, err := exec.Command("go", "list", "-deps", "github.com/evtlog/evtlog/archive/replica/"+pkg).Output()
		if err != nil {
			t.Fatal(err)
		}
		deps := strings.Fields(string(out))
		if i := slices.IndexFunc(deps, func(d string) bool { return strings.HasPrefix(d, "github.com/hashicorp/") }); i >= 0 {
			t.Errorf("%s links %s", pkg, deps[i])
		}
	}
}
