package runtime

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/evtlog/evtlog"
)

// life tells whether a runtime still works. Everything that is asked of a stopped
// one says so, instead of whatever its closed connections would.
type life struct {
	// ended is cancelled when the components have been stopped.
	ended context.Context
}

// check refuses an operation of a stopped runtime.
func (l life) check(what string) error {
	if l.ended.Err() == nil {
		return nil
	}
	return fmt.Errorf("runtime: %s: %w; start a new runtime to go on", what, evtlog.ErrStopped)
}

// explain adds that the runtime was stopped to the error of an operation that it
// broke.
func (l life) explain(what string, err error) error {
	if err == nil || l.ended.Err() == nil || errors.Is(err, evtlog.ErrStopped) {
		return err
	}
	return fmt.Errorf("runtime: %s: %w: %w", what, evtlog.ErrStopped, err)
}

// do runs an operation unless the runtime has been stopped.
func (l life) do(what string, run func() error) error {
	if err := l.check(what); err != nil {
		return err
	}
	return l.explain(what, run())
}

// sequence is do for a sequence: its error is yielded.
func sequence[T any](l life, what string, seq iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if err := l.check(what); err != nil {
			var none T
			yield(none, err)
			return
		}
		seq(func(v T, err error) bool { return yield(v, l.explain(what, err)) })
	}
}
