package redislog

import "time"

// readAhead is a read whose answer was not taken yet.
type readAhead struct {
	// sent counts the acknowledgements in front of it whose answer was not taken
	// either, count is what it asks for.
	sent, count int
}

// ReadAhead sends what ReadNew would send without a wait, and does not take the
// answer: the server works on it while the caller works on what it has. Up to two
// answers may be outstanding; they are taken in order, by AwaitAhead and
// TakeAhead, before any other call of this reader but Close. The entries are
// delivered from now on: count their idle time from here.
func (g *GroupReader) ReadAhead(count int) error {
	if count <= 0 {
		return badArgument("ReadAhead", "count", "it must be positive")
	}
	g.ahead = append(g.ahead, readAhead{sent: g.encodeAcks(), count: count})
	g.w.out = g.appendTail(append(appendArray(g.w.out, 9), g.read...), count, ">")
	g.w.unanswered++
	return g.w.flush(g.op, 0)
}

// AwaitAhead waits until the first outstanding answer is coming, and takes of it
// what concerns acknowledgements. A ReadAhead behind it lets the server go on
// while the entries are decoded.
func (g *GroupReader) AwaitAhead() error {
	if err := g.extend(); err != nil {
		return err
	}
	if err := g.receiveAcks(g.ahead[0].sent); err != nil {
		return g.w.fail(g.op, err)
	}
	g.ahead[0].sent = 0
	if len(g.w.in.buffered()) > 0 {
		return nil
	}
	if err := g.w.in.fill(); err != nil {
		return g.w.fail(g.op, err)
	}
	return nil
}

// TakeAhead returns what the first outstanding ReadAhead asked for, nil when
// there was nothing new. Errors are those of ReadNew.
func (g *GroupReader) TakeAhead() ([]Entry, error) {
	if err := g.extend(); err != nil {
		return nil, err
	}
	first := g.ahead[0]
	g.ahead = append(g.ahead[:0], g.ahead[1:]...)
	return g.receiveEntries(first.sent, first.count)
}

// extend gives the answer its time from now: the limit that was set when the read
// was sent may have passed while its answer lay there.
func (g *GroupReader) extend() error {
	if g.w.err != nil {
		return g.w.err
	}
	if err := g.w.conn.SetReadDeadline(time.Now().Add(g.w.timeout)); err != nil {
		return g.w.fail(g.op, err)
	}
	return nil
}
