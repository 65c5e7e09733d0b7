package redislog

import (
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
)

// Claimed is one step of a sweep over the entries that are pending for the whole
// group.
type Claimed struct {
	// Entries are now this member's. A foreign entry whose body was trimmed is
	// among them, with Raw and Missing set.
	Entries []Entry
	// Deleted were pending, for whatever member, and their body was trimmed: the
	// server has dropped them and will never name them again. The archive may
	// have them. Redis 6.2 does not tell them; the trim that took them recorded
	// them as skipped ranges.
	Deleted []evtid.ID
	// Cursor continues the sweep; "0-0" is its end.
	Cursor string
}

// AutoClaim sends the queued acknowledgements and takes over up to count entries
// that have been idle for minIdle with any member. It counts as a delivery.
// cursor is that of the step before, "" to begin: one call looks at ten times
// count entries only, so it has to be kept. "0-0" begins the next sweep.
func (g *GroupReader) AutoClaim(minIdle time.Duration, cursor string, count int) (Claimed, error) {
	return g.claimStep(minIdle, cursor, count, false)
}

// ClaimIdle takes over as AutoClaim does, but neither reads the entries nor
// counts a delivery: Entries have only ID or Raw. Read them with ReadPending,
// which counts.
func (g *GroupReader) ClaimIdle(minIdle time.Duration, cursor string, count int) (Claimed, error) {
	return g.claimStep(minIdle, cursor, count, true)
}

func (g *GroupReader) claimStep(minIdle time.Duration, cursor string, count int, justID bool) (Claimed, error) {
	if count <= 0 {
		return Claimed{}, badArgument("claim", "count", "it must be positive")
	}
	sent := g.encodeAcks()
	g.encodeClaim(minIdle, cursor, count, justID)
	if err := g.w.flush(g.op, 0); err != nil {
		return Claimed{}, err
	}
	if err := g.receiveAcks(sent); err != nil {
		return Claimed{}, g.w.fail(g.op, err)
	}
	parts, err := g.w.array(g.op)
	if err != nil {
		return Claimed{}, err
	}
	claimed, err := g.claimParts(parts, count, justID)
	if err != nil {
		return Claimed{}, g.w.fail(g.op, err)
	}
	return claimed, nil
}

func (g *GroupReader) encodeClaim(minIdle time.Duration, cursor string, count int, justID bool) {
	if cursor == "" || cursor == "0-0" {
		cursor = "0"
	}
	words := 8
	if justID {
		words = 9
	}
	out := append(appendArray(g.w.out, words), g.claim...)
	out = appendBulk(appendInt(out, max(minIdle.Milliseconds(), 0)), cursor)
	out = appendInt(appendBulk(out, "COUNT"), int64(count))
	if justID {
		out = appendBulk(out, "JUSTID")
	}
	g.w.out = out
	g.w.unanswered++
}

// claimParts reads "[cursor, entries, deleted]"; Redis 6.2 has no third part.
func (g *GroupReader) claimParts(parts int64, count int, justID bool) (c Claimed, err error) {
	if parts != 2 && parts != 3 {
		return c, protocolError("a claim does not answer cursor and entries")
	}
	if c.Cursor, err = g.w.in.text(); err != nil {
		return c, err
	}
	if justID {
		c.Entries, err = g.w.in.positions()
	} else {
		// A nil is an entry that Redis 6.2 found without its body. Which one it
		// does not say; it stays in the pending list, and reads there as missing.
		c.Entries, err = g.w.in.entries(count)
	}
	if err != nil || parts == 2 {
		return c, err
	}
	deleted, err := g.w.in.positions()
	for _, e := range deleted {
		if e.Raw != "" {
			e.Missing = true
			c.Entries = append(c.Entries, e)
			continue
		}
		c.Deleted = append(c.Deleted, e.ID)
	}
	return c, err
}

// positions reads an array of entry ids.
func (rd *reader) positions() ([]Entry, error) {
	list, err := rd.line()
	if err != nil {
		return nil, err
	}
	if list.kind != '*' {
		return nil, protocolError("the ids are not an array")
	}
	var entries []Entry
	for range list.n {
		text, err := rd.text()
		if err != nil {
			return nil, err
		}
		id, raw, err := entryID(text)
		if err != nil {
			return nil, err
		}
		entries = append(entries, Entry{Record: evtlog.Record{ID: id}, Raw: raw})
	}
	return entries, nil
}
