package supervise_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/supervise"
)

func ExampleSystem_Branch() {
	s := supervise.NewSystem(supervise.Config{
		Policy: supervise.Policy{Min: time.Millisecond, Max: time.Millisecond},
		Observer: func(e evtlog.Event) {
			switch e := e.(type) {
			case evtlog.StateChanged:
				fmt.Println(e.Component, e.State)
			case evtlog.Restarted:
				fmt.Println(e.Component, "restarts:", e.Reason)
			}
		},
	})
	first := true
	ctx := context.Background()
	_, err := s.Branch(ctx, "greeter", supervise.Spec{
		Name: "hello",
		New: func() (supervise.Runner, error) {
			return supervise.RunFunc(func(ctx context.Context, ready func()) error {
				if first {
					first = false
					return errors.New("no connection yet")
				}
				ready()
				<-ctx.Done()
				return nil
			}), nil
		},
	})
	if err != nil {
		fmt.Println(err)
	}
	if err := s.Stop(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// greeter starting
	// greeter/hello starting
	// greeter/hello degraded
	// greeter/hello restarts: no connection yet
	// greeter degraded
	// greeter/hello ready
	// greeter ready
	// greeter/hello stopped
	// greeter stopped
}

func ExampleBackoff() {
	b := supervise.Backoff{Min: 100 * time.Millisecond, Max: time.Second}
	for attempt := range 5 {
		// In a program the second argument is random in [0, 1).
		fmt.Println(b.Delay(attempt, 0.5))
	}
	// Output:
	// 50ms
	// 100ms
	// 200ms
	// 400ms
	// 500ms
}

func ExampleTerminal() {
	err := supervise.Terminal(evtlog.ErrDenied)
	fmt.Println(err, supervise.IsTerminal(err), errors.Is(err, evtlog.ErrDenied))
	// Output: access denied true true
}
