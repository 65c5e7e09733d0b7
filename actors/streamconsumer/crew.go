package streamconsumer

import (
	"sync"
	"time"

	"github.com/evtlog/evtlog/redislog"
)

// pollEvery is how often new entries are looked for while handlers run. The
// read does not park then, so that a stop finds the connection usable for the
// acknowledgements of what runs.
const pollEvery = 20 * time.Millisecond

// task is one entry that a member with several workers has in hand.
type task struct {
	entry    redislog.Entry
	attempts int
	keyed    bool
	key      string
	refused  error // why its handler is not called: it has no key

	// Ownership was proved at, when the take-th batch was taken. hand guards these.
	at     time.Time
	take   int
	state  taskState
	lost   bool
	cancel func(cause error)

	// What came of it, set by the worker.
	out   outcome
	err   error // the handler's
	fault error // of the connection
}

// taskState is how far a task has come.
type taskState uint8

const (
	taskTaken    taskState = iota // read, not offered
	taskQueued                    // offered to the workers
	taskRunning                   // in the handler
	taskEnded                     // the pump has not looked at the outcome
	taskFinished                  // its acknowledgement was not confirmed yet
)

// crew are the workers: goroutines that exist while there is work for them. The
// pump adds tasks and looks at the outcomes.
type crew struct {
	size int
	run  func(*task)
	halt func() bool // no further task is to be begun

	mu     sync.Mutex
	lanes  lanes
	active int
	done   []*task
	shut   bool
	halted bool          // a worker went off duty because of halt
	bell   chan struct{} // rings when a task is done
}

func newCrew(size int, run func(*task), halt func() bool) *crew {
	return &crew{size: size, run: run, halt: halt, bell: make(chan struct{}, 1)}
}

// add gives a task to the workers.
func (c *crew) add(t *task) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lanes.push(t)
	if c.active < c.size && len(c.lanes.ready) > 0 && !c.shut {
		c.active++
		go c.work()
	}
}

func (c *crew) work() {
	for t := c.next(nil); t != nil; t = c.next(t) {
		c.run(t)
	}
}

// next books what was done, and returns the next task. Without one the worker
// is off duty.
func (c *crew) next(done *task) (t *task) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if done != nil {
		c.lanes.finished(done)
		c.done = append(c.done, done)
	}
	switch {
	case c.shut:
	case c.halt():
		c.halted = true
	default:
		t = c.lanes.next()
	}
	if t == nil {
		c.active--
	}
	select {
	case c.bell <- struct{}{}:
	default:
	}
	return t
}

// collect takes what was done.
func (c *crew) collect() []*task {
	c.mu.Lock()
	defer c.mu.Unlock()
	done := c.done
	c.done = nil
	return done
}

// load tells how busy the workers are. A running task is one of a worker on
// duty.
func (c *crew) load() load {
	c.mu.Lock()
	defer c.mu.Unlock()
	return load{queued: c.lanes.queued, active: c.active, done: len(c.done)}
}

// open lets tasks begin; close lets none begin any more. What waits is dropped
// by open.
func (c *crew) open() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lanes.drop()
	c.shut, c.halted = false, false
}

// wasHalted reports whether tasks may wait that no worker will begin.
func (c *crew) wasHalted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.halted
}

func (c *crew) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shut = true
}
