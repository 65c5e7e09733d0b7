package archiver_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/archiver"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/volume"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/redislog"
)

// setUp returns a stream of so many records, one a minute from noon on, in a
// stand-in for Redis, and an empty archive in a local file.
func setUp(ctx context.Context, records int) (keyspace.Stream, *redislog.Log, *volume.Store, func()) {
	server, err := miniredis.Run()
	must(err)
	client, err := redislog.Open(ctx, redislog.Config{URL: "redis://" + server.Addr()})
	must(err)
	dir, err := os.MkdirTemp("", "evtlog-example-")
	must(err)
	store, err := volume.Open(filepath.Join(dir, "archive.db"), volume.Options{})
	must(err)
	feed, err := keyspace.NewStream("cm", "feed")
	must(err)
	for n := range records {
		id, err := evtid.Make(noon.Add(time.Duration(n)*time.Minute).UnixMilli(), 1, 0)
		must(err)
		_, err = server.XAdd(feed.Key(), id.Entry(), []string{"id", id.String(), "event", "scored"})
		must(err)
	}
	return feed, client.Log(feed), store, func() {
		_ = store.Close()
		_ = client.Close()
		server.Close()
		_ = os.RemoveAll(dir)
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// Fold everything into the archive; the newest ten stay live as well.
func ExampleArchiver_Fold() {
	ctx := context.Background()
	feed, stream, store, stop := setUp(ctx, 60)
	defer stop()

	a, err := archiver.New(archiver.Config{Stream: feed, Keep: evtlog.KeepLast(10)}, stream, store)
	must(err)
	w, err := a.Fold(ctx, evtid.ID{})
	fmt.Println("archived through", w.Time().Format(time.TimeOnly), err)

	s := a.Stats()
	fmt.Println(s.FoldedRecords, "folded,", s.Trimmed, "trimmed,", s.Length, "live,", s.Behind, "behind")

	// The archive and the live stream read as one.
	records := 0
	for _, err := range archive.NewReader(evtlog.StreamName{Queue: "cm", Name: "feed"}, stream, store).Read(ctx, evtlog.Window{}) {
		must(err)
		records++
	}
	fmt.Println(records, "readable")
	// Output:
	// archived through 12:59:00 <nil>
	// 60 folded, 50 trimmed, 10 live, 0 behind
	// 60 readable
}

// Before a program ends, what is not archived yet can be folded without
// trimming.
func ExampleArchiver_FoldAll() {
	ctx := context.Background()
	feed, stream, store, stop := setUp(ctx, 60)
	defer stop()

	a, err := archiver.New(archiver.Config{Stream: feed, Keep: evtlog.KeepLast(10)}, stream, store)
	must(err)
	w, err := a.FoldAll(ctx)
	fmt.Println("archived through", w.Time().Format(time.TimeOnly), err)
	fmt.Println(a.Stats().Length, "live")
	// Output:
	// archived through 12:59:00 <nil>
	// 60 live
}

// With Commit a record is folded as soon as the publisher has nudged.
func ExampleArchiver_Nudge() {
	ctx := context.Background()
	feed, stream, store, stop := setUp(ctx, 0)
	defer stop()

	folded := make(chan evtlog.Folded, 1)
	a, err := archiver.New(archiver.Config{
		Stream: feed,
		Fold:   archiver.Dial{Commit: true},
		Every:  time.Hour,
		Observer: func(e evtlog.Event) {
			if f, ok := e.(evtlog.Folded); ok {
				folded <- f
			}
		},
	}, stream, store)
	must(err)
	system := supervise.NewSystem(supervise.Config{})
	_, err = system.Branch(ctx, "stream/cm/feed", a.Spec())
	must(err)

	writer, err := stream.NewWriter(ctx)
	must(err)
	defer writer.Close()
	id, err := evtid.Make(noon.UnixMilli(), 1, 0)
	must(err)
	writer.Append(id, []evtlog.Field{evtlog.F("event", "scored")})
	must(writer.Flush())
	must(writer.ReceiveAppend(id))
	a.Nudge()

	f := <-folded
	fmt.Println(f.Stream, f.Records, f.To == id)
	fmt.Println(system.Stop(ctx))
	// Output:
	// cm/feed 1 true
	// <nil>
}
