// Command gameserver is a small game that embeds the evtlog runtime: guesses go
// through one stream as work, what they score is announced live and appended to
// a feed, and any round can be replayed from the feed, archived or not.
//
//	go run ./examples/gameserver -redis redis://127.0.0.1:6379/0 -bots 3
//
// Then open http://127.0.0.1:8080/.
package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/evtlog/evtlog/archive/volume"
	"github.com/evtlog/evtlog/examples/gameserver/game"
	"github.com/evtlog/evtlog/redislog"
	"github.com/evtlog/evtlog/runtime"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	err := run(ctx, log, os.Args[1:])
	stop()
	if err != nil {
		log.Error("gameserver ended", "err", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, log *slog.Logger, args []string) (err error) {
	flags := flag.NewFlagSet("gameserver", flag.ContinueOnError)
	redisURL := flags.String("redis", "redis://127.0.0.1:6379/0", "URL of the Redis server")
	addr := flags.String("addr", "127.0.0.1:8080", "address to serve HTTP on")
	path := flags.String("archive", "", "file of the archive (none: nothing is trimmed)")
	node := flags.Int("node", 1, "node number of this process, 0..1023")
	bots := flags.Int("bots", 0, "how many bots play")
	if err := flags.Parse(args); err != nil {
		return err
	}

	var opts game.Options
	if *path != "" {
		store, err := volume.Open(*path, volume.Options{})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, store.Close()) }()
		opts.Archive = store
	}
	g := game.New(opts)
	rt, err := runtime.Start(ctx, runtime.Config{
		Redis: redislog.Config{URL: *redisURL}, Node: *node,
		Streams: g.Streams(), Consumers: g.Consumers(), Logger: log,
	})
	if err != nil {
		return err
	}
	defer func() {
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = errors.Join(err, rt.Stop(stopCtx))
	}()
	if err := g.Attach(ctx, rt); err != nil {
		return err
	}
	return serve(ctx, log, *addr, *bots, g, rt)
}

// serve runs the HTTP server and the bots until ctx ends.
func serve(ctx context.Context, log *slog.Logger, addr string, bots int, g *game.Game, rt *runtime.Runtime) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	log.Info("serving", "url", "http://"+listener.Addr().String()+"/")
	// Live streams end with ctx, so that the shutdown has nothing to wait for.
	server := &http.Server{
		Handler: g.Handler(rt), ReadHeaderTimeout: 5 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	if bots > 0 {
		wg.Go(func() {
			if err := g.Bots(ctx, bots, 200*time.Millisecond, uint64(time.Now().UnixNano())); err != nil {
				log.Error("bots gave up", "err", err)
			}
		})
	}
	wg.Go(func() {
		<-ctx.Done()
		shutdownCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = server.Shutdown(shutdownCtx)
	})
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
