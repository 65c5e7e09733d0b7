package main

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/archivetest"
	"github.com/evtlog/evtlog/evtid"
)

// filled is an archive of three records with a hook.
func filled(t *testing.T, hook archivetest.Hook) (*archivetest.Memory, evtlog.StreamName) {
	t.Helper()
	m, name := archivetest.NewMemory(), evtlog.StreamName{Queue: "q", Name: "s"}
	if _, err := m.Fold(t.Context(), name, evtid.ID{}, archivetest.Records(1, 3)); err != nil {
		t.Fatal(err)
	}
	m.SetHook(hook)
	return m, name
}

// readAll reads everything, with a receiver that takes its time.
func readAll(ctx context.Context, a archive.Archive, name evtlog.StreamName, each time.Duration) (n int, err error) {
	for _, err := range a.Read(ctx, name, archive.Range{}) {
		if err != nil {
			return n, err
		}
		n++
		<-time.After(each)
	}
	return n, nil
}

// slow makes each record, or whatever step is named, take a while.
func slow(at archivetest.Step, d time.Duration) archivetest.Hook {
	return func(ctx context.Context, step archivetest.Step) error {
		if step != at {
			return nil
		}
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func TestPatience(t *testing.T) {
	const limit = 30 * time.Second
	for name, c := range map[string]struct {
		hook     archivetest.Hook
		receiver time.Duration
		took     time.Duration
		silent   bool
	}{
		"prompt":                           {hook: nil},
		"slow, but it goes on":             {hook: slow(archivetest.BeforeRecord, 29*time.Second), took: 87 * time.Second},
		"nobody scrolls":                   {hook: nil, receiver: time.Hour, took: 3 * time.Hour},
		"slow at both ends":                {hook: slow(archivetest.BeforeRecord, 29*time.Second), receiver: time.Minute, took: 267 * time.Second},
		"silent at the start":              {hook: slow(archivetest.BeforeRead, time.Hour), took: limit, silent: true},
		"silent in the middle":             {hook: slow(archivetest.BeforeRecord, time.Hour), took: limit, silent: true},
		"silent at the start, and no more": {hook: slow(archivetest.BeforeRead, 29*time.Second), took: 29 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			m, stream := filled(t, c.hook)
			began := time.Now()
			n, err := readAll(t.Context(), newPatient(m, limit), stream, c.receiver)
			var silent *silentError
			if errors.As(err, &silent) != c.silent || !c.silent && (err != nil || n != 3) {
				t.Errorf("%s: %d records, %v", name, n, err)
			}
			if c.silent && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v is no time-out", name, err)
			}
			if took := time.Since(began); took != c.took {
				t.Errorf("%s: it took %s, want %s", name, took, c.took)
			}
		})
	}
}

// A reader that gives up an attempt and makes another one has waited all the while.
func TestPatienceOverAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stream := filled(t, slow(archivetest.BeforeRead, time.Hour))
		p := newPatient(m, 30*time.Second)
		began := time.Now()
		var silent *silentError
		for tries := 0; ; tries++ {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			_, err := readAll(ctx, p, stream, 0)
			cancel()
			if errors.As(err, &silent) {
				break
			}
			if tries == 10 {
				t.Fatalf("after %s the last error is %v", time.Since(began), err)
			}
		}
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

func TestPatienceWithOneQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, stream := filled(t, slow(archivetest.BeforeWatermark, time.Hour))
		var silent *silentError
		if _, err := newPatient(m, time.Second).Watermark(t.Context(), stream); !errors.As(err, &silent) {
			t.Errorf("Watermark: %v", err)
		}
		m.SetHook(slow(archivetest.BeforeFold, time.Hour))
		if _, err := newPatient(m, time.Second).Fold(t.Context(), stream, evtid.ID{}, archivetest.Records(1, 3)); !errors.As(err, &silent) {
			t.Errorf("Fold: %v", err)
		}
		m.SetHook(slow(archivetest.BeforeWatermark, time.Hour))
		if w, err := newPatient(m, 0).Watermark(t.Context(), stream); err != nil || w.IsZero() {
			t.Errorf("without a limit: %v, %v", w, err)
		}
	})
}

func TestSaidSilent(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	if err := saidSilent(ctx, context.Canceled); err != context.Canceled { //nolint:errorlint // the very same
		t.Errorf("before: %v", err)
	}
	cancel(&silentError{time.Second})
	if code := exitCode(context.Background(), saidSilent(ctx, context.Canceled)); code != exitTimeout {
		t.Errorf("silence ends with %d", code)
	}
	if code := exitCode(context.Background(), saidSilent(ctx, refused)); code != exitUnavailable {
		t.Errorf("a node that cannot be dialled ends with %d", code)
	}
}
