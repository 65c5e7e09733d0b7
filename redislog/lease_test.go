package redislog

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
)

// Without memory a lease is extended for its holder, refused to others, and not
// given anew.
func TestLeaseWithoutMemory(t *testing.T) {
	srv, l := realLog(t)
	acquire := func(what, owner string) (bool, error) {
		return l.AcquireLease(t.Context(), what, owner, time.Minute)
	}
	if ok, err := l.AcquireLease(t.Context(), "w", "a", 10*time.Second); !ok || err != nil {
		t.Fatal(ok, err)
	}
	srv.Do("CONFIG", "SET", "maxmemory", "1")
	if ok, err := acquire("w", "a"); !ok || err != nil {
		t.Errorf("extending it: %v, %v", ok, err)
	}
	answer := srv.Do("PTTL", l.stream.Lease("w"))
	if left, err := strconv.Atoi(strings.TrimPrefix(answer, ":")); err != nil || left < 50_000 {
		t.Errorf("it lasts %s ms more, want a minute", answer)
	}
	if ok, err := acquire("w", "b"); ok || err != nil {
		t.Errorf("taking another's: %v, %v", ok, err)
	}
	if ok, err := acquire("free", "a"); ok || !errors.Is(err, evtlog.ErrOutOfMemory) {
		t.Errorf("taking a free one: %v, %v", ok, err)
	}
}
