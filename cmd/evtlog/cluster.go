package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/archive/replica/client"
)

// clusterFlags say how to reach a replicated archive.
type clusterFlags struct {
	nodes   []string
	cluster string
	timeout time.Duration
	tls     tlsFlags
}

func (f *clusterFlags) add(cmd *cobra.Command) {
	f.addFlags(cmd, 10*time.Second, "how long to try")
	before(cmd, func() error { return f.check("timeout", false) })
}

// silence is how long a verb that moves much data lets the archive give nothing
// before it gives up. The verb as a whole may take any time.
const silence = 30 * time.Second

// addLasting is add for a verb that takes as long as there is data: --timeout is
// the longest silence.
func (f *clusterFlags) addLasting(cmd *cobra.Command) {
	f.addLimited(cmd, silence, "how long the archive may give nothing; the whole may take any time (0: for ever)")
}

func (f *clusterFlags) addLimited(cmd *cobra.Command, limit time.Duration, meaning string) {
	f.addFlags(cmd, limit, meaning)
	before(cmd, func() error { return f.check("timeout", true) })
}

func (f *clusterFlags) addFlags(cmd *cobra.Command, limit time.Duration, meaning string) {
	cmd.Flags().DurationVar(&f.timeout, "timeout", limit, meaning)
	f.addNodes(cmd, []string{"127.0.0.1:7461"})
}

func (f *clusterFlags) addNodes(cmd *cobra.Command, preset []string) {
	cmd.Flags().StringSliceVar(&f.nodes, "nodes", preset, "HTTP addresses of the nodes of a replicated archive, comma separated")
	cmd.Flags().StringVar(&f.cluster, "cluster", "", "cluster id the nodes must have (default: whatever the first says)")
	f.tls.add(cmd)
}

// check looks at the flags before anything is dialled. forever says that a time-out
// of zero is none.
func (f *clusterFlags) check(flag string, forever bool) error {
	for _, address := range f.nodes {
		if api.CheckHostPort(address) != nil {
			return usage(fmt.Errorf("--nodes %q is not the host:port of a node", address))
		}
	}
	if forever && f.timeout == 0 {
		return nil
	}
	return positive(flag, f.timeout)
}

// with calls do with a client, and a context that ends with the time-out.
func (f *clusterFlags) with(cmd *cobra.Command, do func(ctx context.Context, c *client.Client) error) error {
	return f.lasting(cmd, func(ctx context.Context, c *client.Client) error {
		ctx, cancel := context.WithTimeout(ctx, f.timeout)
		defer cancel()
		return do(ctx, c)
	})
}

// lasting calls do with a client, and a context without an end of its own: do
// bounds each step.
func (f *clusterFlags) lasting(cmd *cobra.Command, do func(ctx context.Context, c *client.Client) error) error {
	c, err := f.open()
	if err != nil {
		return err
	}
	defer c.Close()
	return do(cmd.Context(), c)
}

func (f *clusterFlags) open() (*client.Client, error) {
	secure, err := f.tls.load()
	if err != nil {
		return nil, err
	}
	return client.New(client.Config{Addresses: f.nodes, Cluster: f.cluster, Token: os.Getenv(tokenVariable), TLS: secure})
}

// tokenVariable holds the bearer token, so that it does not stand in the list of
// processes.
const tokenVariable = "EVTLOG_ARCHIVE_TOKEN"

// tlsFlags name the files of mutual TLS: all three, or none.
type tlsFlags struct{ cert, key, ca string }

func (f *tlsFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.cert, "tls-cert", "", "certificate file (PEM), for mutual TLS")
	cmd.Flags().StringVar(&f.key, "tls-key", "", "key file (PEM)")
	cmd.Flags().StringVar(&f.ca, "tls-ca", "", "file of the authority that signed the nodes' certificates (PEM)")
}

// load reads the files. nil means cleartext.
func (f *tlsFlags) load() (*tls.Config, error) {
	if f.cert == "" && f.key == "" && f.ca == "" {
		return nil, nil
	}
	if f.cert == "" || f.key == "" || f.ca == "" {
		return nil, usage(errors.New("--tls-cert, --tls-key and --tls-ca go together: give all three, or none"))
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert %s: %w", f.cert, err)
	}
	pem, err := os.ReadFile(f.ca)
	if err != nil {
		return nil, fmt.Errorf("--tls-ca: %w", err)
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--tls-ca %s holds no certificate", f.ca)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{pair}, RootCAs: authorities, ClientCAs: authorities,
		ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
	}, nil
}

// nodeStatus is what one address answered.
type nodeStatus struct {
	address string
	status  api.Status
	err     error
}

// unansweredError says which address gave no answer that could be used. It may be
// somebody else who listens there.
type unansweredError struct {
	address string
	err     error
}

func (e *unansweredError) Error() string { return e.address + ": " + e.err.Error() }

func (e *unansweredError) Unwrap() error { return e.err }

// ask asks every node that was named, and fails only when none answered.
func (f *clusterFlags) ask(ctx context.Context, c *client.Client) ([]nodeStatus, error) {
	out := make([]nodeStatus, len(f.nodes))
	var errs []error
	for i, address := range f.nodes {
		st, err := c.Status(ctx, address)
		out[i] = nodeStatus{address: address, status: st, err: err}
		if err != nil {
			errs = append(errs, &unansweredError{address, err})
		}
	}
	if len(errs) == len(f.nodes) {
		return nil, errors.Join(errs...)
	}
	return out, nil
}

// confirmed guards what cannot be undone.
func confirmed(cmd *cobra.Command, yes bool, what string) error {
	if yes {
		return nil
	}
	return usage(fmt.Errorf("%s would %s; give --yes to do it", strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" "), what))
}
