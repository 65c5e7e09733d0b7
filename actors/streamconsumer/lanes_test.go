package streamconsumer

import (
	"math/rand/v2"
	"strconv"
	"testing"
)

func TestRoomToRead(t *testing.T) {
	for name, tc := range map[string]struct {
		l    load
		want int
	}{
		"nothing in hand":                      {load{}, 100},
		"a worker is free":                     {load{queued: 90, active: 3}, 7},
		"all busy, and little room":            {load{queued: 80, active: 4}, 0},
		"all busy, and much room":              {load{queued: 70, active: 4}, 26},
		"what was not looked at takes up room": {load{active: 4, done: 72}, 0},
		"full, with a free worker":             {load{queued: 97, active: 3}, 0},
		"overfull":                             {load{queued: 120, active: 3}, 0},
	} {
		if got := roomToRead(tc.l, 4, 100); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
	if got := roomToRead(load{active: 1}, 1, 2); got != 1 {
		t.Errorf("a small hand: %d, want 1", got)
	}
}

// Tasks are pushed, begun and finished in random order: per key they begin in
// the order they came and one at a time, every one begins, and no lane is kept
// for nothing.
func TestLanesKeepOrderPerKey(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 1))
	var (
		l       lanes
		running []*task
		busy    = map[string]bool{}
		begun   = map[string]int{}
		pushed  = map[string]int{}
		total   int
	)
	begin := func() {
		task := l.next()
		if task == nil {
			return
		}
		total++
		running = append(running, task)
		if !task.keyed {
			return
		}
		if busy[task.key] || begun[task.key] != task.attempts {
			t.Fatalf("seed %d: task %d of key %s begins out of turn", seed, task.attempts, task.key)
		}
		busy[task.key] = true
		begun[task.key]++
	}
	finish := func() {
		if len(running) == 0 {
			return
		}
		i := rnd.IntN(len(running))
		task := running[i]
		running = append(running[:i], running[i+1:]...)
		busy[task.key] = false
		l.finished(task)
	}
	const n = 5000
	for i := 0; i < n; {
		switch rnd.IntN(3) {
		case 0:
			key := strconv.Itoa(rnd.IntN(4))
			task := &task{keyed: key != "0", key: key, attempts: pushed[key]}
			if !task.keyed {
				task.key = ""
			}
			pushed[key]++
			l.push(task)
			i++
		case 1:
			begin()
		case 2:
			finish()
		}
	}
	for len(running) > 0 || l.queued > 0 {
		begin()
		finish()
	}
	if total != n || len(l.byKey) != 0 || len(l.ready) != 0 || l.queued != 0 {
		t.Errorf("seed %d: %d of %d begun; left over %d lanes, %d ready, %d queued", seed, total, n, len(l.byKey), len(l.ready), l.queued)
	}
}
