package evtid

import (
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
	// MaxSkew is the furthest that an id may be ahead of the clock. 0 means
	// DefaultMaxSkew.
	MaxSkew time.Duration
	// Now returns the current Unix millisecond. nil means the system clock.
	Now func() int64
}

// Minter makes ids that strictly increase: under bursts (a full millisecond
// carries into the next), when the clock steps back, and for concurrent
// callers. It holds one atomic word, takes no lock, never waits and does not
// allocate. A process needs exactly one Minter per stream.
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
// *NodeError.
func NewMinter(cfg MinterConfig) (*Minter, error) {
	if cfg.Node < 0 || cfg.Node > MaxNode {
		return nil, &NodeError{Node: cfg.Node}
	}
	if cfg.MaxSkew == 0 {
		cfg.MaxSkew = DefaultMaxSkew
	}
	if cfg.Now == nil {
		cfg.Now = func() int64 { return time.Now().UnixMilli() }
	}
	return &Minter{node: uint64(cfg.Node), maxSkew: cfg.MaxSkew.Milliseconds(), now: cfg.Now}, nil
}

// Seed makes every later id greater than top, and of a later millisecond, so
// that an id this process had in flight before a restart is not minted again.
// Seeding below what was already minted changes nothing. When top is further
// ahead of the clock than MaxSkew it is a *SkewError and nothing changes.
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

// Mint returns the next id. It is safe for concurrent use. When the ids have
// run further ahead of the clock than MaxSkew (the clock was set back, or more
// than 4,096 ids a millisecond were minted for minutes) it is a *SkewError,
// and minting goes on by itself once the clock has caught up. After the year
// 2093 it is ErrOverflow.
func (m *Minter) Mint() (ID, error) {
	now := m.now()
	var floor uint64
	if now > EpochMillis {
		floor = uint64(now-EpochMillis) << seqBits
	}
	for {
		last := m.last.Load()
		next := max(floor, last+1)
		ms := next >> seqBits
		if ms > uint64(MaxMillis-EpochMillis) {
			return ID{}, &ParseError{Input: "mint", Reason: "the clock is past the last id", Err: ErrOverflow}
		}
		id := ID{ms<<tailBits | m.node<<seqBits | next&MaxSeq + 1}
		if err := m.checkSkew(id, now); err != nil {
			return ID{}, err
		}
		if m.last.CompareAndSwap(last, next) {
			return id, nil
		}
	}
}

func (m *Minter) checkSkew(id ID, now int64) error {
	skew := id.UnixMilli() - now
	if skew <= m.maxSkew {
		return nil
	}
	return &SkewError{ID: id, Skew: time.Duration(skew) * time.Millisecond, Max: time.Duration(m.maxSkew) * time.Millisecond}
}
