package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"sync"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/replica/api"
	"github.com/evtlog/evtlog/archive/replica/portable"
	"github.com/evtlog/evtlog/evtid"
)

// silentError says that an archive gave nothing for as long as was allowed. What
// takes long is not ended, only what does not go on.
type silentError struct{ limit time.Duration }

func (e *silentError) Error() string {
	return fmt.Sprintf("the archive gave nothing for %s: see \"evtlog archive status\", or allow more time", e.limit)
}

func (e *silentError) Unwrap() error { return context.DeadlineExceeded }

// patience bounds how long an archive may be silent. The time that its receiver
// takes, such as a pager that nobody scrolls, does not count. It is used by one
// goroutine at a time.
type patience struct {
	limit time.Duration // 0 waits for ever
	mu    sync.Mutex
	// since is when the wait began that goes on, zero when nothing is waited for. An
	// attempt that is given up and made anew goes on waiting.
	since time.Time
}

// left begins or goes on with a wait, and returns what is left of it.
func (p *patience) left() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since.IsZero() {
		p.since = time.Now()
	}
	return max(p.limit-time.Since(p.since), 0)
}

// came ends a wait: something was given.
func (p *patience) came() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = time.Time{}
}

// call runs one question, which has the whole limit for itself.
func (p *patience) call(ctx context.Context, ask func(ctx context.Context) error) error {
	if p.limit == 0 {
		return ask(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.limit, &silentError{p.limit})
	defer cancel()
	return saidSilent(ctx, ask(ctx))
}

// patiently ranges over what an archive gives, each element in time.
func patiently[T any](ctx context.Context, p *patience, open func(ctx context.Context) iter.Seq2[T, error]) iter.Seq2[T, error] {
	if p.limit == 0 {
		return open(ctx)
	}
	return func(yield func(T, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		timer := time.AfterFunc(p.left(), func() { cancel(&silentError{p.limit}) })
		defer timer.Stop()
		for v, err := range open(ctx) {
			timer.Stop()
			if err != nil {
				yield(v, saidSilent(ctx, err))
				return
			}
			p.came()
			if !yield(v, nil) {
				return
			}
			timer.Reset(p.left())
		}
		p.came()
	}
}

// saidSilent puts the silence in front of what it made of the call. A node that
// cannot be reached, or has no leader, is the better answer.
func saidSilent(ctx context.Context, err error) error {
	var silent *silentError
	var network *net.OpError
	switch {
	case err == nil || !errors.As(context.Cause(ctx), &silent),
		errors.As(err, &network) && network.Op == "dial", errors.Is(err, api.ErrNoLeader):
		return err
	}
	return fmt.Errorf("%w (%w)", silent, err)
}

// patientArchive is an archive whose silence is bounded.
type patientArchive struct {
	archive.Archive
	patience
}

func newPatient(a archive.Archive, limit time.Duration) *patientArchive {
	return &patientArchive{Archive: a, patience: patience{limit: limit}}
}

// Fold implements archive.Archive.
func (p *patientArchive) Fold(ctx context.Context, stream evtlog.StreamName, prev evtid.ID, records []evtlog.Record) (w evtid.ID, err error) {
	err = p.call(ctx, func(ctx context.Context) (err error) {
		w, err = p.Archive.Fold(ctx, stream, prev, records)
		return err
	})
	return w, err
}

// Watermark implements archive.Archive.
func (p *patientArchive) Watermark(ctx context.Context, stream evtlog.StreamName) (w evtid.ID, err error) {
	err = p.call(ctx, func(ctx context.Context) (err error) {
		w, err = p.Archive.Watermark(ctx, stream)
		return err
	})
	return w, err
}

// Read implements archive.Archive.
func (p *patientArchive) Read(ctx context.Context, stream evtlog.StreamName, r archive.Range) iter.Seq2[evtlog.Record, error] {
	return patiently(ctx, &p.patience, func(ctx context.Context) iter.Seq2[evtlog.Record, error] {
		return p.Archive.Read(ctx, stream, r)
	})
}

// patientSource is what is exported, from a node whose silence is bounded.
type patientSource struct {
	portable.Source
	patience
}

// Volumes implements portable.Source.
func (p *patientSource) Volumes(ctx context.Context) (heads []api.Volume, err error) {
	err = p.call(ctx, func(ctx context.Context) (err error) {
		heads, err = p.Source.Volumes(ctx)
		return err
	})
	return heads, err
}

// Commits implements portable.Source.
func (p *patientSource) Commits(ctx context.Context, stream evtlog.StreamName, to uint64) iter.Seq2[[]byte, error] {
	return patiently(ctx, &p.patience, func(ctx context.Context) iter.Seq2[[]byte, error] {
		return p.Source.Commits(ctx, stream, to)
	})
}
