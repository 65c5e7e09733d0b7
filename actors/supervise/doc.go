// Package supervise runs the long-lived work of a program under a tree of
// actors: a failed component is restarted with a growing pause, one that keeps
// failing is given up and reported, and everything stops in order.
//
//	root
//	├── stream/cm/feed              a branch: fails alone
//	│   ├── publisher               a component: one Spec
//	│   └── archiver
//	└── consumer/cm/feed/notify
//	    └── notify-1
//
// A component is a Runner. Its Run is called on a goroutine of its own, so it
// may block as it likes; the actor in front of it only receives short messages
// and never waits. What escapes Run (an error, a panic, even runtime.Goexit)
// ends that incarnation and nothing else. The next incarnation is built by
// Spec.New only after the former Run has returned.
//
// The rules, each of them a function without I/O or clock in decide.go and
// order.go:
//
//   - A Permanent component is always restarted, a Transient one after an error
//     only, a Temporary one never.
//   - The pause before a restart is random between 0 and a ceiling that doubles
//     from Policy.Min to Policy.Max. A component that was ready for
//     Policy.Healthy starts over at Min.
//   - More than Policy.MaxRestarts restarts in Policy.Within, or one error
//     marked with Terminal, gives the component up: it and its branch are
//     reported evtlog.Failed once, the components started after it are stopped
//     (they may depend on it), those before it go on. Other branches do not
//     notice, and the process is never ended.
//   - A branch stops in the reverse of its start order; branches stop in
//     parallel.
//
// Two Systems can live in one process; the package keeps no state of its own.
package supervise
