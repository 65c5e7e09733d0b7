package runtime

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/redislog"
)

// settingsEvery is the time between two looks at the settings of the server. An
// operator, or a hosting service, changes them while programs run.
const settingsEvery = time.Minute

// settings is the component that looks at what endangers the log on the server. It
// reports each warning once, and once more when it has gone.
type settings struct {
	server   func(ctx context.Context) (redislog.ServerInfo, error)
	every    time.Duration
	observer evtlog.Observer
	log      *slog.Logger
	// known are the warnings that were reported. They outlive an incarnation, which
	// alone touches them.
	known []string
}

func (s *settings) spec() supervise.Spec {
	return supervise.Spec{
		Name: "settings",
		New:  func() (supervise.Runner, error) { return supervise.RunFunc(s.run), nil },
	}
}

func (s *settings) run(ctx context.Context, ready func()) error {
	s.look(ctx)
	ready()
	for supervise.Wait(ctx, s.every) == nil {
		s.look(ctx)
	}
	return nil
}

// look asks once. A server that does not answer is reported by those who need it,
// and one that does not tell (few rights, a stand-in) is no reason not to run.
func (s *settings) look(ctx context.Context) {
	info, err := s.server(ctx)
	if err != nil {
		if ctx.Err() == nil {
			s.log.Warn("the settings of redis could not be read", "err", err)
		}
		return
	}
	for _, e := range settingsChanged(s.known, info.Warnings) {
		s.observer.Emit(e)
	}
	s.known = info.Warnings
}

// settingsChanged compares the warnings of two looks.
func settingsChanged(before, now []string) (events []evtlog.ServerWarning) {
	for _, w := range before {
		if !slices.Contains(now, w) {
			events = append(events, evtlog.ServerWarning{Warning: w, Cleared: true})
		}
	}
	for _, w := range now {
		if !slices.Contains(before, w) {
			events = append(events, evtlog.ServerWarning{Warning: w})
		}
	}
	return events
}
