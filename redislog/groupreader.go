package redislog

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/evtlog/evtlog/evtid"
)

// GroupReader reads for one member of a group, on a connection of its own, where
// a read may park. Acknowledgements are queued and ride with the next read, in
// the same flush.
//
// One goroutine uses a GroupReader; Close may be called by any and unblocks a
// parked read within milliseconds. After a *ConnError it is unusable: close it,
// dial anew, and read the own pending entries first, for what the server sent
// last may have been lost on the way.
type GroupReader struct {
	w        *wire
	log      *Log
	clientID int64
	op       string
	// These are the constant words of the commands, encoded.
	ack, read []byte
	// ranges is a whole command: how many ranges are recorded for the group.
	ranges []byte
	key    string

	acks        []evtid.ID
	rawAcks     []string
	ahead       []readAhead
	acked, lost atomic.Int64
	recorded    int64
}

// NewGroupReader dials the connection. The group need not exist yet; reads then
// fail with evtlog.ErrNoGroup.
func (l *Log) NewGroupReader(ctx context.Context, group, consumer string) (*GroupReader, error) {
	if err := checkGroupMember(group, consumer); err != nil {
		return nil, err
	}
	who := group + "/" + consumer
	w, id, err := l.private(ctx, "reader", who)
	if err != nil {
		return nil, err
	}
	key := l.stream.Key()
	words := func(words ...string) (b []byte) {
		for _, word := range words {
			b = appendBulk(b, word)
		}
		return b
	}
	return &GroupReader{
		w: w, log: l, clientID: id, op: l.op("read " + who), key: key,
		ack:    words("XACK", key, group),
		read:   words("XREADGROUP", "GROUP", group, consumer),
		ranges: append(appendArray(nil, 2), words("LLEN", l.stream.Skipped(group))...),
	}, nil
}

// ClientID is the server's number of the connection; 0 when it does not tell.
func (g *GroupReader) ClientID() int64 { return g.clientID }

// Ack queues acknowledgements. They are sent with the next read, or by
// FlushAcks.
func (g *GroupReader) Ack(ids ...evtid.ID) { g.acks = append(g.acks, ids...) }

// AckRaw queues acknowledgements of foreign entries, by Entry.Raw.
func (g *GroupReader) AckRaw(entries ...string) { g.rawAcks = append(g.rawAcks, entries...) }

// Acked returns how many acknowledgements the server has counted. It is safe for
// concurrent use.
func (g *GroupReader) Acked() int64 { return g.acked.Load() }

// LostAcks returns how many acknowledgements were sent and not counted: the
// entry was not pending any more, because another member claimed and
// acknowledged it, or the group was made anew. It is safe for concurrent use.
func (g *GroupReader) LostAcks() int64 { return g.lost.Load() }

// Recorded returns how many skipped ranges were recorded for the group when the
// last acknowledgements were taken. With none, nothing that they were for has
// been trimmed before.
func (g *GroupReader) Recorded() int64 { return g.recorded }

// ReadNew sends the queued acknowledgements and reads up to count entries that
// the group has not been given yet. When there is none it waits for block, and
// returns nil when that has passed; block below 1 ms does not wait at all.
// Without the group it is evtlog.ErrNoGroup and the reader stays usable.
func (g *GroupReader) ReadNew(count int, block time.Duration) ([]Entry, error) {
	if count <= 0 {
		return nil, badArgument("ReadNew", "count", "it must be positive")
	}
	sent := g.encodeAcks()
	words := 9
	if block >= time.Millisecond {
		words = 11
	}
	out := append(appendArray(g.w.out, words), g.read...)
	if block >= time.Millisecond {
		out = appendInt(appendBulk(out, "BLOCK"), millis(block))
	}
	g.w.out = g.appendTail(out, count, ">")
	return g.readEntries(sent, block, count)
}

