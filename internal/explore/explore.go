// Package explore proves the orders of commands that the log depends on, by
// trying every one there is: small processes, a few records, every interleaving,
// a crash between any two steps, and commands of dead connections that the
// server executes late.
//
// Each model is one protocol and says in its comment what must hold. Its tests
// are documentation: the right order is explored in full and holds; each wrong
// order, switched on alone, is refuted with the shortest history that loses
// something. Where a decision exists as a function in the library, the model
// calls that function.
//
// The models:
//
//	Fold     archiving and trimming: fold, then floor, then trim
//	Forward  reading oldest first across archive and live stream
//	Backward reading newest first
//	Settle   an append whose reply was lost
//	Groups   trimming under consumer groups without skipping anything
//	Hold     an entry that is trimmed while its handler runs
package explore

import (
	"fmt"
	"slices"
	"strings"
)

// Model is a transition system. S holds the whole state, processes included, and
// is compared with ==.
type Model[S comparable] struct {
	// Init are the states to begin with.
	Init []S
	// Next offers every step that some process can take in s, with the words that
	// say what it is.
	Next func(s S, step Step[S])
	// Broken says which promise s breaks, or "".
	Broken func(s S) string
	// Ended says whether a state in which no process can take a step is one where
	// everybody has finished. Any other such state breaks the promise to end.
	Ended func(s S) bool
}

// Step takes what follows a state. The words are put together only when a
// history is shown.
type Step[S comparable] func(next S, words ...any)

// Result is what an exploration found.
type Result struct {
	// States counts the different states that were reached, Depth the steps to
	// the furthest of them.
	States, Depth int
	// Broken is the promise that was broken, "" when all hold.
	Broken string
	// Trace is a shortest history that breaks it, one step a line.
	Trace []string
}

// String returns the history and what it breaks, or how many states hold.
func (r Result) String() string {
	if r.Broken == "" {
		return fmt.Sprintf("%d states, %d steps deep: everything holds", r.States, r.Depth)
	}
	var b strings.Builder
	for i, step := range r.Trace {
		fmt.Fprintf(&b, "%3d. %s\n", i+1, step)
	}
	return fmt.Sprintf("%sbroken: %s (after %d states)", b.String(), r.Broken, r.States)
}

// maxStates stops a model that has grown out of hand.
const maxStates = 4_000_000

// search is a breadth-first search. Node i was first reached from node from[i].
type search[S comparable] struct {
	m      Model[S]
	index  map[S]int32
	states []S
	from   []int32
}

// Explore visits every state that can be reached, in order of distance, and
// stops at the first that breaks a promise.
func Explore[S comparable](m Model[S]) Result {
	x := &search[S]{m: m, index: map[S]int32{}}
	for _, s := range m.Init {
		x.visit(s, -1)
	}
	depth, levelEnd := 0, len(x.states)
	for i := 0; i < len(x.states); i++ {
		if i == levelEnd {
			depth, levelEnd = depth+1, len(x.states)
		}
		if broken := x.expand(i); broken != "" {
			return Result{States: len(x.states), Depth: depth, Broken: broken, Trace: x.trace(i)}
		}
	}
	return Result{States: len(x.states), Depth: depth}
}

func (x *search[S]) visit(s S, from int32) {
	if _, seen := x.index[s]; seen {
		return
	}
	if len(x.states) == maxStates {
		panic(fmt.Sprintf("explore: more than %d states: make the model smaller", maxStates))
	}
	x.index[s] = int32(len(x.states))
	x.states = append(x.states, s)
	x.from = append(x.from, from)
}

// expand checks state i and visits what follows it.
func (x *search[S]) expand(i int) (broken string) {
	s := x.states[i]
	if broken := x.m.Broken(s); broken != "" {
		return broken
	}
	stuck := true
	x.m.Next(s, func(next S, _ ...any) {
		stuck = stuck && next == s
		x.visit(next, int32(i))
	})
	if stuck && !x.m.Ended(s) {
		return "nobody can take a step, and not everybody has finished"
	}
	return ""
}

// trace returns the steps from the beginning to state i. The words are not kept
// while searching: the steps along the path are taken again.
func (x *search[S]) trace(i int) []string {
	var trace []string
	for x.from[i] >= 0 {
		before := int(x.from[i])
		label := ""
		x.m.Next(x.states[before], func(next S, words ...any) {
			if label == "" && next == x.states[i] {
				label = strings.TrimSpace(fmt.Sprintln(words...))
			}
		})
		trace = append(trace, label)
		i = before
	}
	if len(x.m.Init) > 1 {
		trace = append(trace, fmt.Sprintf("begin with %+v", x.states[i]))
	}
	slices.Reverse(trace)
	return trace
}
