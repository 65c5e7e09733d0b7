package streamconsumer

import (
	"slices"
	"testing"
	"time"

	"github.com/evtlog/evtlog/evtid"
)

var t0 = time.Unix(1_700_000_000, 0)

func at(seconds int) time.Time { return t0.Add(time.Duration(seconds) * time.Second) }

func TestScheduleOrdersByDueTime(t *testing.T) {
	var s schedule
	s.put(tid(1), at(0), at(30))
	s.put(tid(2), at(0), at(10))
	s.put(tid(3), at(0), at(20))
	if got := s.next(); !got.Equal(at(10)) {
		t.Errorf("next = %s, want %s", got, at(10))
	}
	if got := s.due(at(9), 10); got != nil {
		t.Errorf("due before anything is = %v", got)
	}
	if got := s.due(at(25), 1); !slices.Equal(got, tids(2)) {
		t.Errorf("due with limit 1 = %v, want the earliest", got)
	}
	if got := s.due(at(25), 10); !slices.Equal(got, tids(3)) {
		t.Errorf("due = %v, want the rest that is due", got)
	}
	if got := s.due(at(25), 10); got != nil {
		t.Errorf("what was taken came again: %v", got)
	}
	if s.waiting(tid(2), at(25)) || !s.waiting(tid(1), at(25)) {
		t.Errorf("waiting: taken = %v, later = %v, want false and true", s.waiting(tid(2), at(25)), s.waiting(tid(1), at(25)))
	}
}

func TestScheduleKeepsTheFirstFailure(t *testing.T) {
	var s schedule
	s.put(tid(1), at(1), at(2))
	s.put(tid(1), at(5), at(9))
	if got := s.firstFailed(tid(1)); !got.Equal(at(1)) {
		t.Errorf("firstFailed = %s, want %s", got, at(1))
	}
	if got := s.due(at(5), 10); got != nil {
		t.Errorf("due at the former time: %v", got)
	}
	if got := s.next(); !got.Equal(at(9)) {
		t.Errorf("next = %s, want %s", got, at(9))
	}
	if !s.firstFailed(tid(2)).IsZero() {
		t.Error("an unknown id has a first failure")
	}
}

func TestScheduleForgets(t *testing.T) {
	var s schedule
	s.put(tid(1), at(0), at(5))
	s.put(tid(2), at(0), at(5))
	s.put(tid(3), at(0), at(50))
	s.remove(tid(1))
	if got := s.due(at(5), 10); !slices.Equal(got, tids(2)) {
		t.Errorf("due = %v, want what was not removed", got)
	}
	s.sweep(at(5))
	if len(s.items) != 1 || s.items[tid(3)].id != tid(3) {
		t.Errorf("after sweep %v is left, want the one that waits", s.items)
	}
	s.clear()
	if !s.next().IsZero() || s.waiting(tid(3), at(0)) {
		t.Error("something is left after clear")
	}
	s.remove(evtid.Max)
	s.sweep(at(9))
}

func TestRetryDelayGrowsToItsCap(t *testing.T) {
	r := &runner{Consumer: &Consumer{cfg: Config{RetryMin: time.Second, RetryMax: 10 * time.Second}, ports: ports{rnd: func() float64 { return 0.5 }}}}
	want := []time.Duration{500 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second}
	for attempts, d := range want {
		if got := r.retryDelay(attempts); got != d {
			t.Errorf("retryDelay(%d) = %s, want %s", attempts, got, d)
		}
	}
	if got := r.retryDelay(1 << 30); got != 5*time.Second {
		t.Errorf("retryDelay of a great many = %s, want half the cap", got)
	}
}
