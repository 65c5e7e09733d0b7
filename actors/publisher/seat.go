package publisher

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/evtlog/evtlog"
)

// An append that comes while nothing waits and nothing is on its way finds the
// pump asleep. To wake it and be woken by it takes longer than everything else
// that the client does for a record, and the threads that are woken get in the
// way of the server. So the caller sits down in the pump's place, sends its own
// record and reads its own answer.
//
// It gets up again soon, whatever happens, and leaves to the pump all that is
// not the plain case: an answer that takes its time, a lost connection, a
// refusal, a panic. For those it is as if the pump had sent the record. The seat
// is a lock, so that there is one writer at any time.

const (
	// seatPatience is how long a caller waits for the answer in the seat. It does
	// not look at its context meanwhile.
	seatPatience = time.Millisecond
	// seatBytes is the largest record that is sent from the seat, FieldOverhead for
	// each field included. The socket is empty then, so that a record of this size
	// never has to wait for the server.
	seatBytes = 4 << 10
)

// seatable reports whether the caller of a request may send it in person.
func seatable(d news, fields []evtlog.Field) bool {
	return !d.announce && evtlog.Size(fields)+FieldOverhead*len(fields) <= seatBytes
}

// alone sends a single record and delivers it, in its caller's goroutine, which
// has the seat.
func (u *pump) alone(it *item) {
	defer u.getUp()
	b := u.newBatch()
	u.flying = append(u.flying, b)
	u.p.clock.tick()
	u.mint(b, it)
	if len(b.items) == 0 {
		return
	}
	u.p.stats.batches.Add(1)
	if u.lost = u.w.Flush(); u.lost == nil && u.w.Await(seatPatience) {
		u.lost = u.receive(context.Background())
	}
}

// getUp leaves the seat, and to the pump what is not done.
func (u *pump) getUp() {
	if broken := recover(); broken != nil {
		u.broken = fmt.Sprintf("%v, in the turn of a caller:\n%s", broken, debug.Stack())
	}
	if len(u.flying) > 0 || u.lost != nil || u.broken != nil || u.lookDue() {
		u.p.inbox.rouse()
	}
	u.p.inbox.seat.Unlock()
}

// seatVacant reports whether callers may have the seat while the pump sleeps.
// After a flush of several records they come in numbers: the first of them would
// send its record by itself while the others wait.
func (u *pump) seatVacant() bool {
	return u.largest <= 1 && u.trouble == nil && u.above.IsZero() && u.p.cfg.Replicas == 0
}

// sleep waits, out of the seat, until there is something to do or ctx ends. It
// returns the loss of the connection that a caller met.
func (u *pump) sleep(ctx context.Context) error {
	u.largest = 0
	u.p.inbox.seat.Unlock()
	select {
	case <-u.p.inbox.wake:
	case <-ctx.Done():
		u.p.inbox.unpark()
	}
	u.p.inbox.seat.Lock()
	broken, lost := u.broken, u.lost
	u.broken, u.lost = nil, nil
	if broken != nil {
		panic(broken)
	}
	return lost
}
