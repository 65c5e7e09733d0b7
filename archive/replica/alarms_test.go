package replica

import (
	"testing"
	"time"
)

func TestInstallWatch(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name    string
		minutes []int
		want    []bool
	}{
		{"three at once", []int{0, 0, 0}, []bool{false, false, true}},
		{"three within the span", []int{0, 5, 10}, []bool{false, false, true}},
		{"three over a longer time", []int{0, 5, 11}, []bool{false, false, false}},
		{"one alarm for three, the next after three more", []int{0, 1, 2, 3, 4, 5}, []bool{false, false, true, false, false, true}},
	} {
		var w installWatch
		for i, m := range c.minutes {
			if got := w.add(start.Add(time.Duration(m) * time.Minute)); got != c.want[i] {
				t.Errorf("%s: alarm at install %d: %t", c.name, i+1, got)
			}
		}
	}
}

func TestLogTooShort(t *testing.T) {
	for _, c := range []struct {
		name              string
		entries, trailing uint64
		oldest, restore   time.Duration
		want              bool
	}{
		{"nothing pulled yet", 2000, 1024, time.Second, 0, false},
		{"long enough", 2000, 1024, 50 * time.Second, 10 * time.Second, false},
		{"too short", 2000, 1024, 49 * time.Second, 10 * time.Second, true},
		{"a log that was not cut yet", 900, 1024, time.Second, 10 * time.Second, false},
	} {
		if got := logTooShort(c.entries, c.trailing, c.oldest, c.restore); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

// Both alarms come up in a node's status.
func TestAlarmsOfANodeThatFallsBehind(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, shortLog)
	n := c.leader()
	for range maxInstalls + 1 {
		n.engine().installed()
	}
	wantAlarm(t, n, kindInstalls)
	n.restoreTook.Store(int64(time.Hour))
	w := &writer{stream: scores, arch: n.Archive()}
	w.mustFold(t, 250, 1)
	snapshotBeyond(t, n, 1)
	eventually(t, 20*time.Second, "alarm of a short log", func() bool {
		return n.engine().watchLog(false)
	})
	wantAlarm(t, n, kindShortLog)
}
