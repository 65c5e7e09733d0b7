package streamconsumer

import (
	"sync/atomic"
	"time"

	"github.com/evtlog/evtlog/evtid"
)

// Stats counts what a Consumer did since it was made, over all its restarts.
type Stats struct {
	// Delivered counts calls of the handler.
	Delivered int64
	// Acked counts entries that the server took out of the pending list for this
	// member. What is read from the archive is not pending, and not counted.
	Acked int64
	// NotOwned counts acknowledgements that came too late: the entry was not
	// pending any more, because a peer had taken it over and finished it, or the
	// group was gone.
	NotOwned int64
	// Failed counts handler calls that returned an error or panicked.
	Failed int64
	// Redelivered counts handler calls with Attempts above 1.
	Redelivered int64
	// Drained counts entries found pending under the own name after a connect.
	Drained int64
	// Reclaimed counts entries taken over from peers.
	Reclaimed int64
	// Recovered counts handler calls for records read from the archive, because
	// a trim had been faster than the group.
	Recovered int64
	// Dead counts entries moved to the dead stream.
	Dead int64
	// Lost counts ranges that were reported as lost.
	Lost int64
	// Reconnects counts lost connections.
	Reconnects int64

	// Member is the name under which the consumer is a member now; "" while it has
	// none.
	Member string
	// LastReply is when the server last answered this member, zero when it never
	// did. While Handling is zero, an age above three times Block means that the
	// member is cut off.
	LastReply time.Time
	// Paused is true while the consumer is at rest because of Pause: nothing runs,
	// and nothing is read. LastReply grows old meanwhile. A consumer that does not
	// run, because it was not started or has given up, is at rest at once.
	Paused bool
	// Waiting counts failed entries that wait for their back-off.
	Waiting int
	// InHand counts entries that were read and not offered yet.
	InHand int
	// Running counts handler calls that run, and Handling is the lowest entry among
	// them, the zero ID when none does.
	Running  int
	Handling evtid.ID
}

// counters is the part of Stats that is counted.
type counters struct {
	delivered, acked, notOwned, failed, redelivered atomic.Int64
	drained, reclaimed, recovered, dead, lost       atomic.Int64
	reconnects                                      atomic.Int64
	lastReply                                       atomic.Int64 // Unix nanoseconds, 0 never
}

func (c *counters) stats() Stats {
	s := Stats{
		Delivered: c.delivered.Load(), Acked: c.acked.Load(), NotOwned: c.notOwned.Load(),
		Failed: c.failed.Load(), Redelivered: c.redelivered.Load(), Drained: c.drained.Load(),
		Reclaimed: c.reclaimed.Load(), Recovered: c.recovered.Load(), Dead: c.dead.Load(),
		Lost: c.lost.Load(), Reconnects: c.reconnects.Load(),
	}
	if at := c.lastReply.Load(); at != 0 {
		s.LastReply = time.Unix(0, at)
	}
	return s
}
