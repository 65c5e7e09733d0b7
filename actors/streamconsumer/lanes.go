package streamconsumer

// lanes put tasks in order: those of one key run one after the other, in the
// order they came; different keys take turns. It has no lock.
type lanes struct {
	byKey map[string]*lane
	// ready are the lanes whose next task may run, in turn.
	ready []*lane
	// queued counts the tasks that wait.
	queued int
}

// lane holds the waiting tasks of one key.
type lane struct {
	queue []*task
	busy  bool // one of them runs
}

// push appends a task to the lane of its key. A task without a key has a lane
// to itself.
func (l *lanes) push(t *task) {
	l.queued++
	if !t.keyed {
		l.ready = append(l.ready, &lane{queue: []*task{t}})
		return
	}
	if l.byKey == nil {
		l.byKey = map[string]*lane{}
	}
	ln := l.byKey[t.key]
	if ln == nil {
		ln = &lane{}
		l.byKey[t.key] = ln
	}
	if ln.queue = append(ln.queue, t); len(ln.queue) == 1 && !ln.busy {
		l.ready = append(l.ready, ln)
	}
}

// next takes the next task that may run, nil when there is none. finished has to
// be called after it.
func (l *lanes) next() *task {
	if len(l.ready) == 0 {
		return nil
	}
	ln := l.ready[0]
	l.ready = l.ready[1:]
	t := ln.queue[0]
	ln.queue, ln.busy = ln.queue[1:], true
	l.queued--
	return t
}

// finished lets the next task of the same key run.
func (l *lanes) finished(t *task) {
	ln := l.byKey[t.key]
	if !t.keyed || ln == nil {
		return
	}
	ln.busy = false
	if len(ln.queue) > 0 {
		l.ready = append(l.ready, ln)
		return
	}
	delete(l.byKey, t.key)
}

// drop forgets everything that waits. Nothing may be running.
func (l *lanes) drop() { *l = lanes{} }

// load is how busy the workers are.
type load struct {
	queued int // tasks that wait
	active int // tasks that run
	done   int // tasks whose outcome was not looked at
}

// held counts everything that takes up room.
func (l load) held() int { return l.queued + l.active + l.done }

// roomToRead returns how many new entries to ask for: none while the workers
// have enough to do, because a read for each entry that was finished would cost
// more than the entries.
func roomToRead(l load, workers, count int) int {
	room := count - l.held()
	if l.active < workers || room >= max(count/4, 1) {
		return max(room, 0)
	}
	return 0
}
