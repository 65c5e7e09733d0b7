// Package runtime is the composition root: it turns one Config into a supervised
// tree of components and gives the embedding program handles on them.
//
//	rt, err := runtime.Start(ctx, runtime.Config{
//		Redis: redislog.Config{URL: "redis://127.0.0.1:6379/0"},
//		Node:  7,
//		Streams: []runtime.Stream{{
//			Queue: "cm", Name: "feed",
//			Retention: evtlog.KeepLast(10_000), Durability: runtime.Commit, Archive: store,
//		}},
//		Consumers: []runtime.Consumer{{
//			Queue: "cm", Stream: "feed", Group: "notify", Name: "notify-1",
//			Start: streamconsumer.FromHead, Handler: notify,
//		}},
//	})
//
// The tree has one branch per stream (its writer, and its retention actor or its
// archiver), one per consumer, one per stream that is consumed for the writer of
// its dead stream, and one that looks at the settings of the server. A stream that
// another process writes is declared ReadOnly: it has a handle to read and follow
// it by, with its archive, and no branch. A branch fails alone: when it has used up
// its restarts it is reported failed, Health turns red, and the others go on.
//
// The package installs no signal handlers, ends no process and keeps no globals;
// two runtimes may live in one process, with different streams.
package runtime
