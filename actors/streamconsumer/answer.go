package streamconsumer

import (
	"errors"
	"time"

	"github.com/evtlog/evtlog"
)

// askedPause returns the pause that a handler's error asks for, if it does.
func askedPause(err error) (pause time.Duration, ok bool) {
	var retry *evtlog.RetryError
	if !errors.As(err, &retry) {
		return 0, false
	}
	return max(retry.After, 0), true
}

// isDead reports whether a handler's error says that no attempt can help.
func isDead(err error) bool {
	if err == nil {
		return false // the usual case must not allocate
	}
	var dead *evtlog.DeadError
	return errors.As(err, &dead)
}
