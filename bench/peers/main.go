// Command peers does the work of one row with another system, and prints what
// it cost as one JSON object. The bench command builds and runs it; it is a
// module of its own so that the library's requirements name no peer.
//
//	peers [-redis HOST:PORT] [-dir DIR] [-n RECORDS] [-callers N] WORK
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
)

// job is what the command line asks for.
type job struct {
	redis   string
	dir     string
	stream  string
	records int
	callers int
}

// work is one thing a peer can do. It prepares, measures with timed, and checks
// that the work was done.
type work func(ctx context.Context, j job) (Result, error)

func works() map[string]work {
	return map[string]work{
		"asynq-enqueue":     asynqEnqueue,
		"asynq-process":     asynqProcess,
		"jetstream-async":   jetstreamAsync,
		"jetstream-consume": jetstreamConsume,
		"jetstream-publish": jetstreamPublish,
		"raft-single":       raftSingle,
		"redigo-append":     redigoAppend,
		"redigo-consume":    redigoConsume,
		"redigo-endtoend":   redigoEndToEnd,
		"redigo-lone":       redigoLone,
		"redigo-replay":     redigoReplay,
		"ulid":              ulidStrings,
		"watermill-consume": watermillConsume,
		"watermill-publish": watermillPublish,
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var j job
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.StringVar(&j.redis, "redis", "127.0.0.1:6379", "address of the redis-server")
	flags.StringVar(&j.dir, "dir", os.TempDir(), "directory for files; the caller removes it")
	flags.StringVar(&j.stream, "stream", "peer", "key of the stream, or name of the topic")
	flags.IntVar(&j.records, "n", 10_000, "number of records")
	flags.IntVar(&j.callers, "callers", 1, "number of callers")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.Arg(0) == "versions" {
		return versions(out)
	}
	do, ok := works()[flags.Arg(0)]
	if !ok {
		return fmt.Errorf("work %q is unknown; use one of %s", flags.Arg(0), strings.Join(slices.Sorted(maps.Keys(works())), ", "))
	}
	result, err := do(ctx, j)
	if err != nil {
		return fmt.Errorf("%s: %w", flags.Arg(0), err)
	}
	return json.NewEncoder(out).Encode(result)
}

// versions prints the module versions that are linked in, as JSON.
func versions(out io.Writer) error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return fmt.Errorf("this program was built without module information")
	}
	found := map[string]string{}
	for _, m := range info.Deps {
		switch m.Path {
		case "github.com/ThreeDotsLabs/watermill", "github.com/ThreeDotsLabs/watermill-redisstream",
			"github.com/gomodule/redigo", "github.com/hashicorp/raft", "github.com/hashicorp/raft-boltdb/v2",
			"github.com/hibiken/asynq", "github.com/nats-io/nats-server/v2", "github.com/nats-io/nats.go",
			"github.com/oklog/ulid/v2", "github.com/redis/go-redis/v9", "go.etcd.io/bbolt":
			found[m.Path] = m.Version
		}
	}
	return json.NewEncoder(out).Encode(found)
}
