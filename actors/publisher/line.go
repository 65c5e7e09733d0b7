package publisher

// line is the callers that wait for room, in the order they came. The inbox
// guards it. A waiter is its own place in it: there may be many, and what they
// take together is part of Config.MaxQueuedBytes.
type line struct {
	first, last *waiter
	n           int
}

// waiter is a caller for whose request there was no room.
type waiter struct {
	prev, next *waiter
	cost       int
	granted    bool
	wake       chan struct{}
}

func (l *line) join(w *waiter) {
	w.prev = l.last
	if l.last == nil {
		l.first = w
	} else {
		l.last.next = w
	}
	l.last = w
	l.n++
}

func (l *line) leave(w *waiter) {
	if w.prev == nil {
		l.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		l.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
	l.n--
}
