// Package evtlog holds the nouns that every part of the system shares: a
// Record, the Delivery of a record to a Handler, the Window and the Reader that
// reads it back, the errors, and the typed events through which the components
// report what they do.
//
// evtlog is an embedded, actor-style runtime for a retained event log on Redis
// Streams. A program starts it with package runtime:
//
//	rt, err := runtime.Start(ctx, runtime.Config{…})
//	feed, err := rt.Stream("cm", "feed")
//	id, err := feed.Append(ctx, evtlog.F("event", "scored"), evtlog.F("pct", "83"))
//
// The package does no I/O.
package evtlog
