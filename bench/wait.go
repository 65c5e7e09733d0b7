package main

import (
	"context"
	"fmt"
	"time"
)

// patience is how long a measurement waits for something to come about.
const patience = 2 * time.Minute

// until asks again and again until it is so, what for is said when it does not
// come about.
func until(ctx context.Context, what string, so func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		ok, err := so()
		if err != nil {
			return fmt.Errorf("waiting until %s: %w", what, err)
		}
		if ok {
			return nil
		}
		if err := pause(ctx, 500*time.Microsecond); err != nil {
			return fmt.Errorf("waiting until %s: %w", what, err)
		}
	}
}

// pause waits for d, or less when ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
