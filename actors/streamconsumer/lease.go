package streamconsumer

import (
	"context"
	"sync"
	"time"
)

// lease is the right to work on the group's skipped ranges. Renewal may take it
// away from the pump.
type lease struct {
	// changing is held over the command that takes, extends or returns it.
	changing sync.Mutex

	mu    sync.Mutex
	until time.Time // zero: not held
}

func (l *lease) held(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return now.Before(l.until)
}

// hold sets the end of the lease; the zero Time gives it up. It returns whether
// there was one.
func (l *lease) hold(until time.Time) (had bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	had = !l.until.IsZero()
	l.until = until
	return had
}

// leaseName is the lease that serializes the work on a group's ranges.
func (r *runner) leaseName() string { return "skipped:" + r.cfg.Group }

// acquireLease takes the lease, or extends it.
func (r *runner) acquireLease(ctx context.Context) (bool, error) {
	r.lease.changing.Lock()
	defer r.lease.changing.Unlock()
	return r.acquireLocked(ctx)
}

func (r *runner) acquireLocked(ctx context.Context) (bool, error) {
	now := time.Now()
	ok, err := r.ports.log.AcquireLease(ctx, r.leaseName(), r.leaseOwner(), r.cfg.MinIdle)
	if err != nil || !ok {
		return false, err
	}
	r.lease.hold(now.Add(r.cfg.MinIdle))
	return true, nil
}

// renewLease extends the lease while it is held. When that fails for good, the
// record that is being handled belongs to another member.
func (r *runner) renewLease(ctx context.Context) {
	r.lease.changing.Lock()
	defer r.lease.changing.Unlock()
	if !r.lease.given() {
		return
	}
	ok, err := r.acquireLocked(ctx)
	if err != nil && r.lease.held(time.Now()) {
		r.cfg.Logger.Warn("renewal of the lease on skipped ranges failed", "err", err)
		return
	}
	if !ok {
		r.lease.hold(time.Time{})
		r.hand.disown()
	}
}

// given reports whether the lease was taken and not given up, run out or not.
func (l *lease) given() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.until.IsZero()
}

// releaseLease gives the lease back.
func (r *runner) releaseLease() {
	r.lease.changing.Lock()
	defer r.lease.changing.Unlock()
	if !r.lease.hold(time.Time{}) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), closingTime)
	defer cancel()
	if err := r.ports.log.ReleaseLease(ctx, r.leaseName(), r.leaseOwner()); err != nil {
		r.cfg.Logger.Debug("lease on skipped ranges was not given back; it runs out by itself", "err", err)
	}
}
