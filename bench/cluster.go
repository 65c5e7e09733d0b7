package main

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"time"

	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/replica"
	"github.com/evtlog/evtlog/archive/replica/api"
)

const clusterID = "bench"

func clusterTests() []test {
	return []test{
		{
			names: []string{"failover", "failover-max", "elections-load", "elections-hogs"},
			group: "failover", run: failoverTest,
		},
		{names: []string{"snapshot"}, run: snapshotTest},
		{names: []string{"catch-up"}, run: catchUpTest},
	}
}

// cluster is a replicated archive whose nodes live in this process.
type cluster struct {
	cfgs  []replica.Config
	nodes []*replica.Node
}

// newCluster starts nodes that form one cluster, and waits until all vote and
// one leads. tune changes the configuration of a node.
func (e *env) newCluster(ctx context.Context, size int, tune ...func(node int, c *replica.Config) error) (*cluster, error) {
	dir, err := e.directory("cluster")
	if err != nil {
		return nil, err
	}
	c := &cluster{}
	var peers []string
	for i := range size {
		cfg := replica.Config{
			Dir: filepath.Join(dir, strconv.Itoa(i)), ID: "n" + strconv.Itoa(i), Cluster: clusterID,
			RaftListen: "127.0.0.1:0", HTTPListen: "127.0.0.1:0", Bootstrap: i == 0, Peers: peers,
		}
		for _, f := range tune {
			if err := f(i, &cfg); err != nil {
				c.close()
				return nil, err
			}
		}
		c.cfgs, c.nodes = append(c.cfgs, cfg), append(c.nodes, nil)
		if err := c.start(ctx, i); err != nil {
			c.close()
			return nil, err
		}
		peers = append(peers, c.nodes[i].Address().HTTP)
	}
	if err := c.whole(ctx); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// start starts one node, at the address it had.
func (c *cluster) start(ctx context.Context, i int) error {
	n, err := replica.Start(ctx, c.cfgs[i])
	if err != nil {
		return err
	}
	if c.cfgs[i].RaftAdvertise == "" {
		c.cfgs[i].RaftListen, c.cfgs[i].HTTPListen = n.Address().Raft, n.Address().HTTP
	}
	c.nodes[i] = n
	return nil
}

func (c *cluster) stop(ctx context.Context, i int) error {
	n := c.nodes[i]
	c.nodes[i] = nil
	return n.Stop(ctx)
}

// whole waits until a leader knows all nodes as voters.
func (c *cluster) whole(ctx context.Context) error {
	return until(ctx, "all nodes vote", func() (bool, error) {
		l := c.leader()
		return l != nil && voters(l.Status()) == len(c.nodes), nil
	})
}

func voters(st api.Status) (n int) {
	for _, s := range st.Servers {
		if s.Voter {
			n++
		}
	}
	return n
}

// leader returns the node that leads, nil when none does.
func (c *cluster) leader() *replica.Node {
	for _, n := range c.nodes {
		if n != nil && n.Status().State == "Leader" {
			return n
		}
	}
	return nil
}

// archive returns the archive of the node that leads, when one does.
func (c *cluster) archive(ctx context.Context) (archive.Archive, error) {
	err := until(ctx, "a node leads", func() (bool, error) { return c.leader() != nil, nil })
	if err != nil {
		return nil, err
	}
	return c.leader().Archive(), nil
}

// follower returns the number of a node that does not lead.
func (c *cluster) follower() (int, error) {
	for i, n := range c.nodes {
		if n != nil && n.Status().State != "Leader" {
			return i, nil
		}
	}
	return 0, errors.New("every node leads")
}

func (c *cluster) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for i, n := range c.nodes {
		if n != nil {
			_ = c.stop(ctx, i)
		}
	}
}
