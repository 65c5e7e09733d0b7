package publisher

import (
	"fmt"
	"testing"
)

// An exhaustive search of a small instance of lost answers: three records, three
// connections, commands of dead connections that still arrive, memory that runs
// out and comes back, an archiver that folds and trims at any moment. In every
// reachable state what a caller was told must be true, and must stay so.
//
// Leaving out a rule of decide, or asking in another order, must be found out:
// the search is worth nothing otherwise.

const (
	exploredRecords = 3
	exploredConns   = 3
)

// rules are the ways of settling that are compared.
type rules struct {
	// absentIsFinal: absent means rejected, whatever the top.
	absentIsFinal bool
	// archiveFirst: the archive is asked before the look-up.
	archiveFirst bool
	// refusalIsFinal: a refusal of a copy that was sent again is a rejection.
	refusalIsFinal bool
	// noArchiveAsked: below the top means rejected.
	noArchiveAsked bool
}

// world is one state. It is comparable.
type world struct {
	live, archived [exploredRecords + 1]bool
	top            int
	full           bool
	// conns are the connections so far, the last one the writer's own: the ids
	// next..last are sent and not executed.
	conns  [exploredConns]struct{ next, last int }
	nConns int
	// answers are those of the writer's connection, not read; lost is true when
	// it has hung up.
	answers [exploredRecords + 1]byte
	lost    bool
	// at is the record whose outcome is sought, told what callers were told.
	at   int
	told [exploredRecords + 1]byte
	// sight is what the settlement of at has seen; looked is true after the
	// look-up.
	sight  sight
	looked bool
}

const (
	accepted byte = iota + 1
	tooSmall
	outOfMemory
)

const (
	toldCommitted byte = iota + 1
	toldRejected
)

func (w world) there(id int) bool { return w.live[id] || w.archived[id] }

// check returns what is wrong with a state.
func (w world) check() string {
	for id := 1; id <= exploredRecords; id++ {
		switch {
		case w.live[id] && w.archived[id] && id > w.top:
			return "a record is archived and still to come"
		case w.told[id] == toldCommitted && !w.there(id):
			return fmt.Sprintf("record %d was called committed and is nowhere", id)
		case w.told[id] == toldRejected && w.there(id):
			return fmt.Sprintf("record %d was called rejected and is in the log", id)
		}
	}
	return ""
}

// next returns every state that one step leads to.
func (w world) next(r rules) []world {
	return append(w.environment(), w.writer(r)...)
}

func (w world) environment() (out []world) {
	for c := range w.nConns {
		q := w.conns[c]
		if q.next > q.last {
			continue
		}
		out = append(out, w.execute(c))
		if c < w.nConns-1 || w.lost {
			dropped := w
			dropped.conns[c].next = q.last + 1
			out = append(out, dropped)
		}
	}
	toggled := w
	toggled.full = !w.full
	out = append(out, toggled)
	folded, trimmed := w, w
	for id := 1; id <= exploredRecords; id++ {
		folded.archived[id] = folded.archived[id] || w.live[id]
		trimmed.live[id] = w.live[id] && !w.archived[id]
	}
	out = append(out, folded, trimmed)
	if w.nConns > 0 && !w.lost && w.nConns < exploredConns {
		hungUp := w
		hungUp.lost, hungUp.answers = true, [exploredRecords + 1]byte{}
		out = append(out, hungUp)
	}
	return out
}

// execute does the oldest command of a connection.
func (w world) execute(c int) world {
	id := w.conns[c].next
	w.conns[c].next++
	answer := accepted
	switch {
	case w.full:
		answer = outOfMemory
	case id <= w.top:
		answer = tooSmall
	default:
		w.live[id], w.top = true, id
	}
	if c == w.nConns-1 && !w.lost {
		w.answers[id] = answer
	}
	return w
}

func (w world) writer(r rules) []world {
	switch {
	case w.at > exploredRecords:
		return nil
	case w.nConns == 0:
		return []world{w.send()}
	case !w.lost:
		return w.read(r)
	}
	return w.settle(r)
}

// send opens a connection and sends everything from at on.
func (w world) send() world {
	w.conns[w.nConns].next, w.conns[w.nConns].last = w.at, exploredRecords
	w.nConns++
	w.lost, w.looked, w.sight = false, false, sight{}
	w.answers = [exploredRecords + 1]byte{}
	return w
}

func (w world) read(r rules) []world {
	switch answer := w.answers[w.at]; {
	case answer == 0:
		return nil
	case answer == accepted:
		return []world{w.tell(toldCommitted)}
	case w.nConns == 1, r.refusalIsFinal && answer == outOfMemory:
		return []world{w.tell(toldRejected)}
	}
	// A refusal of a copy: look again, on a new connection.
	if w.nConns == exploredConns {
		return nil
	}
	w.lost = true
	return []world{w}
}

func (w world) tell(what byte) world {
	w.told[w.at] = what
	w.at++
	w.sight, w.looked = sight{}, false
	return w
}

// settle is one question or one decision.
func (w world) settle(r rules) []world {
	if r.archiveFirst && w.sight.Archive == notAsked {
		return []world{w.askArchive()}
	}
	if !w.looked {
		w.looked = true
		w.sight.Found, w.sight.Same, w.sight.Passed = w.live[w.at], w.live[w.at], w.top >= w.at
		if r.absentIsFinal {
			w.sight.Passed = true
		}
		if r.noArchiveAsked {
			w.sight.Archive = missing
		}
		return []world{w}
	}
	switch decide(w.sight) {
	case commit:
		return []world{w.tell(toldCommitted)}
	case reject:
		return []world{w.tell(toldRejected)}
	case askArchive:
		return []world{w.askArchive()}
	case resend:
		if w.nConns == exploredConns {
			return nil
		}
		return []world{w.send()}
	}
	return nil
}

func (w world) askArchive() world {
	w.sight.Archive = missing
	if w.archived[w.at] {
		w.sight.Archive = same
	}
	return w
}

// explore returns the number of states and the first violation, with the states
// that lead to it.
func explore(r rules) (states int, fault string, path []world) {
	first := world{at: 1}
	from := map[world]world{first: first}
	for queue := []world{first}; len(queue) > 0; queue = queue[1:] {
		w := queue[0]
		if fault := w.check(); fault != "" {
			for ; from[w] != w; w = from[w] {
				path = append([]world{w}, path...)
			}
			return len(from), fault, path
		}
		for _, n := range w.next(r) {
			if _, known := from[n]; !known {
				from[n] = w
				queue = append(queue, n)
			}
		}
	}
	return len(from), "", nil
}

func TestSettlementIsTrueInEveryReachableState(t *testing.T) {
	states, fault, path := explore(rules{})
	if fault != "" {
		for _, w := range path {
			t.Logf("%+v", w)
		}
		t.Fatalf("after %d states: %s", states, fault)
	}
	t.Logf("%d states", states)
	if states < 10_000 {
		t.Errorf("only %d states: the instance is too small to say anything", states)
	}
	for name, r := range map[string]rules{
		"an absent record is rejected":                  {absentIsFinal: true},
		"the archive is asked before the look-up":       {archiveFirst: true},
		"a refused copy is a rejection":                 {refusalIsFinal: true},
		"below the top is rejected without the archive": {noArchiveAsked: true},
	} {
		if _, fault, _ := explore(r); fault == "" {
			t.Errorf("%s: no violation was found, so the search is blind", name)
		} else {
			t.Logf("%s: %s", name, fault)
		}
	}
}
