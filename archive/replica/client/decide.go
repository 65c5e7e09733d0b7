package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"connectrpc.com/connect"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/evtid"
)

// move is what a failed attempt asks for.
type move uint8

const (
	// giveUp: the answer is final.
	giveUp move = iota
	// follow: nothing was done; the leader is named.
	follow
	// tryNext: nothing was done; another node may know more.
	tryNext
	// unknown: it may have been done; the same call again settles it.
	unknown
)

// judge classifies the error of one attempt. It decides what is safe: only an
// attempt that cannot have been proposed, or one that is settled by its own
// repetition, goes on. connected says whether there was a connection that the
// call could have been sent over.
func judge(err error, connected bool) (move, *api.NotLeaderError) {
	var notLeader *api.NotLeaderError
	switch {
	case errors.As(err, &notLeader):
		if notLeader.LeaderAddress != "" {
			return follow, notLeader
		}
		return tryNext, nil
	case errors.Is(err, api.ErrNotReady), errors.Is(err, api.ErrNoLeader), isDial(err):
		return tryNext, nil
	case isFinal(err):
		return giveUp, nil
	case !connected:
		// A limit of time that passes while the connection is made looks like one
		// that passes after it.
		return tryNext, nil
	}
	return unknown, nil
}

var finals = []error{
	archive.ErrConflict, archive.ErrRejected, archive.ErrCorrupt, archive.ErrBehind,
	api.ErrDenied, api.ErrForeignCluster, api.ErrBadRequest, api.ErrMembership,
}

func isFinal(err error) bool {
	for _, f := range finals {
		if errors.Is(err, f) {
			return true
		}
	}
	// Protocol errors that no node will answer differently.
	switch connect.CodeOf(err) {
	case connect.CodeUnimplemented, connect.CodeResourceExhausted, connect.CodeNotFound:
		return true
	}
	return false
}

// isDial reports whether the connection could not be made: nothing was sent.
func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// settle turns the last error of a fold into what the caller gets. doubt is true
// when an attempt may have been proposed whose answer is not known.
func settle(stream evtlog.StreamName, prev, last evtid.ID, err error, doubt, final bool) error {
	decided := errors.Is(err, archive.ErrConflict) || errors.Is(err, archive.ErrRejected)
	switch {
	case final && (decided || !doubt):
		return err
	case doubt:
		var already *api.UncertainError
		if errors.As(err, &already) {
			err = already.Err
		}
		return &api.UncertainError{Stream: stream, Prev: prev, Last: last, Err: err}
	}
	return noLeader(err)
}

func noLeader(err error) error {
	return fmt.Errorf("client: %w: %w", api.ErrNoLeader, err)
}

// readNext says whether a read that failed may be resumed on another node: the
// records are the same everywhere, so only a refusal of the request itself ends it.
func readNext(err error) bool {
	for _, f := range []error{api.ErrDenied, api.ErrForeignCluster, api.ErrBadRequest, archive.ErrRejected} {
		if errors.Is(err, f) {
			return false
		}
	}
	return true
}

// pause returns the wait before attempt n, counted from 0. rnd is in [0,1): half
// of the pause is jitter, so that clients do not return in step.
func pause(n int, lo, hi time.Duration, rnd float64) time.Duration {
	d := lo
	for ; n > 0 && d < hi; n-- {
		d *= 2
	}
	d = min(d, hi)
	return d/2 + time.Duration(rnd*float64(d/2))
}

// resume returns the range that is still to be read after last was delivered.
func resume(r archive.Range, last evtid.ID) archive.Range {
	if last.IsZero() {
		return r
	}
	if r.Reverse {
		r.To = last.Prev()
	} else {
		r.After = last
	}
	return r
}

// nothingLeft reports whether a pinned range holds no id any more.
func nothingLeft(r archive.Range, last evtid.ID) bool {
	return !last.IsZero() && !r.After.Less(r.To)
}

// ended reports whether the caller's own context is over.
func ended(ctx context.Context) bool { return ctx.Err() != nil }
