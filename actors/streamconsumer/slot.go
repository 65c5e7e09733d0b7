package streamconsumer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// DefaultSlots is the number of leased member names of a group, when the program
// gives no name of its own.
const DefaultSlots = 64

var (
	// ErrNoSlot: every leased member name of the group is held by another process.
	// The consumer tries again; give the group more Slots, or stop a member.
	ErrNoSlot = errors.New("all member names are taken")
	// ErrSlotLost: the lease on the member's name ran out before it could be
	// renewed, so that another process may be at work under it. The consumer drops
	// what it has in hand and takes a free name.
	ErrSlotLost = errors.New("the lease on the member's name has run out")
)

// slot is a member name that is held by lease. The lease ends here before it
// ends at the server, so a process that was frozen finds out by its own clock.
type slot struct {
	mu    sync.Mutex
	name  string
	until time.Time // zero: not held
}

func (s *slot) hold(name string, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.name, s.until = name, until
}

// read returns the name, and until when it is held.
func (s *slot) read() (name string, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.name, s.until
}

// slotVerdict is what to do about a slot after an attempt to renew it.
type slotVerdict uint8

const (
	slotKept  slotVerdict = iota // it is held for another while
	slotLater                    // it is still held, and the renewal is tried again
	slotLost                     // another process may hold it
)

// decideSlot is strict: once the lease could have ended, the answer "it is yours"
// may mean that another process held it in between, and gave it back.
func decideSlot(expired, renewed, failed bool) slotVerdict {
	switch {
	case expired, !renewed && !failed:
		return slotLost
	case failed:
		return slotLater
	}
	return slotKept
}

// member returns the name under which the consumer is a member now.
func (r *runner) member() string {
	if r.cfg.Name != "" {
		return r.cfg.Name
	}
	name, _ := r.slot.read()
	return name
}

// leaseOwner is the name under which leases on work are held. A leased member
// name may pass to another process, which must not take over the leases with it.
func (r *runner) leaseOwner() string {
	if r.cfg.Name != "" {
		return r.cfg.Name
	}
	return r.token
}

// mayWork is nil while the member's name is this process's own.
func (r *runner) mayWork(now time.Time) error {
	if r.cfg.Name != "" {
		return nil
	}
	name, until := r.slot.read()
	if now.Before(until) {
		return nil
	}
	return fmt.Errorf("streamconsumer: member %s of group %s: %w", name, r.cfg.Group, ErrSlotLost)
}

// ensureName takes the lowest free slot, unless one is held.
func (r *runner) ensureName() error {
	if r.mayWork(time.Now()) == nil {
		return nil
	}
	r.dropSlot()
	for i := 1; i <= r.cfg.Slots; i++ {
		name, now := slotName(i), time.Now()
		ok, err := r.ports.log.AcquireLease(r.ctx, r.slotLease(name), r.token, r.cfg.MinIdle)
		if err != nil {
			return err
		}
		if ok {
			r.slot.hold(name, now.Add(r.cfg.MinIdle))
			r.cfg.Logger.Info("took a member name", "consumer", name)
			return nil
		}
	}
	return fmt.Errorf("streamconsumer: group %s has %d slots: %w; give it more, or stop a member", r.cfg.Group, r.cfg.Slots, ErrNoSlot)
}

func slotName(i int) string { return "slot-" + strconv.Itoa(i) }

// IsSlotName reports whether a name is one of "slot-1" to "slot-n" (MaxSlots), which
// members without a name lease, here or in another process. Config.Name must be none
// of them, or two would work under one name.
func IsSlotName(name string) bool {
	i, err := strconv.Atoi(strings.TrimPrefix(name, "slot-"))
	return err == nil && 1 <= i && i <= MaxSlots && name == slotName(i)
}

func (r *runner) slotLease(name string) string { return "slot:" + r.cfg.Group + ":" + name }

// renewSlot extends the lease. When it is lost, everything in hand is too.
func (r *runner) renewSlot(ctx context.Context) {
	name, until := r.slot.read()
	if until.IsZero() {
		return
	}
	now, renewed, err := time.Now(), false, error(nil)
	if now.Before(until) {
		ask, cancel := context.WithDeadline(ctx, until)
		renewed, err = r.ports.log.AcquireLease(ask, r.slotLease(name), r.token, r.cfg.MinIdle)
		cancel()
	}
	switch decideSlot(!time.Now().Before(until), renewed, err != nil) {
	case slotKept:
		r.slot.hold(name, now.Add(r.cfg.MinIdle))
	case slotLater:
		r.cfg.Logger.Warn("renewal of the member name failed", "consumer", name, "err", err)
	case slotLost:
		r.slot.hold(name, time.Time{})
		r.hand.disownAll()
	}
}

// dropSlot forgets what was in hand under a name that was lost: it is pending
// under that name, for whoever has it now.
func (r *runner) dropSlot() {
	if name, _ := r.slot.read(); name == "" {
		return
	}
	r.hand.drop()
	r.down = redislog.SkippedRange{}
	r.slot.hold("", time.Time{})
	r.client = 0
}

// releaseSlot gives the name back, so that the next start has it again.
func (r *runner) releaseSlot() {
	name, until := r.slot.read()
	if until.IsZero() {
		return
	}
	r.slot.hold("", time.Time{})
	if err := r.release(r.slotLease(name), r.token); err != nil {
		r.cfg.Logger.Debug("member name was not given back; its lease runs out by itself", "consumer", name, "err", err)
	}
}

// disownAll makes everything in hand another member's.
func (h *hand) disownAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range h.batch[h.done:] {
		if h.lost == nil {
			h.lost = map[evtid.ID]struct{}{}
		}
		h.lost[id] = struct{}{}
	}
	if h.running {
		h.disowned = true
		h.endScope(errNotOwner(h.id))
	}
	for _, t := range h.tasks {
		h.loseTask(t)
	}
	h.retry.clear()
}
