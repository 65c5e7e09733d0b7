package archivetest

import (
	"context"
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
)

func TestPipelinedConforms(t *testing.T) {
	for _, inFlight := range []int{1, 4} {
		Conformance(t, func(*testing.T) archive.Archive { return NewPipelined(NewMemory(), inFlight) })
	}
}

func TestMostInFlight(t *testing.T) {
	p := NewPipelined(NewMemory(), 3)
	entered, leave := make(chan struct{}), make(chan struct{})
	p.SetHook(func(context.Context, Step) error {
		entered <- struct{}{}
		<-leave
		return nil
	})
	stream := evtlog.StreamName{Queue: "q", Name: "s"}
	done := make(chan error, 1)
	go func() {
		_, err := p.Fold(context.Background(), stream, evtid.ID{}, Records(1, 1))
		done <- err
	}()
	<-entered
	if got := p.MostInFlight(); got != 1 {
		t.Errorf("%d folds in flight, one was begun", got)
	}
	p.SetHook(nil)
	close(leave)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := p.FoldBehind(context.Background(), stream, ID(1), Records(2, 2)); err != nil || p.MostInFlight() != 1 {
		t.Errorf("%v; %d folds in flight, one after the other", err, p.MostInFlight())
	}
}

// hasty is a Pipelined whose FoldBehind has a fault.
type hasty struct {
	*Pipelined
	behind   func(ctx context.Context, stream evtlog.StreamName, prev evtid.ID, records []evtlog.Record) (evtid.ID, error)
	inFlight func() int
}

func (h *hasty) FoldBehind(ctx context.Context, stream evtlog.StreamName, prev evtid.ID, records []evtlog.Record) (evtid.ID, error) {
	return h.behind(ctx, stream, prev, records)
}

func (h *hasty) FoldsInFlight() int { return h.inFlight() }

func TestConformanceFindsHastyFolds(t *testing.T) {
	tests := map[string]struct {
		caught string
		fault  func(h *hasty)
	}{
		"a fold does not wait for the one before": {"folds behind each other arrive in any order", func(h *hasty) {
			h.behind = h.Fold
		}},
		"a fold waits for ever": {"fold behind nothing", func(h *hasty) {
			h.behind = func(ctx context.Context, s evtlog.StreamName, prev evtid.ID, r []evtlog.Record) (evtid.ID, error) {
				if w, _ := h.Watermark(ctx, s); w.Less(prev) {
					<-ctx.Done()
					return evtid.ID{}, ctx.Err()
				}
				return h.Pipelined.FoldBehind(ctx, s, prev, r)
			}
		}},
		"a fold goes on from wherever the watermark is": {"folds behind one that conflicts", func(h *hasty) {
			h.behind = func(ctx context.Context, s evtlog.StreamName, prev evtid.ID, r []evtlog.Record) (evtid.ID, error) {
				w, _ := h.Watermark(ctx, s)
				return h.Fold(ctx, s, w, r)
			}
		}},
		"a fold is answered before it is done": {"folds behind one that conflicts", func(h *hasty) {
			h.behind = func(_ context.Context, _ evtlog.StreamName, _ evtid.ID, r []evtlog.Record) (evtid.ID, error) {
				return r[len(r)-1].ID, nil
			}
		}},
		"a repeated fold is refused": {"repeated folds behind each other", func(h *hasty) {
			h.behind = func(ctx context.Context, s evtlog.StreamName, prev evtid.ID, r []evtlog.Record) (evtid.ID, error) {
				if w, _ := h.Watermark(ctx, s); prev.Less(w) {
					return w, &archive.ConflictError{Stream: s, Prev: prev, Watermark: w}
				}
				return h.Pipelined.FoldBehind(ctx, s, prev, r)
			}
		}},
		"no fold at all may be in flight": {"folds in flight: a number", func(h *hasty) {
			h.inFlight = func() int { return 0 }
		}},
		"the number changes": {"folds in flight: a number", func(h *hasty) {
			n := 0
			h.inFlight = func() int { n++; return n }
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := &hasty{Pipelined: NewPipelined(NewMemory(), 4), inFlight: func() int { return 4 }}
			h.behind = h.Pipelined.FoldBehind
			tt.fault(h)
			if failures := runCheck(t, tt.caught, h); len(failures) == 0 {
				t.Errorf("the check %q did not notice", tt.caught)
			} else {
				t.Log(failures[0])
			}
		})
	}
}
