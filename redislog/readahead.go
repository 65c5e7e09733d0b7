package redislog

import "time"

// readAhead is a read whose answer was not taken yet.
type readAhead struct {
	// sent counts the acknowledgements in front of it, count is what it asks for.
	sent, count int
}

// ReadAhead sends what ReadNew would send without a wait, and does not take the
// answer: the server works on it while the caller works on what it has.
// TakeAhead takes the answer, and has to be the next call of this reader but
// Close. The entries are delivered from now on: count their idle time from here.
func (g *GroupReader) ReadAhead(count int) error {
	if count <= 0 {
		return badArgument("ReadAhead", "count", "it must be positive")
	}
	g.ahead = readAhead{sent: g.encodeAcks(), count: count}
	g.w.out = g.appendTail(append(appendArray(g.w.out, 9), g.read...), count, ">")
	g.w.unanswered++
	return g.w.flush(g.op, 0)
}

// TakeAhead returns what ReadAhead asked for, nil when there was nothing new.
// Errors are those of ReadNew.
func (g *GroupReader) TakeAhead() ([]Entry, error) {
	if g.w.err == nil {
		// The limit that was set when the read was sent may have passed while its
		// answer lay there.
		if err := g.w.conn.SetReadDeadline(time.Now().Add(g.w.timeout)); err != nil {
			return nil, g.w.fail(g.op, err)
		}
	}
	return g.receiveEntries(g.ahead.sent, g.ahead.count)
}
