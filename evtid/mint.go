package evtid

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

// DefaultMaxSkew is how far the newest id may be ahead of the clock before
// minting is refused.
const DefaultMaxSkew = time.Minute

// MinterConfig configures a Minter. The zero value is node 0 on the system
// clock with DefaultMaxSkew.
type MinterConfig struct {
	// Node is the writer's number, 0..MaxNode. Two writers of one stream must
	// not share it.
	Node int
	// MaxSkew is the furthest that an id may be ahead of the clock, in whole
	// milliseconds. 0 means DefaultMaxSkew.
	MaxSkew time.Duration
	// Now returns the current Unix millisecond. nil means the system clock.
	Now func() int64
}

// Minter makes ids that strictly increase: under bursts (a full millisecond
// carries into the next), when the clock steps back, and for concurrent
// callers. It holds one atomic word, takes no lock, never waits and does not
// allocate.
//
// A process has one Minter per stream and keeps it when the writer of the
// stream is restarted: a new one knows only what Seed tells it.
type Minter struct {
	// last is the newest position handed out: milliseconds since EpochMillis
	// << seqBits | sequence.
	last    atomic.Uint64
	node    uint64
	maxSkew int64
	now     func() int64
}

// NewMinter returns a Minter that has minted nothing. Call Seed before Mint
// when the stream or its archive may hold ids. A node outside 0..MaxNode is a
// *NodeError, a negative MaxSkew a *SkewLimitError.
func NewMinter(cfg MinterConfig) (*Minter, error) {
	if cfg.Node < 0 || cfg.Node > MaxNode {
		return nil, &NodeError{Node: cfg.Node}
	}
	if cfg.MaxSkew < 0 {
		return nil, &SkewLimitError{MaxSkew: cfg.MaxSkew}
	}
	if cfg.MaxSkew == 0 {
		cfg.MaxSkew = DefaultMaxSkew
	}
	if cfg.Now == nil {
		cfg.Now = func() int64 { return time.Now().UnixMilli() }
	}
	return &Minter{node: uint64(cfg.Node), maxSkew: cfg.MaxSkew.Milliseconds(), now: cfg.Now}, nil
}

// Seed makes every later id greater than top, and of a later millisecond than
// top's, whichever node minted it. Call it with the newest id that is known:
// the top of the stream and the watermark of its archive. Seeding at or below
// what was already minted changes nothing.
//
// When top is further ahead of the clock than MaxSkew it is a *SkewError and
// nothing changes.
func (m *Minter) Seed(top ID) error {
	if top.IsZero() {
		return nil
	}
	if err := m.checkSkew(top, m.now()); err != nil {
		return err
	}
	// The last sequence of top's millisecond: the next mint carries over.
	floor := top.Snowflake()>>tailBits<<seqBits | MaxSeq
	for {
		last := m.last.Load()
		if last >= floor || m.last.CompareAndSwap(last, floor) {
			return nil
		}
	}
}

// Mint returns the next id. It is safe for concurrent use.
//
// An id is never further ahead of the clock than MaxSkew. When that is all used
// up (the clock was set back, or more than 4,096 ids a millisecond were minted
// for that long) it is a *SkewError, and minting goes on by itself once the
// clock has caught up. A clock that stands before 2024, where no id can lie, is
// the same case: it was never set. A clock past the last id, in the year 2093,
// is ErrOverflow.
func (m *Minter) Mint() (ID, error) {
	now := m.now()
	floor := position(now)
	for {
		last := m.last.Load()
		next := max(floor, last+1)
		ms := next >> seqBits
		if ms > maxMS {
			return ID{}, fmt.Errorf("evtid: %w: no id is left to mint at Unix millisecond %d, the last one lies in the year 2093; correct the clock", ErrOverflow, now)
		}
		id := pack(ms, m.node, next&MaxSeq)
		if err := m.checkSkew(id, now); err != nil {
			return ID{}, err
		}
		if m.last.CompareAndSwap(last, next) {
			return id, nil
		}
	}
}

// position returns the first position of a Unix millisecond, in the units of
// Minter.last. Outside the range of ids it is the first one, or one past the
// last.
func position(unixMilli int64) uint64 {
	switch {
	case unixMilli < EpochMillis:
		return 0
	case unixMilli > MaxMillis:
		return (maxMS + 1) << seqBits
	}
	return uint64(unixMilli-EpochMillis) << seqBits
}

func (m *Minter) checkSkew(id ID, now int64) error {
	ms := id.UnixMilli()
	if now >= ms-m.maxSkew {
		return nil
	}
	return &SkewError{ID: id, Skew: between(now, ms), Max: time.Duration(m.maxSkew) * time.Millisecond}
}

// between returns the time from one Unix millisecond to a later one, as far as
// a Duration reaches (292 years).
func between(from, to int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	if from < to-most {
		return math.MaxInt64
	}
	return time.Duration(to-from) * time.Millisecond
}
