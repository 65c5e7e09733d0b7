package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"github.com/evtlog/evtlog/archive/replica"
	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/metrics"
)

// handOver bounds the stop of a node.
const handOver = 15 * time.Second

// serveCommand runs a node until it is told to stop. As "raft join" it insists
// on peers and never founds a cluster.
func (a *app) serveCommand(use, short string, joins bool) *cobra.Command {
	var (
		cfg    replica.Config
		secure tlsFlags
	)
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Long: "Runs one node of a replicated archive until it is told to stop (SIGINT, SIGTERM);\n" +
			"it then hands over the leadership. A second signal ends it at once.\n\n" +
			"The first node of a new cluster is given --bootstrap, once; the others --peers,\n" +
			"through which they join: first without a vote, then with one when they have\n" +
			"caught up.\n\n" +
			"Without TLS and $" + tokenVariable + " a node listens on this host only.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if joins && len(cfg.Peers) == 0 {
				return usage(errors.New("--peers is needed: the HTTP address of a node of the cluster to join"))
			}
			if cfg.Bootstrap && cfg.NonVoter {
				return usage(errors.New("--bootstrap and --non-voter contradict each other: the first node of a cluster has a vote"))
			}
			var err error
			if cfg.TLS, err = secure.load(); err != nil {
				return err
			}
			cfg.Token = os.Getenv(tokenVariable)
			return a.serve(cmd.Context(), cfg)
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Dir, "dir", "", "directory of the node, on a local disk")
	f.StringVar(&cfg.ID, "id", "", "node id; it is the node's for ever")
	f.StringVar(&cfg.Cluster, "cluster", "", "cluster id")
	f.StringVar(&cfg.RaftListen, "raft", "127.0.0.1:7460", "address of the raft port")
	f.StringVar(&cfg.HTTPListen, "http", "127.0.0.1:7461", "address of the HTTP port")
	f.StringVar(&cfg.RaftAdvertise, "raft-advertise", "", "raft address that others dial (default: --raft)")
	f.StringVar(&cfg.HTTPAdvertise, "http-advertise", "", "HTTP address that others dial (default: --http)")
	f.StringSliceVar(&cfg.Peers, "peers", nil, "HTTP addresses of other nodes")
	f.BoolVar(&cfg.NonVoter, "non-voter", false, "hold a copy and serve reads without a vote")
	f.BoolVar(&cfg.Rejoin, "rejoin", false, "let an empty node whose id is still a member be put in anew")
	f.BoolVar(&cfg.AllowInsecureNetwork, "allow-insecure-network", false, "listen beyond this host without TLS or a token")
	if !joins {
		f.BoolVar(&cfg.Bootstrap, "bootstrap", false, "found a new cluster with this node")
	}
	secure.add(cmd)
	return cmd
}

func (a *app) serve(ctx context.Context, cfg replica.Config) error {
	outliveReader()
	log := slog.New(slog.NewTextHandler(a.err, nil))
	cfg.Logger = log
	cfg.OnAlarm = func(alarm replica.Alarm) { log.Error("alarm", "kind", alarm.Kind, "err", alarm.Err) }
	registry := prometheus.NewRegistry()
	cfg.Handlers = map[string]http.Handler{"/metrics": promhttp.HandlerFor(registry, promhttp.HandlerOpts{})}
	node, err := replica.Start(ctx, cfg)
	if err != nil {
		return err
	}
	registry.MustRegister(metrics.NewArchive(func() api.Status { return node.Status() }))
	fmt.Fprintf(a.out, "node %s of cluster %s serves at %s\n", node.ID(), cfg.Cluster, node.Address())
	select {
	case <-ctx.Done():
	case <-node.Done():
	}
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), handOver)
	defer cancel()
	return errors.Join(node.Err(), node.Stop(stopCtx))
}
