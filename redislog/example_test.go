package redislog_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/redislog"
)

// open starts a stand-in for a server and opens a client on it, so that the
// examples run anywhere.
func open() (client *redislog.Client, feed *redislog.Log, stop func()) {
	server, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	client, err = redislog.Open(context.Background(), redislog.Config{URL: "redis://" + server.Addr()})
	if err != nil {
		log.Fatal(err)
	}
	stream, err := keyspace.NewStream("cm", "feed")
	if err != nil {
		log.Fatal(err)
	}
	return client, client.Log(stream), func() {
		_ = client.Close()
		server.Close()
	}
}

// scored appends three records under ids that the example makes up; a program
// mints them with an evtid.Minter.
func scored(ctx context.Context, feed *redislog.Log) []evtid.ID {
	w, err := feed.NewWriter(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close()
	var ids []evtid.ID
	for i, pct := range []string{"81", "83", "90"} {
		id, err := evtid.Make(1746090000000+int64(i), 7, 0)
		if err != nil {
			log.Fatal(err)
		}
		w.Append(id, []evtlog.Field{evtlog.F("event", "scored"), evtlog.F("pct", pct)})
		ids = append(ids, id)
	}
	if err := w.Flush(); err != nil {
		log.Fatal(err)
	}
	for _, id := range ids {
		if err := w.ReceiveAppend(id); err != nil {
			log.Fatal(err)
		}
	}
	return ids
}

// Three appends go out in one write; each has its own answer.
func ExampleWriter() {
	_, feed, stop := open()
	defer stop()
	ctx := context.Background()

	w, err := feed.NewWriter(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close()
	first, _ := evtid.Make(1746090000000, 7, 0)
	for _, id := range []evtid.ID{first, first.Next(), first} {
		w.Append(id, []evtlog.Field{evtlog.F("event", "scored")})
	}
	if err := w.Flush(); err != nil {
		log.Fatal(err)
	}
	for _, id := range []evtid.ID{first, first.Next(), first} {
		err := w.ReceiveAppend(id)
		fmt.Println(id, err == nil, errors.Is(err, evtlog.ErrNonMonotonic))
	}
	// Output:
	// EVT0D1FsjI1tRY true false
	// EVT0D1FsjI1tRZ true false
	// EVT0D1FsjI1tRY false true
}

// A page is read together with the floor, which tells whether an archiver may
// have trimmed into it.
func ExampleLog_Page() {
	_, feed, stop := open()
	defer stop()
	ctx := context.Background()
	ids := scored(ctx, feed)

	page, floor, err := feed.Page(ctx, ids[0], ids[2], 100)
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range page {
		pct, _ := r.Get("pct")
		fmt.Println(r.ID, pct)
	}
	fmt.Println("floor:", floor.IsZero())
	// Output:
	// EVT0D1FsjIJUZc 83
	// EVT0D1FsjIb5hg 90
	// floor: true
}

// A member reads, works, and sends its acknowledgements with the next read.
func ExampleGroupReader() {
	_, feed, stop := open()
	defer stop()
	ctx := context.Background()
	scored(ctx, feed)

	if _, err := feed.CreateGroup(ctx, "notify", redislog.Head()); err != nil {
		log.Fatal(err)
	}
	reader, err := feed.NewGroupReader(ctx, "notify", "notify-1")
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Close()
	for {
		entries, err := reader.ReadNew(2, 10*time.Millisecond)
		if err != nil {
			log.Fatal(err)
		}
		if entries == nil {
			break // nothing new
		}
		for _, e := range entries {
			pct, _ := e.Get("pct")
			fmt.Println(e.ID, pct)
			reader.Ack(e.ID)
		}
	}
	fmt.Println("acknowledged:", reader.Acked())
	// Output:
	// EVT0D1FsjI1tRY 81
	// EVT0D1FsjIJUZc 83
	// EVT0D1FsjIb5hg 90
	// acknowledged: 3
}

// What a trim takes from a group is recorded for it.
func ExampleLog_TrimThrough() {
	_, feed, stop := open()
	defer stop()
	ctx := context.Background()
	ids := scored(ctx, feed)
	if _, err := feed.CreateGroup(ctx, "notify", redislog.Head()); err != nil {
		log.Fatal(err)
	}

	// The archive has everything up to ids[1].
	if err := feed.Seal(ctx, ids[1]); err != nil {
		log.Fatal(err)
	}
	result, err := feed.TrimThrough(ctx, ids[1])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("removed", result.Removed, "through", result.Through)
	ranges, err := feed.SkippedRanges(ctx, "notify")
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range ranges {
		fmt.Println("notify reads from the archive:", r.After.Next(), "to", r.To)
	}
	// Output:
	// removed 2 through EVT0D1FsjIJUZc
	// notify reads from the archive: EVT0D1FsjI1tRY to EVT0D1FsjIJUZc
}

func ExampleClient_Subscribe() {
	client, _, stop := open()
	defer stop()
	ctx := context.Background()

	sub, err := client.Subscribe(ctx, "cm")
	if err != nil {
		log.Fatal(err)
	}
	defer sub.Close()
	receivers, err := client.Publish(ctx, "cm", []byte(`{"event":"scored"}`))
	if err != nil {
		log.Fatal(err)
	}
	payload, err := sub.Receive(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(receivers, string(payload))
	// Output: 1 {"event":"scored"}
}

// An error says what to do about it.
func ExampleClassify() {
	_, feed, stop := open()
	defer stop()
	ctx := context.Background()

	reader, err := feed.NewGroupReader(ctx, "nobody", "n1")
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Close()
	_, err = reader.ReadNew(1, 0)
	fmt.Println(redislog.Classify(err), errors.Is(err, evtlog.ErrNoGroup))

	stop()
	_, err = feed.Last(ctx)
	fmt.Println(redislog.Classify(err), errors.Is(err, evtlog.ErrUnavailable))
	// Output:
	// topology true
	// transient true
}
