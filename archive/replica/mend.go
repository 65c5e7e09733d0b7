package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"connectrpc.com/connect"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/archive/replica/manifest"
	pb "github.com/evtlog/evtlog/archive/replica/replicapb"
)

// mend is a volume that is suspected, and why.
type mend struct {
	stream evtlog.StreamName
	why    error
}

// suspect asks for a volume to be looked at. It never blocks: when too many wait
// already, the next read or comparison asks again.
func (e *engine) suspect(stream evtlog.StreamName, why error) {
	select {
	case e.mends <- mend{stream, why}:
	default:
	}
}

// suspect is told of every failed read; only damage counts.
func (n *Node) suspect(stream evtlog.StreamName, err error) {
	if e := n.engine(); e != nil && errors.Is(err, archive.ErrCorrupt) {
		e.suspect(stream, err)
	}
}

// mendEvery is the pause between two attempts to repair one volume.
const mendEvery = time.Second

// mendVolumes repairs volumes one at a time. While that goes on the volume is
// parked: it serves nothing and takes no entries.
func (e *engine) mendVolumes() {
	for _, stream := range e.store.allParked() {
		e.suspect(stream, errors.New("it was parked before the start"))
	}
	for {
		select {
		case <-e.ctx.Done():
			return
		case m := <-e.mends:
			for e.ctx.Err() == nil {
				done, err := e.mendOne(m)
				if done {
					break
				}
				e.n.cfg.Logger.Error("volume cannot be repaired yet", "stream", m.stream, "error", err)
				if !sleep(e.ctx, mendEvery) {
					return
				}
			}
		}
	}
}

// remedy is what is done about a suspected volume.
type remedy uint8

const (
	// remedyNone: the volume is sound and agrees with the others.
	remedyNone remedy = iota
	// remedyCatchUp: sound, but it had to pass over an entry: pull what lies above.
	remedyCatchUp
	// remedyReplace: quarantine it and pull it whole.
	remedyReplace
	// remedyWait: the others cannot be asked, or do not know more.
	remedyWait
)

// suspicion is what decideRemedy looks at.
type suspicion struct {
	// sound: checksums and chain match.
	sound bool
	// parked: the volume takes no entries.
	parked bool
	// agree and differ count the peers whose chain at the compared position is the
	// volume's, or another.
	agree, differ int
	// above: a sound peer has commits above the volume's.
	above bool
	// votes is how many nodes make a majority.
	majority int
}

// decideRemedy says what to do. A volume that does not match its own chain is
// replaced. One that does is only replaced when a majority of the nodes has
// another history: the leader alone may be the one that is wrong, and copying
// from it would spread the damage.
func decideRemedy(s suspicion) remedy {
	switch {
	case !s.sound:
		return remedyReplace
	case s.differ >= s.majority:
		return remedyReplace
	case s.agree+1 >= s.majority && s.parked && s.above:
		return remedyCatchUp
	case s.agree+1 >= s.majority && !s.parked:
		return remedyNone
	}
	return remedyWait
}

func (e *engine) mendOne(m mend) (done bool, err error) {
	s, peers, err := e.examine(m.stream)
	if err != nil {
		return false, err
	}
	r := decideRemedy(s)
	if r == remedyNone {
		return true, nil
	}
	if r == remedyWait {
		return false, fmt.Errorf("replica: volume %s is suspected (%w), and its peers cannot settle it", m.stream, m.why)
	}
	if err := e.store.park(m.stream, m.why.Error()); err != nil {
		return false, err
	}
	e.n.alarm(Alarm{Kind: "repair", Err: fmt.Errorf("replica: volume %s is repaired from a peer: %w", m.stream, m.why)})
	if r == remedyReplace {
		if err := e.store.quarantine(m.stream); err != nil {
			return false, err
		}
	}
	e.handOver(e.ctx)
	copied, err := e.pullFromAny(m.stream, peers)
	if err != nil {
		return false, err
	}
	if whole, err := e.store.unpark(m.stream, copied); err != nil || !whole {
		return false, errors.Join(err, errNotWhole)
	}
	e.n.cfg.Logger.Warn("volume is repaired", "stream", m.stream)
	return true, nil
}

var errNotWhole = errors.New("the peers have not applied yet what was passed over here")

// peerHead is what one peer has of a volume.
type peerHead struct {
	addr string
	head manifest.Volume
	// applied is how far the peer had applied the log before head was read.
	applied uint64
	// chainHere is the peer's chain at this node's own LSN; known says that it has
	// got that far.
	chainHere [32]byte
	known     bool
}

func (e *engine) examine(stream evtlog.StreamName) (suspicion, []peerHead, error) {
	s := suspicion{parked: e.store.parkedReason(stream) != "", majority: len(e.servers())/2 + 1}
	s.sound = e.store.verifyOne(e.ctx, stream) == nil
	if e.ctx.Err() != nil {
		return s, nil, e.ctx.Err()
	}
	own, err := e.store.head(stream)
	if err != nil && s.sound {
		return s, nil, err
	}
	var peers []peerHead
	for _, addr := range e.n.peerAddresses() {
		p, err := e.askHead(addr, stream, own.LSN)
		if err != nil {
			continue
		}
		peers = append(peers, p)
		s.above = s.above || p.head.LSN > own.LSN
		switch {
		case own.LSN == 0, p.known && p.chainHere == own.Chain:
			s.agree++
		case p.known:
			s.differ++
		}
	}
	return s, peers, nil
}

func (e *engine) askHead(addr string, stream evtlog.StreamName, lsn uint64) (peerHead, error) {
	ctx, cancel := context.WithTimeout(e.ctx, askTimeout)
	defer cancel()
	p := peerHead{addr: addr}
	res, err := e.n.stub(addr).Heads(ctx, connect.NewRequest(&pb.HeadsRequest{}))
	if err != nil {
		return p, api.FromWire(err)
	}
	p.applied = res.Msg.GetApplied()
	for _, h := range res.Msg.GetHeads() {
		if api.StreamFromWire(h.GetStream()) == stream && h.GetParked() == "" {
			p.head = volumeFromWire(h)
		}
	}
	if p.head.LSN < lsn || lsn == 0 {
		return p, nil
	}
	at, err := e.n.stub(addr).Heads(ctx, connect.NewRequest(&pb.HeadsRequest{At: []*pb.Position{{Stream: api.StreamToWire(stream), Lsn: lsn}}}))
	if err != nil || len(at.Msg.GetHeads()) != 1 {
		return p, api.FromWire(err)
	}
	copy(p.chainHere[:], at.Msg.GetHeads()[0].GetChain())
	p.known = true
	return p, nil
}

// pullFromAny pulls a volume up to the head of the furthest peer that can give
// it, and returns how far that peer had applied the log. The copy is checked
// commit by commit, so damage does not travel.
func (e *engine) pullFromAny(stream evtlog.StreamName, peers []peerHead) (applied uint64, err error) {
	slices.SortFunc(peers, func(a, b peerHead) int {
		if a.head.LSN != b.head.LSN {
			return cmp.Compare(b.head.LSN, a.head.LSN)
		}
		return cmp.Compare(b.applied, a.applied)
	})
	err = errNoSource
	for _, p := range peers {
		if p.head.LSN == 0 {
			continue
		}
		if err = e.puller.from(e.ctx, p.addr, p.head); err == nil {
			return p.applied, nil
		}
	}
	return 0, err
}