// ReadPending sends the queued acknowledgements and reads a page of up to count
// entries that are pending for this member, those with id > after. It never
// waits. An entry whose body was trimmed comes with Missing set. A foreign entry
// has no id that a cursor could name: acknowledge it before asking for the next
// page, or it comes again.
func (g *GroupReader) ReadPending(after evtid.ID, count int) ([]Entry, error) {
	if count <= 0 {
		return nil, badArgument("ReadPending", "count", "it must be positive")
	}
	sent := g.encodeAcks()
	from := "0"
	if !after.IsZero() {
		from = after.Entry()
	}
	g.w.out = g.appendTail(append(appendArray(g.w.out, 9), g.read...), count, from)
	return g.readEntries(sent, 0, count)
}

func (g *GroupReader) appendTail(out []byte, count int, from string) []byte {
	out = appendInt(appendBulk(out, "COUNT"), int64(count))
	return appendBulk(appendBulk(appendBulk(out, "STREAMS"), g.key), from)
}

// encodeAcks encodes what is queued and returns how many there were. The count
// of recorded ranges is asked for behind them.
func (g *GroupReader) encodeAcks() (sent int) {
	sent = len(g.acks) + len(g.rawAcks)
	if sent == 0 {
		return 0
	}
	var buf [24]byte
	out := append(appendArray(g.w.out, 3+sent), g.ack...)
	for _, id := range g.acks {
		out = appendBulk(out, id.AppendEntry(buf[:0]))
	}
	for _, raw := range g.rawAcks {
		out = appendBulk(out, raw)
	}
	g.w.out = append(out, g.ranges...)
	g.w.unanswered += 2
	g.acks, g.rawAcks = g.acks[:0], g.rawAcks[:0]
	return sent
}

// receiveAcks reads the answer of what encodeAcks sent.
func (g *GroupReader) receiveAcks(sent int) error {
	if sent == 0 {
		return nil
	}
	n, err := g.w.integer(g.op)
	if err != nil {
		return err
	}
	g.acked.Add(n)
	g.lost.Add(max(int64(sent)-n, 0))
	g.recorded, err = g.w.integer(g.op)
	return err
}

func (g *GroupReader) readEntries(sent int, block time.Duration, count int) ([]Entry, error) {
	g.w.unanswered++
	if err := g.w.flush(g.op, block); err != nil {
		return nil, err
	}
	return g.receiveEntries(sent, count)
}

// receiveEntries takes the answers of acknowledgements and read.
func (g *GroupReader) receiveEntries(sent, count int) ([]Entry, error) {
	if err := g.receiveAcks(sent); err != nil {
		// The read behind it may have been given entries. Dropping the connection
		// makes the member look at its pending ones.
		return nil, g.w.fail(g.op, err)
	}
	streams, err := g.w.array(g.op)
	if err != nil || streams <= 0 {
		return nil, err
	}
	if streams != 1 {
		return nil, g.w.fail(g.op, protocolError("an answer for another number of streams"))
	}
	entries, err := g.streamEntries(count)
	if err != nil {
		return nil, g.w.fail(g.op, err)
	}
	return entries, nil
}

// streamEntries reads "[key, [entry, …]]".
func (g *GroupReader) streamEntries(count int) ([]Entry, error) {
	pair, err := g.w.in.line()
	if err != nil {
		return nil, err
	}
	if pair.kind != '*' || pair.n != 2 {
		return nil, protocolError("a stream's part is not a pair of key and entries")
	}
	if err := g.w.in.skip(1); err != nil {
		return nil, err
	}
	return g.w.in.entries(count)
}

// FlushAcks sends the queued acknowledgements and waits for the answer.
func (g *GroupReader) FlushAcks() error {
	sent := g.encodeAcks()
	if err := g.w.flush(g.op, 0); err != nil {
		return err
	}
	if err := g.receiveAcks(sent); err != nil {
		// The answer behind it was not taken.
		return g.w.fail(g.op, err)
	}
	return nil
}

// Close closes the connection; queued acknowledgements are dropped, and their
// entries are delivered again. It may be called twice, and by any goroutine.
func (g *GroupReader) Close() error { return g.w.close() }
