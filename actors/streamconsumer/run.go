package streamconsumer

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// closingTime bounds what is done after the context has ended: the last
// commands of a stop, and the append to the dead stream.
const closingTime = 5 * time.Second

// reconnectMax is the longest pause between two connections: after an outage
// everything is back within five seconds of the server.
const reconnectMax = 4 * time.Second

// runner is one incarnation of a Consumer. Everything but hand, crew, lease, slot and gate
// belongs to the pump, the goroutine that Run is called on.
type runner struct {
	*Consumer
	ctx   context.Context
	hand  hand
	crew  *crew // nil: the pump calls the handler itself
	lease lease
	gate  gate
	slot  slot   // not used by a consumer that has a name of its own
	token string // names this incarnation as the holder of attempts

	reader    groupReader
	client    int64     // the server's number of the connection, 0 unknown
	connected time.Time // when it was made, zero when it was not
	acks      acks
	flushedAt time.Time

	aheadAt []time.Time      // when reads were sent whose answer was not taken
	next    []redislog.Entry // read ahead, in hand, not offered
	got     int              // entries of the last batch of new ones
	took    time.Duration    // for that batch; 0 unknown

	pausing  bool // a pause was seen, and the loop has not gone through it
	drained  bool
	started  bool // the first pass over the own pending list is reported
	redrain  time.Time
	beatAt   time.Time
	advanced bool
	cursor   string // of the sweep over dead peers, kept between beats
	overdue  []evtid.ID

	rangesDue  bool
	troubled   bool                  // reported
	odd        error                 // an element of the list of ranges is none
	orphaned   redislog.SkippedRange // in hand when the group vanished
	down       redislog.SkippedRange // put down since the last pass over the own pending list
	unrecorded []evtid.ID            // dropped by the server, and not yet a skipped range
	rangeWait  map[redislog.SkippedRange]time.Time
	inHand     map[redislog.SkippedRange]struct{} // of one record that somebody worked on
	late       evtid.ID                           // the lowest id that a range holds, when last looked at
	shelf      shelf
	watermark  evtid.ID         // of the archive, when last looked at
	before     map[evtid.ID]int // attempts of an entry while it was still pending
	tries      uint64
}

func newRunner(c *Consumer) *runner {
	r := &runner{
		Consumer:  c,
		token:     c.cfg.Name + "/" + strconv.FormatInt(time.Now().UnixNano(), 36) + strconv.FormatUint(uint64(c.ports.rnd()*(1<<32)), 36),
		cursor:    firstCursor,
		rangeWait: map[redislog.SkippedRange]time.Time{},
		inHand:    map[redislog.SkippedRange]struct{}{},
		before:    map[evtid.ID]int{},
	}
	if c.cfg.Workers > 1 {
		r.crew = newCrew(c.cfg.Workers, r.runTask, func() bool { return r.stopping() || c.pause.on.Load() })
		r.hand.tasks = map[evtid.ID]*task{}
	}
	return r
}

// Run implements supervise.Runner.
func (r *runner) Run(ctx context.Context, ready func()) error {
	base, stopHandlers := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopHandlers(evtlog.ErrStopped)
	r.ctx, r.hand.base = ctx, base
	r.current.Store(r)
	defer r.current.CompareAndSwap(r, nil)

	unwatch := context.AfterFunc(ctx, func() {
		stopHandlers(evtlog.ErrStopped)
		r.gate.shut()
	})
	defer unwatch()

	defer r.releaseSlot()
	renewing, stopRenewing := context.WithCancel(context.WithoutCancel(ctx))
	var renewal sync.WaitGroup
	renewal.Go(func() { r.renewLoop(renewing) })
	defer renewal.Wait()
	defer stopRenewing()

	return r.connectLoop(ready)
}

// connectLoop serves one connection after the other until the end.
func (r *runner) connectLoop(ready func()) error {
	var pause time.Duration
	for attempt := -1; ; {
		err := r.serve(ready)
		switch decideError(redislog.Classify(err), r.stopping()) {
		case actionStop:
			return nil
		case actionGiveUp:
			return supervise.Terminal(err)
		}
		r.count.reconnects.Add(1)
		r.cfg.Logger.Warn("connection of the consumer ended", "err", err)
		supervise.Report(r.ctx, err)
		if errors.Is(err, evtlog.ErrNoGroup) {
			r.groupGone()
		}
		attempt = nextAttempt(attempt, pause, r.served())
		pause = supervise.Backoff{Max: reconnectMax}.Delay(attempt, r.ports.rnd())
		if supervise.Wait(r.ctx, pause) != nil {
			return nil
		}
	}
}

