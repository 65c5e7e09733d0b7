package supervise

import "time"

// phase is where a component of a branch is, as its branch sees it.
type phase uint8

const (
	// waiting: not started yet; its turn comes when the one before it is up.
	waiting phase = iota
	// starting: an incarnation exists that was not ready yet.
	starting
	// up: the incarnation is ready.
	up
	// pausing: the last incarnation has ended, the next one comes after a pause.
	pausing
	// stopping: told to stop, not ended yet.
	stopping
	// ended: nothing runs and nothing will.
	ended
)

// alive reports whether there is an actor in this phase.
func (p phase) alive() bool { return p != waiting && p != ended }

// nextStart returns the component whose turn it is to start: the first that
// waits, when all before it have been up or have ended and it is one of the
// first keep. hasBeenUp is by component.
func nextStart(phases []phase, hasBeenUp []bool, keep int) (int, bool) {
	for i, p := range phases[:keep] {
		if p == waiting {
			return i, true
		}
		if p != ended && !hasBeenUp[i] {
			return 0, false
		}
	}
	return 0, false
}

// allUp reports whether every component has been up, or has ended as it may.
func allUp(phases []phase, hasBeenUp []bool) bool {
	for i, p := range phases {
		if p != ended && !hasBeenUp[i] {
			return false
		}
	}
	return true
}

// nextStop returns the component to stop now so that only the first keep go on:
// always the last one alive, and none while that one is still stopping.
func nextStop(phases []phase, keep int) (int, bool) {
	for i := len(phases) - 1; i >= keep; i-- {
		if phases[i].alive() {
			return i, phases[i] != stopping
		}
	}
	return 0, false
}

// aliveFrom counts the components at or after keep that are alive.
func aliveFrom(phases []phase, keep int) int {
	n := 0
	for _, p := range phases[keep:] {
		if p.alive() {
			n++
		}
	}
	return n
}

// stopGrace is what a component is given to stop although the deadline of the
// one who asked has passed: nobody waits for it, but it may flush.
const stopGrace = 100 * time.Millisecond

// stopShare returns how long to wait for one component's end when left
// components, this one included, must end before the deadline: each is asked
// before the deadline although one before it hangs. A zero deadline is none.
func stopShare(timeout time.Duration, deadline, now time.Time, left int) time.Duration {
	if deadline.IsZero() {
		return timeout
	}
	return min(timeout, max(stopGrace, deadline.Sub(now)/time.Duration(left)))
}
