package replica

import (
	"fmt"

	"github.com/evtlog/evtlog/archive/replica/api"
)

// start is how a node may begin.
type start uint8

const (
	// startExisting: it has a past and goes on from there.
	startExisting start = iota
	// startBootstrap: it becomes the first node of a new cluster.
	startBootstrap
	// startJoin: it is empty and asks to be let in.
	startJoin
	// startRejoin: the cluster must forget it before it is let in again.
	startRejoin
	// startAsk: the peers that answered do not know enough; ask again.
	startAsk
	// startRefused: see the error.
	startRefused
)

// peerView is what one peer says.
type peerView struct {
	identity api.Identity
	// empty: the peer has no past either.
	empty bool
	// leads: the peer is the leader, so what it says of the members holds.
	leads bool
	// member and voter say what this node is to the peer.
	member, voter bool
}

// bootFacts are what decideStart looks at.
type bootFacts struct {
	id                 string
	bootstrap, rejoin  bool
	configured         api.Identity
	volumes, raftState api.Identity
	// volumesEmpty: there is no record of any stream.
	volumesEmpty bool
	// raftEmpty: there is no term, no entry and no snapshot.
	raftEmpty bool
	// damaged says what is wrong with the log, nil for nothing.
	damaged error
	// mendedLately: the node has rejoined a short time ago.
	mendedLately bool
	// hasPeers: there is someone to ask.
	hasPeers bool
	peers    []peerView
}

// decideStart says how a node may begin, from what is on its disk and what its
// peers say. It errs on the side of not starting: a node that has forgotten its
// vote, or that belongs elsewhere, can undo acknowledged folds.
func decideStart(f bootFacts) (start, error) {
	for _, theirs := range []api.Identity{f.volumes, f.raftState} {
		if err := f.configured.Matches(theirs); err != nil {
			return startRefused, fmt.Errorf("the directory belongs to another cluster: %w", err)
		}
	}
	if err := f.volumes.Matches(f.raftState); err != nil {
		return startRefused, fmt.Errorf("archive.db and raft.db do not belong together: %w", err)
	}
	ours := f.configured
	ours.Incarnation = max(f.volumes.Incarnation, f.raftState.Incarnation)
	var leader *peerView
	voter, established, undecided := false, false, false
	for i, p := range f.peers {
		if p.identity.Cluster != ours.Cluster {
			return startRefused, ours.Matches(p.identity)
		}
		if p.empty {
			continue
		}
		if p.identity.Incarnation == "" {
			// It is starting too, and has not looked at its disk yet.
			undecided = true
			continue
		}
		if err := ours.Matches(p.identity); err != nil {
			return startRefused, err
		}
		// An empty node belongs to no cluster yet; its peers must agree on one.
		ours.Incarnation = max(ours.Incarnation, p.identity.Incarnation)
		established = true
		voter = voter || p.voter
		if p.leads {
			leader = &f.peers[i]
		}
	}
	switch {
	case f.damaged != nil && !f.rejoin && f.mendedLately:
		return startRefused, fmt.Errorf("%w again, within %s of the last time: look at the disk, then start the node with Rejoin", f.damaged, mendPause)
	case f.damaged != nil && !f.hasPeers:
		return startRefused, fmt.Errorf("%w and there is no peer to mend it: recover the cluster offline, or from an export", f.damaged)
	case f.damaged != nil && leader == nil:
		return startAsk, nil
	case f.damaged != nil && !leader.member && !f.rejoin:
		return startRefused, removedError(f.id)
	case f.damaged != nil:
		return startRejoin, nil
	case !f.raftEmpty:
		return existing(f, leader)
	case f.bootstrap && !f.rejoin && !established && undecided:
		return startAsk, nil
	case f.bootstrap && !f.rejoin && !established:
		return fresh(f)
	case f.bootstrap && !f.rejoin && !voter:
		return startRefused, fmt.Errorf("replica: %w: cluster %q exists already: start node %q without Bootstrap to join it", api.ErrMembership, ours.Cluster, f.id)
	case !f.hasPeers:
		return startRefused, badConfig("node %q is empty: give it Bootstrap if it is the first of its cluster, else Peers to join through", f.id)
	case voter && !f.rejoin:
		return startRefused, fmt.Errorf("replica: %w: node %q is empty but still a voter, and may have forgotten a vote: remove it from the cluster first, or start it with Rejoin", api.ErrMembership, f.id)
	case leader == nil:
		return startAsk, nil
	case leader.member && (f.rejoin || voter):
		return startRejoin, nil
	}
	return startJoin, nil
}

func existing(f bootFacts, leader *peerView) (start, error) {
	if leader == nil || leader.member {
		return startExisting, nil
	}
	if f.rejoin {
		return startRejoin, nil
	}
	return startRefused, removedError(f.id)
}

func removedError(id string) error {
	return fmt.Errorf("replica: %w: node %q was removed from the cluster: start it with Rejoin to let it in anew", api.ErrMembership, id)
}

func fresh(f bootFacts) (start, error) {
	if !f.volumesEmpty {
		return startRefused, fmt.Errorf("replica: %w: archive.db of node %q holds records but raft.db is empty: a new cluster would not know of them; recover the cluster offline, or move archive.db away", api.ErrMembership, f.id)
	}
	return startBootstrap, nil
}

// mayRun says whether raft can be started: raft reads the log from the snapshot
// on, so a log that was cut needs a snapshot whose content is here.
//
// firstLog is the first index of the log, 0 when it is empty; covered is the
// index of the newest snapshot whose content is here, pending that of the newest
// snapshot of any kind.
func mayRun(firstLog, covered, pending uint64) bool {
	if firstLog == 0 {
		// An empty log behind a snapshot that is not here would begin at 1 again.
		return pending == 0 || covered > 0
	}
	return firstLog == 1 || covered >= firstLog-1
}
