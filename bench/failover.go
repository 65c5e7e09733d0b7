package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive/replica/client"
)

// What a full run does.
const (
	leaderKills = 20
	calmLoad    = 60 * time.Second
	hogLoad     = 30 * time.Second
	hogs        = 4
)

// processes is a replicated archive of three processes, and a client of it that
// folds one stream.
type processes struct {
	members []*member
	client  *client.Client
	stream  evtlog.StreamName
	folded  int
}

func (e *env) newProcesses(ctx context.Context) (*processes, error) {
	dir, err := e.directory("processes")
	if err != nil {
		return nil, err
	}
	p := &processes{stream: evtlog.StreamName{Queue: queue, Name: "failover"}}
	for i := range 3 {
		m := &member{id: "n" + strconv.Itoa(i), dir: filepath.Join(dir, strconv.Itoa(i)), bootstrap: i == 0}
		for _, addr := range []*string{&m.raft, &m.http} {
			if *addr, err = freeAddr(); err != nil {
				return nil, err
			}
		}
		p.members = append(p.members, m)
	}
	if p.client, err = client.New(client.Config{Addresses: p.addresses(), Cluster: clusterID}); err != nil {
		return nil, err
	}
	for _, m := range p.members {
		if err := m.start(p.addressesBut(m)); err != nil {
			p.close()
			return nil, err
		}
	}
	if err := p.healthy(ctx); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *processes) close() {
	for _, m := range p.members {
		m.kill()
	}
	_ = p.client.Close()
}

func (p *processes) addresses() []string { return p.addressesBut(nil) }

// addressesBut are the HTTP addresses of the others.
func (p *processes) addressesBut(self *member) (out []string) {
	for _, m := range p.members {
		if m != self {
			out = append(out, m.http)
		}
	}
	return out
}

// fold archives the next n records and returns when they are acknowledged.
func (p *processes) fold(ctx context.Context, n int) error {
	if err := foldUpTo(ctx, p.client, p.stream, p.folded, p.folded+n, n); err != nil {
		return err
	}
	p.folded += n
	return nil
}

// healthy waits until one node leads three voters and the others follow it and
// have what it has.
func (p *processes) healthy(ctx context.Context) error {
	return until(ctx, "three nodes vote and keep up", func() (bool, error) {
		var lead, following int
		var indexes []uint64
		for _, m := range p.members {
			st, err := p.client.Status(ctx, m.http)
			if err != nil {
				// It is still starting.
				return false, pause(ctx, 20*time.Millisecond)
			}
			switch {
			case st.State == "Leader" && voters(st) == len(p.members):
				lead++
			case st.State == "Follower" && st.LeaderID != "":
				following++
			}
			indexes = append(indexes, st.AppliedIndex)
		}
		return lead == 1 && following == 2 && slices.Min(indexes) == slices.Max(indexes), nil
	})
}

// leader returns the member that leads, and the newest term.
func (p *processes) leader(ctx context.Context) (lead *member, term uint64, err error) {
	for _, m := range p.members {
		st, err := p.client.Status(ctx, m.http)
		if err != nil {
			return nil, 0, err
		}
		if st.State == "Leader" && st.Term >= term {
			lead = m
		}
		term = max(term, st.Term)
	}
	if lead == nil {
		return nil, 0, errors.New("no node leads")
	}
	return lead, term, nil
}

// killLeader kills the leader and returns how long it took until a fold that
// was begun then was acknowledged.
func (p *processes) killLeader(ctx context.Context) (time.Duration, error) {
	lead, _, err := p.leader(ctx)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	lead.kill()
	if err := p.fold(ctx, 1); err != nil {
		return 0, err
	}
	took := time.Since(start)
	if err := lead.start(p.addressesBut(lead)); err != nil {
		return 0, err
	}
	return took, p.healthy(ctx)
}

// elections loads the cluster for a while and returns how many elections there
// were. Nobody was killed, so each is a false one.
func (p *processes) elections(ctx context.Context, d time.Duration) (int, error) {
	_, before, err := p.leader(ctx)
	if err != nil {
		return 0, err
	}
	for end := time.Now().Add(d); time.Now().Before(end); {
		if err := p.fold(ctx, 1000); err != nil {
			return 0, err
		}
	}
	if err := p.healthy(ctx); err != nil {
		return 0, err
	}
	_, after, err := p.leader(ctx)
	return int(after - before), err
}

// failoverTest kills leaders, and then waits for elections that nobody brought
// about.
func failoverTest(ctx context.Context, e *env) ([]Row, error) {
	p, err := e.newProcesses(ctx)
	if err != nil {
		return nil, err
	}
	defer p.close()
	rows, err := p.failover(ctx, e.pick(leaderKills, 3))
	if err != nil {
		return nil, err
	}
	load := Row{Name: "elections-load", Unit: "false elections in 60 s of folds"}
	hogged := Row{Name: "elections-hogs", Unit: "false elections in 30 s of folds under 4 CPU hogs"}
	if e.quick {
		load.Skipped = "takes a minute; run without -quick"
		hogged.Skipped = "takes half a minute; run without -quick"
		return append(rows, load, hogged), nil
	}
	n, err := p.elections(ctx, calmLoad)
	if err != nil {
		return nil, err
	}
	load.Product = float64(n)
	n, err = p.hogged(ctx)
	if err != nil {
		return nil, err
	}
	hogged.Product = float64(n)
	return append(rows, load.judge(load.Product, atMost(0)), hogged.judge(hogged.Product, atMost(1))), nil
}

func (p *processes) failover(ctx context.Context, kills int) ([]Row, error) {
	var took []float64
	var all []time.Duration
	for range kills {
		if err := p.fold(ctx, 1); err != nil {
			return nil, err
		}
		d, err := p.killLeader(ctx)
		if err != nil {
			return nil, err
		}
		took, all = append(took, d.Seconds()), append(all, d)
	}
	s := sample{}.withLatencies(all)
	note := fmt.Sprintf("SIGKILL of the leader to the first acknowledged fold, %d kills, default settings", kills)
	middle := Row{Name: "failover", Unit: "s (p50)", Product: median(took), Rounds: took, P50: s.p50, P99: s.p99, Note: note}
	most := Row{Name: "failover-max", Unit: "s (longest)", Product: slices.Max(took), Note: note}
	return []Row{middle.judge(middle.Product, atMost(1.2)), most.judge(most.Product, atMost(2))}, nil
}

// hogged is elections with processes that use all cores.
func (p *processes) hogged(ctx context.Context) (int, error) {
	for range hogs {
		h, err := startProcess("hog")
		if err != nil {
			return 0, err
		}
		defer h.kill()
	}
	return p.elections(ctx, hogLoad)
}
