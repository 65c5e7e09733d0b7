package replica_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/replica"
	"github.com/evtlog/evtlog/evtid"
)

// A cluster of one node inside the program; more nodes join through it.
func ExampleStart() {
	dir, err := os.MkdirTemp("", "replica")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	node, err := replica.Start(ctx, replica.Config{
		Dir: dir, ID: "a", Cluster: "example", Bootstrap: true,
		RaftListen: "127.0.0.1:0", HTTPListen: "127.0.0.1:0",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Stop(ctx)

	stream := evtlog.StreamName{Queue: "cm", Name: "feed"}
	id, err := evtid.Make(evtid.EpochMillis, 7, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	cluster := node.Archive()
	w, err := cluster.Fold(ctx, stream, evtid.ID{}, []evtlog.Record{{ID: id, Fields: []evtlog.Field{evtlog.F("pct", "83")}}})
	fmt.Println("watermark", w, err)
	for rec, err := range cluster.Read(ctx, stream, archive.Range{}) {
		fmt.Println(rec.ID, rec.Fields, err)
	}
	// Output:
	// watermark EVT000000007SS <nil>
	// EVT000000007SS [{pct 83}] <nil>
}
