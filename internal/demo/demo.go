// Package demo runs the whole pipeline on one machine and reconciles it at the
// end: bots play the example game; a short hot window lets the archiver fold
// into three archive nodes and trim all the time; a consumer in a process of its
// own is killed every few seconds and drains its pending entries when it is
// back.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/examples/gameserver/game"
	"github.com/evtlog/evtlog/internal/devredis"
	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/redislog"
	"github.com/evtlog/evtlog/runtime"
)

const (
	// hot is how many records of each stream stay in Redis.
	hot = 100
	// killEvery is the time between two kills of the audit member.
	killEvery = 3 * time.Second
	// finishTimeout bounds the drain and the reconciliation.
	finishTimeout = time.Minute
)

// Config says how to run the demonstration.
type Config struct {
	// RedisURL is the server to use; "" picks one.
	RedisURL string
	// Duration is how long bots play; 0 means until ctx ends.
	Duration time.Duration
	// Member returns the command that runs Member in another process.
	Member func(url, queue string) *exec.Cmd
	// Progress receives what happens, in lines for people. nil: nothing.
	Progress io.Writer
}

// Run plays until the duration is over or ctx ends, drains, and reconciles. An
// end of ctx is the ordinary way to stop it and no error.
func Run(ctx context.Context, cfg Config) (_ Report, err error) {
	if cfg.Progress == nil {
		cfg.Progress = io.Discard
	}
	dir, err := os.MkdirTemp("", "evtlog-demo-")
	if err != nil {
		return Report{}, err
	}
	defer os.RemoveAll(dir)
	srv, err := devredis.Start(ctx, cfg.RedisURL, dir)
	if err != nil {
		return Report{}, err
	}
	defer srv.Stop()
	fmt.Fprintf(cfg.Progress, "redis: %s (%s)\n", srv.Kind, srv.Meaning())
	store, err := startCluster(ctx, dir)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, store.stop()) }()
	fmt.Fprintln(cfg.Progress, "archive: three nodes on the loopback, each record on the disk of two of them at least")

	d := &demo{
		cfg: cfg, srv: srv, store: store,
		// A queue of its own: on a shared server nothing else is touched.
		queue:    "evtlog-demo-" + strconv.FormatInt(time.Now().UnixNano(), 36),
		receipts: map[string]map[evtid.ID]bool{game.Guesses: {}, game.Feed: {}},
	}
	d.audit = &audit{handled: map[evtid.ID]int{}, command: func() *exec.Cmd { return cfg.Member(srv.URL, d.queue) }}
	return d.run(ctx)
}

type demo struct {
	cfg   Config
	srv   devredis.Server
	store *cluster
	queue string
	audit *audit

	mu       sync.Mutex
	receipts map[string]map[evtid.ID]bool
}

func (d *demo) run(ctx context.Context) (_ Report, err error) {
	g := game.New(game.Options{Queue: d.queue, Archive: d.store, Hot: hot, Receipt: d.receipt})
	rt, err := runtime.Start(ctx, runtime.Config{
		Redis: redisConfig(d.srv.URL), Node: 1, Streams: g.Streams(), Consumers: g.Consumers(),
	})
	if err != nil {
		return Report{}, err
	}
	// What is left to do must be done although ctx has ended.
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.cfg.Duration+finishTimeout)
	defer cancel()
	defer func() { err = errors.Join(err, d.forget(after), rt.Stop(after)) }()
	if err := g.Attach(ctx, rt); err != nil {
		return Report{}, err
	}
	member, err := d.play(ctx, g, rt)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, member.stop()) }()
	fmt.Fprintln(d.cfg.Progress, "draining")
	if err := rt.Drain(after); err != nil {
		return Report{}, err
	}
	if err := d.awaitAudit(after); err != nil {
		return Report{}, err
	}
	return d.reconcile(after, rt)
}

// play lets the bots play and the audit member be killed until the time is up.
// It returns the member that is left.
func (d *demo) play(ctx context.Context, g *game.Game, rt *runtime.Runtime) (member *process, err error) {
	if d.cfg.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.cfg.Duration)
		defer cancel()
	}
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	var wg sync.WaitGroup
	var botsErr error
	wg.Go(func() {
		if botsErr = g.Bots(ctx, 4, 10*time.Millisecond, uint64(time.Now().UnixNano())); botsErr != nil {
			giveUp(botsErr)
		}
	})
	wg.Go(func() { d.progress(ctx, rt) })
	member, err = d.audit.run(ctx, killEvery)
	if err != nil {
		giveUp(err)
	}
	wg.Wait()
	if botsErr != nil && member != nil {
		member.kill()
	}
	return member, errors.Join(err, botsErr)
}

func (d *demo) receipt(stream string, id evtid.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.receipts[stream][id] = true
}

// progress prints a line every second.
func (d *demo) progress(ctx context.Context, rt *runtime.Runtime) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		feed, err := rt.Stream(d.queue, game.Feed)
		if err != nil {
			return
		}
		w, err := feed.Watermark(ctx)
		if err != nil {
			continue
		}
		d.mu.Lock()
		guesses, facts := len(d.receipts[game.Guesses]), len(d.receipts[game.Feed])
		d.mu.Unlock()
		d.audit.mu.Lock()
		restarts, drained := d.audit.restarts, d.audit.drained
		d.audit.mu.Unlock()
		fmt.Fprintf(d.cfg.Progress, "guesses %d  facts %d  archived up to %s  audit member killed %d times, drained %d entries\n",
			guesses, facts, w, restarts, drained)
	}
}

// awaitAudit waits until the audit group has handled and acknowledged the whole
// feed.
func (d *demo) awaitAudit(ctx context.Context) error {
	client, err := redislog.Open(ctx, redisConfig(d.srv.URL))
	if err != nil {
		return err
	}
	defer client.Close()
	stream, err := keyspace.NewStream(d.queue, game.Feed)
	if err != nil {
		return err
	}
	for {
		done, err := runtime.CaughtUp(ctx, client.Log(stream), auditGroup)
		if err != nil || done {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the audit group did not catch up: %w", ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// forget removes the demonstration's keys from a server that it does not own.
func (d *demo) forget(ctx context.Context) error {
	if d.srv.Kind != devredis.Given {
		return nil
	}
	client, err := redislog.Open(ctx, redisConfig(d.srv.URL))
	if err != nil {
		return err
	}
	defer client.Close()
	streams, err := client.Streams(ctx, d.queue)
	if err != nil {
		return err
	}
	for _, name := range streams {
		stream, err := keyspace.NewStream(d.queue, name)
		if err != nil {
			return err
		}
		if err := client.Log(stream).Delete(ctx); err != nil {
			return err
		}
	}
	return nil
}
