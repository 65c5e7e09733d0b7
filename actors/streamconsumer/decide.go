package streamconsumer

import (
	"time"

	"github.com/evtlog/evtlog/redislog"
)

// phase is one step of the loop of a connected consumer.
type phase uint8

const (
	phaseStop   phase = iota
	phasePause        // rest until the program resumes
	phaseDrain        // offer what is pending under the own name, once
	phaseRetry        // offer failed entries whose back-off is over
	phaseBeat         // take over entries of dead peers
	phaseRanges       // one chunk of what a trim skipped
	phaseRead         // new entries
)

// loopFacts is what the next phase depends on.
type loopFacts struct {
	stopping bool
	paused   bool
	ahead    bool // new entries were read ahead
	drained  bool // since the connection was made
	retryDue bool
	beatDue  bool
	ranges   bool // skipped ranges may be waiting, and may be worked on now
	advanced bool // a chunk or new entries were asked for since the last retry or beat
}

// nextPhase orders the work: own pending entries first, then skipped ranges,
// then new entries. Retries and beats come in between when they are due, but
// never twice without a step forward, so that old trouble cannot starve the
// new entries.
func nextPhase(f loopFacts) phase {
	switch {
	case f.stopping:
		return phaseStop
	case f.paused:
		return phasePause
	case f.ahead:
		return phaseRead
	case !f.drained:
		return phaseDrain
	case f.retryDue && f.advanced:
		return phaseRetry
	case f.beatDue && f.advanced:
		return phaseBeat
	case f.ranges:
		return phaseRanges
	}
	return phaseRead
}

// verdict is what to do with an entry that was read.
type verdict uint8

const (
	verdictHandle     verdict = iota
	verdictDeadLetter         // no attempt is left, or it has no identity
	verdictSkipped            // its body was trimmed: it becomes a skipped range
)

// entryFacts is what is known of an entry before its handler would be called.
type entryFacts struct {
	foreign  bool // its position is one that no id has
	missing  bool // its body was trimmed
	attempts int  // deliveries, this one included
	max      int  // attempts allowed; negative: any number
}

// decideEntry never lets an entry go by: it is handled, stored as dead, or
// known as skipped, where the archive gives it back or its loss is reported.
func decideEntry(f entryFacts) verdict {
	switch {
	case f.missing && !f.foreign:
		return verdictSkipped
	case f.foreign, f.max > 0 && f.attempts > f.max:
		return verdictDeadLetter
	}
	return verdictHandle
}

// outcome is what to do after an attempt.
type outcome uint8

const (
	outcomeDone  outcome = iota // acknowledge
	outcomeLeave                // not this member's any more, or the program stops: touch nothing
	outcomeRetry                // offer again after the back-off
	outcomeBury                 // that was the last attempt
)

// attemptFacts is what is known after a handler has returned.
type attemptFacts struct {
	failed   bool // it returned an error or panicked
	dead     bool // its error says that no attempt can help
	owned    bool // the entry still belongs to this member
	stopping bool
	attempts int
	max      int
}

func decideOutcome(f attemptFacts) outcome {
	switch {
	case !f.owned:
		return outcomeLeave
	case !f.failed:
		return outcomeDone
	case f.dead:
		return outcomeBury
	case f.stopping:
		// The handler was told to stop, so its error says nothing of the entry.
		return outcomeLeave
	case f.max > 0 && f.attempts >= f.max:
		return outcomeBury
	}
	return outcomeRetry
}

// action is what to do about the error that ended a connection's loop.
type action uint8

const (
	actionStop   action = iota
	actionAgain         // after a pause, connect anew
	actionGiveUp        // no retry can help
)

// decideError reads the class of an error; 0 means it is not from the server.
func decideError(class redislog.Class, stopping bool) action {
	switch {
	case stopping:
		return actionStop
	case class == redislog.Terminal, class == redislog.Caller:
		return actionGiveUp
	}
	return actionAgain
}

// healthyAfter is how long a connection must have served for its loss to count
// as the first one.
const healthyAfter = time.Second

// nextAttempt returns the number of the next reconnect, from the number of the
// former one and how long the connection in between served: one that held for
// longer than the pause before it starts over.
func nextAttempt(former int, pause, served time.Duration) int {
	if served >= max(healthyAfter, 2*pause) {
		return 0
	}
	return former + 1
}

// blockFor returns how long a read may park: until the next thing that is due,
// at most block. Zero means not at all. It is in whole milliseconds, as Redis
// takes it, and rounded up: what is due in less would be awaited by asking again
// and again.
func blockFor(now time.Time, block time.Duration, due ...time.Time) time.Duration {
	for _, d := range due {
		if !d.IsZero() {
			block = min(block, d.Sub(now))
		}
	}
	const ms = time.Millisecond
	return max((block + ms - 1).Truncate(ms), 0)
}

// aheadFacts is what reading ahead depends on.
type aheadFacts struct {
	got, count int           // entries of this batch, and how many were asked for
	took       time.Duration // for the batch before; 0 unknown
	due        bool          // something else has to be done first
}

const (
	// aheadBelow is the time for a batch from which on the wait for the next one
	// does not matter any more.
	aheadBelow = 10 * time.Millisecond
	// aheadTwiceBelow is the time below which the server has to have a further read
	// while the answer to the one before is on its way.
	aheadTwiceBelow = time.Millisecond
)

// aheadOf returns how many reads the server is to have while the handler works:
// some when a backlog is likely, and the handler is so quick that the round trip
// counts. A slow handler would only keep entries away from its peers.
func aheadOf(f aheadFacts) int {
	switch {
	case f.got < f.count, f.count <= 1, f.took <= 0, f.took >= aheadBelow, f.due:
		return 0
	case f.took >= aheadTwiceBelow:
		return 1
	}
	return 2
}

// unproved reports whether so much time has passed since the ownership of the
// batch was last seen that a peer may be about to take it: after a long
// handler, or a frozen process.
func unproved(sinceSeen, minIdle time.Duration) bool { return sinceSeen > minIdle/3*2 }
