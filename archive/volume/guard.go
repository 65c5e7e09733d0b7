package volume

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/evtlog/evtlog"
)

// panicError is a panic, or a fault in the mapped file, that was caught.
type panicError struct {
	value any
	stack []byte
}

// Error implements error.
func (e *panicError) Error() string { return fmt.Sprintf("reading the file panicked: %v", e.value) }

// corrupt is what a panic while reading a volume means.
func (e *panicError) corrupt(stream evtlog.StreamName) error {
	return &CorruptError{Stream: stream, Reason: e.Error()}
}

// guardVolume is guard for work on one volume: a panic is a *CorruptError.
func guardVolume(stream evtlog.StreamName, fn func() error) error {
	err := guard(fn)
	var caught *panicError
	if errors.As(err, &caught) {
		return caught.corrupt(stream)
	}
	return err
}

// guard calls fn and turns a panic into a *panicError. bbolt trusts the bytes
// of its file: a flipped bit makes it panic, or follow a pointer out of the
// mapped file, which without SetPanicOnFault would end the process.
func guard(fn func() error) (err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		if v := recover(); v != nil {
			err = &panicError{value: v, stack: debug.Stack()}
		}
	}()
	return fn()
}
