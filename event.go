package evtlog

import (
	"strconv"
	"time"

	"github.com/evtlog/evtlog/evtid"
)

// Event is something a component did or met that an operator may want to know.
// The concrete types below are all there are; switch on them.
type Event interface{ event() }

// Observer receives events. It is called from the component's own goroutine, so
// it returns at once and never blocks. It may be called concurrently. A nil
// Observer is not called.
type Observer func(Event)

// Emit calls o unless it is nil.
func (o Observer) Emit(e Event) {
	if o != nil {
		o(e)
	}
}

// State is the condition of a component.
type State uint8

// The conditions of a component, from start to end.
const (
	// Starting: not ready yet.
	Starting State = iota
	// Ready: doing its work.
	Ready
	// Degraded: working around a fault, such as a lost connection.
	Degraded
	// Failed: given up after its restart budget; it needs a person.
	Failed
	// Stopped: ended on request.
	Stopped
)

// String returns the lower-case name.
func (s State) String() string {
	names := [...]string{"starting", "ready", "degraded", "failed", "stopped"}
	if int(s) < len(names) {
		return names[s]
	}
	return "state(" + strconv.Itoa(int(s)) + ")"
}

// StateChanged is reported once at each change of a component's state.
type StateChanged struct {
	// Component is the path in the supervision tree, such as
	// "stream/cm/feed/publisher" or "consumer/cm/feed/notify/notify-1".
	Component string
	State     State
	// Err is why, for Degraded and Failed.
	Err error
}

// Restarted is reported when a supervisor restarts a component.
type Restarted struct {
	Component string
	// Reason is the error or panic that ended the former incarnation.
	Reason error
	// Restarts counts the restarts since the last healthy period.
	Restarts int
	// Delay is the back-off before the new incarnation starts.
	Delay time.Duration
}

// Folded is reported after records were made durable in the archive.
type Folded struct {
	Stream StreamName
	// After and To are the watermark before and after: the fold took After < id <= To.
	After, To evtid.ID
	Records   int
	Took      time.Duration
}

// Trimmed is reported after a trim that removed entries.
type Trimmed struct {
	Stream StreamName
	// Through is the newest id that the trim was allowed to remove, when the
	// trim was by id.
	Through evtid.ID
	Removed int64
}

// Lost is reported when records cannot be had any more: they left the live
// stream and are in no archive.
type Lost struct {
	Stream StreamName
	// Group is the group that was not given them, or "" when all readers lost them.
	Group string
	// The range is After < id <= To.
	After, To evtid.ID
	Reason    string
}

// SecondWriter is reported when the stream holds an id that this writer has not
// minted: another one appends to the same stream. It is reported once, and again
// only after an append has been committed in between.
type SecondWriter struct {
	Stream StreamName
	// ID is this writer's id that came too late, or its newest one; zero when it
	// has minted none.
	ID evtid.ID
	// Top is the newest id of the stream; Top.Node says who minted it. Zero when
	// it could not be read.
	Top evtid.ID
}

// Drained is reported when a consumer has offered all entries that were pending
// under its own name at the start.
type Drained struct {
	Stream   StreamName
	Group    string
	Consumer string
	// Entries counts what was pending.
	Entries int
}

// Reclaimed is reported when a consumer takes over entries of dead peers.
type Reclaimed struct {
	Stream   StreamName
	Group    string
	Consumer string
	Entries  int
}

// HandlerFailed is reported when a handler returned an error or panicked.
type HandlerFailed struct {
	Stream   StreamName
	Group    string
	ID       evtid.ID
	Attempts int
	// Panicked is true when Err stands for a panic.
	Panicked bool
	Err      error
}

// DeadLettered is reported when an entry was moved to the dead stream.
type DeadLettered struct {
	Stream StreamName
	Group  string
	// ID is zero when the entry stood at a position that no id can have; Entry
	// is always set.
	ID       evtid.ID
	Entry    string
	Attempts int
	Reason   string
}

// GroupRecreated is reported when a group had vanished and was made anew.
type GroupRecreated struct {
	Stream StreamName
	Group  string
	// At is the position the new group starts after.
	At evtid.ID
}

// Unbranded is reported when an entry has no id field that agrees with its
// position. The position is used.
type Unbranded struct {
	Stream StreamName
	ID     evtid.ID
	// Stored is the disagreeing id field, or "" when there is none.
	Stored string
}

// ServerWarning is reported when a setting of Redis is found that endangers the
// log, such as an eviction policy, and again when it is no longer there. Settings
// are looked at on start and once a minute.
type ServerWarning struct {
	// Warning says what the setting is, what it does, and the remedy.
	Warning string
	// Cleared is true when the server does not have that setting any more.
	Cleared bool
}

func (ServerWarning) event()  {}
func (SecondWriter) event()   {}
func (StateChanged) event()   {}
func (Restarted) event()      {}
func (Folded) event()         {}
func (Trimmed) event()        {}
func (Lost) event()           {}
func (Drained) event()        {}
func (Reclaimed) event()      {}
func (HandlerFailed) event()  {}
func (DeadLettered) event()   {}
func (GroupRecreated) event() {}
func (Unbranded) event()      {}
