package publisher

import (
	"context"
	"errors"
	"fmt"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
)

// Resolve settles an append that was uncertain: nil means that the record is in
// the log, a *evtlog.RejectedError that it is not and will not be, an
// *evtlog.UncertainError that ctx ended first, or that it cannot be told yet or
// any more (its text says which).
//
// For an id of this process it waits until the publisher has settled it. For any
// other id, such as one from a log of an earlier process, it looks the id up in
// the stream and then in the archive; the fields are not compared then. It works
// also while the publisher is stopped.
func (p *Publisher) Resolve(ctx context.Context, id evtid.ID) error {
	if id.IsZero() {
		return fmt.Errorf("publisher: resolve in %s: the zero id names no append: give the id of the *evtlog.UncertainError", p.name)
	}
	if out := p.outcomes.get(id); out != nil {
		select {
		case <-out.done:
		case <-ctx.Done():
			return &evtlog.UncertainError{Stream: p.name, ID: id, Err: context.Cause(ctx)}
		}
		if out.known {
			return p.resolved(id, out.err)
		}
	}
	var mark evtid.ID
	if p.archive != nil {
		// One that does not answer is asked again when it matters.
		mark, _ = p.archive.Watermark(ctx, p.name)
	}
	found, _, err := p.examine(ctx, id, mark, func(evtlog.Record) bool { return true })
	if err != nil {
		return &evtlog.UncertainError{Stream: p.name, ID: id, Err: err}
	}
	switch found {
	case commit:
		return nil
	case resend:
		return &evtlog.UncertainError{Stream: p.name, ID: id, Err: errNotYet}
	case unknowable:
		return &evtlog.UncertainError{Stream: p.name, ID: id, Err: errTrimmed}
	}
	return rejection(p.name, id, found, nil)
}

// resolved turns a remembered outcome into an answer of Resolve.
func (p *Publisher) resolved(id evtid.ID, err error) error {
	var rejected *evtlog.RejectedError
	var uncertain *evtlog.UncertainError
	switch {
	case err == nil, errors.Is(err, evtlog.ErrNotReplicated):
		return nil
	case errors.As(err, &rejected), errors.As(err, &uncertain):
		return err
	}
	return &evtlog.RejectedError{Stream: p.name, ID: id, Err: err}
}

// examine gathers facts about an id until they decide. The order is part of the
// proof: the entry and the top in one step, then the archive, and without one
// the oldest live entry. mark is a watermark that the archive has had.
func (p *Publisher) examine(ctx context.Context, id, mark evtid.ID, same func(evtlog.Record) bool) (found step, top evtid.ID, err error) {
	look, err := p.stream.Lookup(ctx, id)
	if err != nil {
		return 0, evtid.ID{}, err
	}
	s := sight{Found: look.Found, Passed: !later(look.Top, mark).Less(id)}
	s.Same = look.Found && same(look.Record)
	for {
		switch found = decide(s); found {
		case askArchive:
			s.Archive, err = p.askArchive(ctx, id, same)
		case askHorizon:
			s.Horizon, err = p.askHorizon(ctx, id)
		default:
			return found, look.Top, nil
		}
		if err != nil {
			return 0, evtid.ID{}, err
		}
	}
}

func (p *Publisher) askArchive(ctx context.Context, id evtid.ID, matches func(evtlog.Record) bool) (answer, error) {
	if p.archive == nil {
		return noArchive, nil
	}
	mark, err := p.archive.Watermark(ctx, p.name)
	if err != nil {
		return 0, fmt.Errorf("read the archive's watermark of %s: %w", p.name, err)
	}
	if mark.Less(id) {
		return missing, nil
	}
	for record, err := range p.archive.Read(ctx, p.name, archive.Range{After: id.Prev(), To: id, AtLeast: mark}) {
		switch {
		case err != nil:
			return 0, fmt.Errorf("look up %s in the archive of %s: %w", id, p.name, err)
		case matches(record):
			return same, nil
		}
		return different, nil
	}
	return missing, nil
}

func (p *Publisher) askHorizon(ctx context.Context, id evtid.ID) (horizon, error) {
	info, err := p.stream.Info(ctx)
	if err != nil {
		return 0, err
	}
	if !info.First.IsZero() && info.First.Less(id) {
		return below, nil
	}
	return past, nil
}
