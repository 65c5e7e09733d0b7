package replica

import (
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/evtlog/evtlog/archive/replica/api"
)

// joinStep is what the leader does for a node that asks to be a member.
type joinStep uint8

const (
	// joinDone: it is what it asked to be.
	joinDone joinStep = iota
	// joinWait: it must catch up first.
	joinWait
	// joinAddNonvoter: let it in without a vote; also corrects its address.
	joinAddNonvoter
	// joinAddVoter: give it a vote; also corrects its address.
	joinAddVoter
	// joinDemote: take its vote.
	joinDemote
)

// joinRequest is what a node asks for.
type joinRequest struct {
	id, address string
	voter       bool
	// known: the node has been a member before.
	known bool
	// applied is the node's applied index.
	applied uint64
}

// caughtUp is how many entries behind the leader a node may be when it gets its
// vote: with a vote it counts for the majority at once.
const caughtUp = 64

// decideJoin says the next step towards what a node asks for. A node is never
// made a voter before it has caught up. An error wraps api.ErrMembership.
func decideJoin(servers []raft.Server, req joinRequest, commit uint64) (joinStep, error) {
	var own *raft.Server
	for i, s := range servers {
		if string(s.ID) == req.id {
			own = &servers[i]
			continue
		}
		if sameEndpoint(string(s.Address), req.address) {
			return joinDone, fmt.Errorf("replica: %w: address %s is that of node %s: give node %s its own", api.ErrMembership, req.address, s.ID, req.id)
		}
	}
	switch {
	case own == nil && req.known:
		return joinDone, fmt.Errorf("replica: %w: node %s was removed; start it with Rejoin to let it in anew", errRemoved, req.id)
	case own == nil:
		return joinAddNonvoter, nil
	case own.Suffrage == raft.Voter && !req.voter:
		return joinDemote, nil
	case own.Suffrage == raft.Voter && string(own.Address) != req.address:
		return joinAddVoter, nil
	case own.Suffrage == raft.Voter:
		return joinDone, nil
	case string(own.Address) != req.address:
		return joinAddNonvoter, nil
	case !req.voter:
		return joinDone, nil
	case req.applied+caughtUp < commit || req.applied == 0:
		return joinWait, nil
	}
	return joinAddVoter, nil
}

// sameEndpoint reports whether two addresses share a port of either kind.
func sameEndpoint(a, b string) bool {
	x, errX := api.ParseAddress(a)
	y, errY := api.ParseAddress(b)
	return errX == nil && errY == nil && (x.Raft == y.Raft || x.HTTP == y.HTTP)
}

// checkRemove says whether a node may be taken out. An error wraps
// api.ErrMembership.
func checkRemove(servers []raft.Server, id string, force bool) error {
	voters, isVoter, found := 0, false, false
	for _, s := range servers {
		if s.Suffrage == raft.Voter {
			voters++
		}
		if string(s.ID) == id {
			found, isVoter = true, s.Suffrage == raft.Voter
		}
	}
	switch {
	case !found:
		return fmt.Errorf("replica: %w: node %q is not a member", api.ErrMembership, id)
	case isVoter && voters == 1:
		return fmt.Errorf("replica: %w: node %q is the last voter", api.ErrMembership, id)
	case isVoter && voters <= 3 && !force:
		return fmt.Errorf("replica: %w: without node %q only %d voters remain and none more may fail: add another node first, or force it", api.ErrMembership, id, voters-1)
	}
	return nil
}
