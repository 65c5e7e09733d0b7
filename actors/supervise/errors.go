package supervise

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrExists: a branch of that name is running, or an incarnation of it that
	// was abandoned at a stop has still not ended. Stop it, or choose another
	// name.
	ErrExists = errors.New("branch exists")
	// ErrEnded: a permanent component returned nil without having been asked to
	// stop. It is restarted.
	ErrEnded = errors.New("ended without being asked to")
)

// Terminal marks an error after which a restart is useless: wrong credentials,
// a foreign format, a bad configuration. A component that ends with one, or
// whose New returns one, is given up at once. The message and errors.Is stay
// those of err. Terminal of nil is nil.
func Terminal(err error) error {
	if err == nil {
		return nil
	}
	return &terminalError{err}
}

type terminalError struct{ err error }

func (e *terminalError) Error() string  { return e.err.Error() }
func (e *terminalError) Unwrap() error  { return e.err }
func (e *terminalError) Terminal() bool { return true }

// IsTerminal reports whether err, or an error it wraps, has a method Terminal
// that returns true. Terminal makes such errors; other packages may declare
// their own.
func IsTerminal(err error) bool {
	var t interface{ Terminal() bool }
	return errors.As(err, &t) && t.Terminal()
}

// PanicError is a panic in Run or New, turned into an error.
type PanicError struct {
	// Value is what panic was called with.
	Value any
	// Stack is the stack of the goroutine that panicked.
	Stack []byte
}

// Error implements error. It leaves the stack out.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value when that is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// FailedError is a component that was given up. Correct the cause, stop the
// branch and start it anew.
type FailedError struct {
	// Component is the path.
	Component string
	// Restarts counts the restarts since the last healthy period.
	Restarts int
	// Err is what ended the last incarnation.
	Err error
}

// Error implements error.
func (e *FailedError) Error() string {
	return fmt.Sprintf("supervise: %s given up after %d restarts: %v; correct the cause and start it anew", e.Component, e.Restarts, e.Err)
}

// Unwrap returns the cause.
func (e *FailedError) Unwrap() error { return e.Err }

// StopError names the components that had not ended when waiting for them ended.
// They were told to; each may still end by itself, and its branch name stays
// taken until then.
type StopError struct {
	// Components are paths, in stop order.
	Components []string
	// Err is what ended the wait.
	Err error
}

// Error implements error.
func (e *StopError) Error() string {
	return fmt.Sprintf("supervise: not stopped in time (%v): %s", e.Err, strings.Join(e.Components, ", "))
}

// Unwrap returns what ended the wait.
func (e *StopError) Unwrap() error { return e.Err }

// joinOne is errors.Join, but leaves a single error as it is.
func joinOne(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}
