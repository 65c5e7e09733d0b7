package demo

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive/replica"
	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/archive/replica/client"
)

// clusterID names the demonstration's archive.
const clusterID = "evtlog-demo"

// cluster is an archive of three nodes in this process, on the loopback, and a
// client that knows nothing but their addresses.
type cluster struct {
	*client.Client
	nodes []*replica.Node
}

func startCluster(ctx context.Context, dir string) (c *cluster, err error) {
	c = &cluster{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stop())
		}
	}()
	var addresses []string
	for _, id := range []string{"a", "b", "c"} {
		node, err := replica.Start(ctx, replica.Config{
			Dir: filepath.Join(dir, "node-"+id), ID: id, Cluster: clusterID, Bootstrap: id == "a", Peers: addresses,
			RaftListen: "127.0.0.1:0", HTTPListen: "127.0.0.1:0",
		})
		if err != nil {
			return c, fmt.Errorf("archive node %s: %w", id, err)
		}
		c.nodes = append(c.nodes, node)
		addresses = append(addresses, node.Address().HTTP)
	}
	c.Client, err = client.New(client.Config{Addresses: addresses, Cluster: clusterID})
	if err != nil {
		return c, err
	}
	return c, c.awaitVoters(ctx)
}

// awaitVoters waits until all three have a vote: only then does an
// acknowledged fold survive the loss of any of them.
func (c *cluster) awaitVoters(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, finishTimeout)
	defer cancel()
	for {
		voters := 0
		for _, s := range c.nodes[0].Status().Servers {
			if s.Voter {
				voters++
			}
		}
		if voters == len(c.nodes) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("archive: %d of %d nodes have a vote: %w", voters, len(c.nodes), ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (c *cluster) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	errs := make([]error, len(c.nodes))
	var wg sync.WaitGroup
	for i, n := range c.nodes {
		wg.Go(func() { errs[i] = n.Stop(ctx) })
	}
	wg.Wait()
	if c.Client != nil {
		errs = append(errs, c.Client.Close())
	}
	return errors.Join(errs...)
}

// sound reports whether every node holds the same commits of a stream, and every
// checksum and chain on every node agrees with its bytes.
func (c *cluster) sound(ctx context.Context, stream evtlog.StreamName) (bool, error) {
	w, err := c.Watermark(ctx, stream)
	if err != nil {
		return false, err
	}
	var first api.Volume
	for i, n := range c.nodes {
		address := n.Address().HTTP
		v, err := c.volume(ctx, address, stream, func(v api.Volume) bool { return v.Watermark == w })
		if err != nil {
			return false, err
		}
		if i == 0 {
			first = v
		}
		findings, err := c.Verify(ctx, address, stream)
		if err != nil {
			return false, err
		}
		for _, f := range findings {
			if !f.OK {
				return false, nil
			}
		}
		if v.Chain != first.Chain || v.LSN != first.LSN {
			return false, nil
		}
	}
	return true, nil
}

// volume waits until a node's copy of a stream is as wanted.
func (c *cluster) volume(ctx context.Context, address string, stream evtlog.StreamName, wanted func(api.Volume) bool) (api.Volume, error) {
	for {
		volumes, err := c.Heads(ctx, address)
		if err != nil {
			return api.Volume{}, err
		}
		for _, v := range volumes {
			if v.Stream == stream && wanted(v) {
				return v, nil
			}
		}
		select {
		case <-ctx.Done():
			return api.Volume{}, fmt.Errorf("node %s does not catch up with %s: %w", address, stream, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