// served returns how long the last connection held.
func (r *runner) served() time.Duration {
	if r.connected.IsZero() {
		return 0
	}
	return time.Since(r.connected)
}

// serve works on one connection until it breaks or the consumer stops.
func (r *runner) serve(ready func()) error {
	if err := r.connect(); err != nil {
		return err
	}
	defer r.disconnect()
	if err := r.ensureGroup(); err != nil {
		return err
	}
	ready()
	// What was handled on the former connection is acknowledged before the own
	// pending list is read, or it would be offered again.
	if err := r.flush(); err != nil {
		return err
	}
	supervise.Report(r.ctx, nil)
	return r.loop()
}

func (r *runner) connect() error {
	r.connected = time.Time{}
	if err := r.ensureName(); err != nil {
		return err
	}
	reader, err := r.ports.dial(r.ctx, r.member())
	if err != nil {
		return err
	}
	if err := r.endFormer(reader.ClientID()); err != nil {
		_ = reader.Close() // nothing was asked of it
		return err
	}
	r.reader, r.client, r.connected = reader, reader.ClientID(), time.Now()
	r.gate.open(reader)
	r.acks.again()
	r.drained, r.advanced, r.rangesDue = false, true, true
	r.overdue, r.aheadAt, r.next = nil, nil, nil
	if r.crew != nil {
		r.crew.open()
	}
	return nil
}

// endFormer ends the connection before this one at the server. A read that it
// left parked there would be handed the next entry, and nobody would see that
// before MinIdle. A member that may not do that goes on without.
func (r *runner) endFormer(present int64) error {
	if r.client == 0 || r.client == present {
		return nil
	}
	err := r.ports.log.KillReader(r.ctx, r.cfg.Group, r.member(), r.client)
	if redislog.Classify(err) == redislog.Transient {
		return err
	}
	if err != nil {
		r.cfg.Logger.Debug("the former connection was not ended at the server", "err", err)
	}
	return nil
}

func (r *runner) disconnect() {
	r.standDown()
	if r.stopping() {
		r.finish()
	}
	r.putDown()
	if err := r.reader.Close(); err != nil {
		r.cfg.Logger.Debug("closing the connection", "err", err)
	}
}

// finish is the clean end: what is handled gets acknowledged, what is not stays
// pending.
func (r *runner) finish() {
	if err := r.flush(); err != nil {
		r.cfg.Logger.Warn("the last acknowledgements were not sent; these entries will be delivered again", "entries", r.acks.pending(), "err", err)
	}
	r.releaseLease()
}

// loop runs phase after phase.
func (r *runner) loop() error {
	for {
		if r.crew != nil {
			if err := r.settleResults(); err != nil {
				return err
			}
		}
		err := r.mayWork(time.Now())
		if err != nil {
			return err
		}
		switch nextPhase(r.facts(time.Now())) {
		case phaseStop:
			return nil
		case phasePause:
			err = r.restWhilePaused()
		case phaseDrain:
			err = r.drain()
		case phaseRetry:
			err = r.retryDue()
		case phaseBeat:
			err = r.beat()
		case phaseRanges:
			err = r.workRanges()
		case phaseRead:
			err = r.readNew()
		}
		if err != nil {
			return err
		}
	}
}

func (r *runner) facts(now time.Time) loopFacts {
	if !r.redrain.IsZero() && !now.Before(r.redrain) {
		r.redrain, r.drained = time.Time{}, false
	}
	next := r.hand.nextRetry()
	return loopFacts{
		stopping: r.stopping(),
		paused:   r.halting(),
		ahead:    r.ahead() || r.next != nil,
		drained:  r.drained,
		retryDue: len(r.overdue) > 0 || !next.IsZero() && !now.Before(next),
		beatDue:  !now.Before(r.beatAt),
		ranges:   r.rangesDue,
		advanced: r.advanced,
	}
}

func (r *runner) stopping() bool { return r.ctx.Err() != nil }

// gate lets a stop unblock a parked read, and only a parked read: everything
// else ends by itself within a command's time limit, and is let end.
type gate struct {
	mu     sync.Mutex
	reader groupReader
	parked bool
	closed bool
}

func (g *gate) open(reader groupReader) {
	g.mu.Lock()
	g.reader = reader
	g.mu.Unlock()
}

// park announces a blocking read. It is false when the consumer stops.
func (g *gate) park() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.parked = !g.closed
	return g.parked
}

func (g *gate) unpark() {
	g.mu.Lock()
	g.parked = false
	g.mu.Unlock()
}

// shut ends a parked read and refuses further ones.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	if g.parked {
		_ = g.reader.Close() // the pump closes it once more, and looks at the error
	}
}
