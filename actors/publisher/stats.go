package publisher

import (
	"sync/atomic"
	"time"
)

// Stats are counters since the Publisher was made, and the state of its queue.
type Stats struct {
	// Appended, Rejected and Uncertain count records by what their callers were
	// told. An uncertain one is counted again when it is settled.
	Appended, Rejected, Uncertain uint64
	// Announced counts announcements that the server has taken.
	Announced uint64
	// Batches counts flushes that carried records, Reconnects connections after
	// the first.
	Batches, Reconnects uint64
	// Queued is the number of records that wait to be sent, QueuedBytes what all
	// records that wait or are on their way are charged.
	Queued, QueuedBytes int
	// Waiting is the number of calls that wait for room in the queue.
	Waiting int
	// Unsettled is the number of records whose answers were lost and that are
	// being settled.
	Unsettled int
	// LastReply is when the server last answered an append; zero before that.
	LastReply time.Time
}

// counters is the written half of Stats.
type counters struct {
	appended, rejected, uncertain, announced, batches, reconnects atomic.Uint64
	unsettled                                                     atomic.Int64
	lastReply                                                     atomic.Int64 // Unix nanoseconds, 0 for never
}

func (c *counters) read() Stats {
	s := Stats{
		Appended: c.appended.Load(), Rejected: c.rejected.Load(), Uncertain: c.uncertain.Load(), Announced: c.announced.Load(),
		Batches: c.batches.Load(), Reconnects: c.reconnects.Load(), Unsettled: int(c.unsettled.Load()),
	}
	if ns := c.lastReply.Load(); ns != 0 {
		s.LastReply = time.Unix(0, ns)
	}
	return s
}

// Stats returns the counters. It is safe for concurrent use.
func (p *Publisher) Stats() Stats {
	s := p.stats.read()
	s.Queued, s.QueuedBytes = p.inbox.depth()
	s.Waiting = p.inbox.callers()
	return s
}
