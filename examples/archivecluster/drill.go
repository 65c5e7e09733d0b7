package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/archive/replica/client"
	"github.com/evtlog/evtlog/internal/devredis"
)

const (
	streamQueue = "archivecluster"
	streamName  = "feed"
	// hot is how many records stay in Redis.
	hot = 200
	// killEvery is the time between two kills of the leader.
	killEvery = 3 * time.Second
	// patience bounds each wait for the cluster.
	patience = 30 * time.Second
)

// cluster is the set of node processes.
type cluster struct {
	dir      string
	client   *client.Client
	members  []*member
	progress io.Writer
	// delta counts restarts after which a node lacked something and pulled it.
	delta  int
	pulled uint64
}

// drill runs the whole scenario.
func drill(ctx context.Context, duration time.Duration, progress io.Writer) (r report, err error) {
	dir, err := os.MkdirTemp("", "evtlog-archivecluster-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	srv, err := devredis.Start(ctx, os.Getenv("EVTLOG_REDIS_URL"), dir)
	if err != nil {
		return r, err
	}
	defer srv.Stop()
	fmt.Fprintf(progress, "redis: %s (%s)\n", srv.Kind, srv.Meaning())
	r.Redis = srv.Kind
	c, err := startCluster(ctx, dir, progress)
	if err != nil {
		return r, err
	}
	defer c.stop()
	g, err := startGame(ctx, srv.URL, c.client)
	if err != nil {
		return r, err
	}
	stopped := false
	stop := func() error {
		if stopped {
			return nil
		}
		stopped = true
		return g.stop()
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := c.disturb(ctx, duration, g, &r); err != nil {
		return r, err
	}
	g.quiesce()
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*patience)
	defer cancel()
	if err := g.reconcile(after, &r); err != nil {
		return r, err
	}
	return r, c.compare(after, &r)
}

func startCluster(ctx context.Context, dir string, progress io.Writer) (*cluster, error) {
	c := &cluster{dir: dir, progress: progress}
	var addresses []string
	for _, id := range []string{"a", "b", "c", "d"} {
		m, err := newMember(dir, id)
		if err != nil {
			return nil, err
		}
		c.members = append(c.members, m)
		addresses = append(addresses, m.http)
	}
	var err error
	// The fourth joins later; its address is known to the client from the start.
	if c.client, err = client.New(client.Config{Addresses: addresses, Cluster: clusterID, CallTimeout: time.Second}); err != nil {
		return nil, err
	}
	for _, m := range c.members[:3] {
		if err := m.start(c.peers(m)); err != nil {
			c.stop()
			return nil, err
		}
	}
	if err := c.awaitVoters(ctx, 3); err != nil {
		c.stop()
		return nil, err
	}
	fmt.Fprintln(progress, "three nodes form a cluster")
	return c, nil
}

// peers are the addresses of all others.
func (c *cluster) peers(of *member) (out []string) {
	for _, m := range c.members {
		if m != of {
			out = append(out, m.http)
		}
	}
	return out
}

func (c *cluster) stop() {
	var wg sync.WaitGroup
	for _, m := range c.members {
		if m.cmd != nil {
			wg.Go(m.stop)
		}
	}
	wg.Wait()
	_ = c.client.Close()
}

// leader returns the member that leads, and what it knows.
func (c *cluster) leader(ctx context.Context) (*member, api.Status) {
	for _, m := range c.members {
		if m.cmd == nil {
			continue
		}
		if st, err := c.status(ctx, m); err == nil && st.State == "Leader" {
			return m, st
		}
	}
	return nil, api.Status{}
}

func (c *cluster) status(ctx context.Context, m *member) (api.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return c.client.Status(ctx, m.http)
}

// until waits for a condition.
func until(ctx context.Context, what string, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

func (c *cluster) awaitVoters(ctx context.Context, n int) error {
	return until(ctx, fmt.Sprintf("%d voters", n), func() bool {
		_, st := c.leader(ctx)
		voters := 0
		for _, s := range st.Servers {
			if s.Voter {
				voters++
			}
		}
		return voters == n
	})
}

// disturb kills leaders, adds the fourth node at a third of the time and takes a
// follower out at two thirds.
func (c *cluster) disturb(ctx context.Context, duration time.Duration, g *game, r *report) error {
	begin := time.Now()
	joined, removed := false, false
	for ctx.Err() == nil && time.Since(begin) < duration-killEvery {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(killEvery):
		}
		var err error
		switch passed := time.Since(begin); {
		case !joined && passed > duration/3:
			joined = true
			err = c.join(ctx)
		case !removed && passed > duration*2/3:
			removed = true
			err = c.removeFollower(ctx)
		default:
			err = c.killLeader(ctx, g, r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// killLeader kills the leader, waits for the next fold, and brings it back.
func (c *cluster) killLeader(ctx context.Context, g *game, r *report) error {
	var leader *member
	if err := until(ctx, "a leader", func() bool { leader, _ = c.leader(ctx); return leader != nil }); err != nil {
		return err
	}
	at := time.Now()
	leader.kill()
	r.LeaderKills++
	if err := until(ctx, "a fold after the kill", func() bool { return g.foldedSince(at) }); err != nil {
		return err
	}
	gap := g.firstFoldAfter(at).Sub(at).Milliseconds()
	r.MaxUnavailableMS = max(r.MaxUnavailableMS, gap)
	fmt.Fprintf(c.progress, "leader %s killed; %d ms until the next fold\n", leader.id, gap)
	// Away long enough to lack something.
	if err := until(ctx, "more folds", func() bool { return g.foldedSince(at.Add(time.Second)) }); err != nil {
		return err
	}
	if err := leader.start(c.peers(leader)); err != nil {
		return err
	}
	return c.awaitCaughtUp(ctx, leader)
}

// awaitCaughtUp waits until a node that was started is within a second of the
// leader, and counts how it got there.
func (c *cluster) awaitCaughtUp(ctx context.Context, m *member) error {
	var st api.Status
	err := until(ctx, "node "+m.id+" to catch up", func() bool {
		_, lead := c.leader(ctx)
		var err error
		st, err = c.status(ctx, m)
		return err == nil && lead.State != "" && st.FSMIndex > 0 && st.FSMIndex+200 >= lead.CommitIndex
	})
	if err != nil {
		return err
	}
	c.pulled += st.PulledBytes
	if st.PulledCommits > 0 {
		c.delta++
	}
	fmt.Fprintf(c.progress, "node %s is back; it pulled %d commits, %d bytes\n", m.id, st.PulledCommits, st.PulledBytes)
	return nil
}

func (c *cluster) join(ctx context.Context) error {
	fourth := c.members[3]
	if err := fourth.start(c.peers(fourth)); err != nil {
		return err
	}
	if err := c.awaitVoters(ctx, 4); err != nil {
		return err
	}
	fmt.Fprintln(c.progress, "node d has joined and votes")
	return c.awaitCaughtUp(ctx, fourth)
}

// removeFollower takes a node that does not lead out of the cluster.
func (c *cluster) removeFollower(ctx context.Context) error {
	leader, _ := c.leader(ctx)
	for i, m := range c.members {
		if m == leader || leader == nil {
			continue
		}
		if err := c.client.Remove(ctx, m.id, false); err != nil {
			return fmt.Errorf("remove %s: %w", m.id, err)
		}
		m.stop()
		c.members = append(c.members[:i:i], c.members[i+1:]...)
		fmt.Fprintf(c.progress, "node %s was removed\n", m.id)
		return nil
	}
	return errors.New("there is no leader to ask for a removal")
}

// compare waits until all members have applied the same, and compares their
// chains.
func (c *cluster) compare(ctx context.Context, r *report) error {
	r.RestoredByDelta, r.PulledBytes, r.Nodes = c.delta, c.pulled, len(c.members)
	w, err := c.client.Watermark(ctx, evtlog.StreamName{Queue: streamQueue, Name: streamName})
	if err != nil {
		return err
	}
	heads := map[string]api.Volume{}
	err = until(ctx, "all members to hold everything", func() bool {
		for _, m := range c.members {
			volumes, err := c.client.Heads(ctx, m.http)
			if err != nil || len(volumes) != 1 || volumes[0].Watermark != w {
				return false
			}
			heads[m.id] = volumes[0]
		}
		return true
	})
	if err != nil {
		return err
	}
	first := heads[c.members[0].id]
	r.ChainsEqual, r.Folded = true, int(first.Records)
	for _, h := range heads {
		r.ChainsEqual = r.ChainsEqual && h.Chain == first.Chain && h.LSN == first.LSN
	}
	return nil
}
