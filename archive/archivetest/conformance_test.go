package archivetest

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemoryConforms(t *testing.T) {
	Conformance(t, func(*testing.T) archive.Archive { return NewMemory() })
}

func TestOneArchiveForAllChecks(t *testing.T) {
	shared := NewMemory()
	Conformance(t, func(*testing.T) archive.Archive { return shared })
}

// A follower whose leader's folds arrive at once is an archive like any other.
func TestFollowerConforms(t *testing.T) {
	Conformance(t, func(*testing.T) archive.Archive {
		leader := NewMemory()
		return following{NewFollower(leader)}
	})
}

type following struct{ *Follower }

func (f following) Fold(ctx context.Context, stream evtlog.StreamName, prev evtid.ID, records []evtlog.Record) (evtid.ID, error) {
	w, err := f.Follower.Fold(ctx, stream, prev, records)
	if err == nil {
		f.Apply(stream, w)
	}
	return w, err
}

func (f following) Read(ctx context.Context, stream evtlog.StreamName, r archive.Range) iter.Seq2[evtlog.Record, error] {
	// The fold of another goroutine may be committed and not yet applied.
	return func(yield func(evtlog.Record, error) bool) {
		if w, err := f.Watermark(context.WithoutCancel(ctx), stream); err == nil {
			f.Apply(stream, w)
		}
		f.Follower.Read(ctx, stream, r)(yield)
	}
}

// recorder takes the verdict of a check instead of failing the test.
type recorder struct {
	mu       sync.Mutex
	failures []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// faulty is an archive with one fault.
type faulty struct {
	*Memory
	fold func(ctx context.Context, stream evtlog.StreamName, prev evtid.ID, records []evtlog.Record) (evtid.ID, error)
	name func(evtlog.StreamName) evtlog.StreamName
	span func(archive.Range) archive.Range
	give func(evtlog.Record) evtlog.Record
}

func newFaulty() *faulty {
	f := &faulty{Memory: NewMemory()}
	f.fold = f.Memory.Fold
	f.name = func(s evtlog.StreamName) evtlog.StreamName { return s }
	f.span = func(r archive.Range) archive.Range { return r }
	f.give = func(r evtlog.Record) evtlog.Record { return r }
	return f
}

func (f *faulty) Fold(ctx context.Context, stream evtlog.StreamName, prev evtid.ID, records []evtlog.Record) (evtid.ID, error) {
	return f.fold(ctx, f.name(stream), prev, records)
}

func (f *faulty) Watermark(ctx context.Context, stream evtlog.StreamName) (evtid.ID, error) {
	return f.Memory.Watermark(ctx, f.name(stream))
}

func (f *faulty) Read(ctx context.Context, stream evtlog.StreamName, r archive.Range) iter.Seq2[evtlog.Record, error] {
	return func(yield func(evtlog.Record, error) bool) {
		for rec, err := range f.Memory.Read(ctx, f.name(stream), f.span(r)) {
			if !yield(f.give(rec), err) {
				return
			}
		}
	}
}

// TestConformanceFindsFaults breaks one rule at a time and names the check that
// must notice.
func TestConformanceFindsFaults(t *testing.T) {
	tests := map[string]struct {
		caught string
		fault  func(f *faulty)
	}{
		"no compare-and-set": {"wrong watermark conflicts", func(f *faulty) {
			f.fold = func(ctx context.Context, s evtlog.StreamName, _ evtid.ID, r []evtlog.Record) (evtid.ID, error) {
				w, _ := f.Memory.Watermark(ctx, s)
				return f.Memory.Fold(ctx, s, w, r)
			}
		}},
		"compare and set in two steps": {"one of many concurrent folds wins", func(f *faulty) {
			var turn sync.WaitGroup
			turn.Add(6)
			f.fold = func(ctx context.Context, s evtlog.StreamName, prev evtid.ID, r []evtlog.Record) (evtid.ID, error) {
				w, _ := f.Memory.Watermark(ctx, s)
				if w != prev {
					return w, &archive.ConflictError{Stream: s, Prev: prev, Watermark: w}
				}
				turn.Done()
				turn.Wait()
				return r[len(r)-1].ID, nil
			}
		}},
		"a repeated fold is refused": {"repeated fold answers as it did", func(f *faulty) {
			f.fold = func(ctx context.Context, s evtlog.StreamName, prev evtid.ID, r []evtlog.Record) (evtid.ID, error) {
				if w, _ := f.Memory.Watermark(ctx, s); w != prev {
					return w, &archive.ConflictError{Stream: s, Prev: prev, Watermark: w}
				}
				return f.Memory.Fold(ctx, s, prev, r)
			}
		}},
		"a repeated fold is known by its last id": {"another fold on the same watermark conflicts", func(f *faulty) {
			f.fold = func(ctx context.Context, s evtlog.StreamName, prev evtid.ID, r []evtlog.Record) (evtid.ID, error) {
				if w, _ := f.Memory.Watermark(ctx, s); len(r) > 0 && w == r[len(r)-1].ID {
					return w, nil
				}
				return f.Memory.Fold(ctx, s, prev, r)
			}
		}},
		"an empty fold is fine": {"order of a fold", func(f *faulty) {
			f.fold = func(ctx context.Context, s evtlog.StreamName, prev evtid.ID, r []evtlog.Record) (evtid.ID, error) {
				if len(r) == 0 {
					return prev, nil
				}
				return f.Memory.Fold(ctx, s, prev, r)
			}
		}},
		"a fold is sorted first": {"order of a fold", func(f *faulty) {
			f.fold = func(ctx context.Context, s evtlog.StreamName, prev evtid.ID, r []evtlog.Record) (evtid.ID, error) {
				r = slices.Clone(r)
				slices.SortFunc(r, func(a, b evtlog.Record) int { return a.ID.Compare(b.ID) })
				return f.Memory.Fold(ctx, s, prev, r)
			}
		}},
		"a fold is forgotten": {"fold moves the watermark", func(f *faulty) {
			f.fold = func(_ context.Context, _ evtlog.StreamName, _ evtid.ID, r []evtlog.Record) (evtid.ID, error) {
				return r[len(r)-1].ID, nil
			}
		}},
		"one volume for all streams": {"streams are independent", func(f *faulty) {
			f.name = func(evtlog.StreamName) evtlog.StreamName { return evtlog.StreamName{} }
		}},
		"stream names run together": {"streams are independent", func(f *faulty) {
			f.name = func(s evtlog.StreamName) evtlog.StreamName {
				return evtlog.StreamName{Name: s.Queue + s.Name}
			}
		}},
		"names without case": {"streams are independent", func(f *faulty) {
			f.name = func(s evtlog.StreamName) evtlog.StreamName {
				if s.Name == "S" {
					s.Name = "s"
				}
				return s
			}
		}},
		"fields of the caller are kept": {"fold keeps nothing of the caller", func(f *faulty) {
			held := map[evtid.ID][]evtlog.Field{}
			f.fold = func(ctx context.Context, s evtlog.StreamName, prev evtid.ID, r []evtlog.Record) (evtid.ID, error) {
				for _, rec := range r {
					held[rec.ID] = rec.Fields
				}
				return f.Memory.Fold(ctx, s, prev, r)
			}
			f.give = func(r evtlog.Record) evtlog.Record { r.Fields = slices.Clone(held[r.ID]); return r }
		}},
		"fields of the store are handed out": {"records belong to the receiver", func(f *faulty) {
			held := map[evtid.ID][]evtlog.Field{}
			f.give = func(r evtlog.Record) evtlog.Record {
				if held[r.ID] == nil {
					held[r.ID] = r.Fields
				}
				r.Fields = held[r.ID]
				return r
			}
		}},
		"fields go through a map": {"records come back as they were", func(f *faulty) {
			f.give = func(r evtlog.Record) evtlog.Record {
				seen := map[string]bool{}
				r.Fields = slices.DeleteFunc(r.Fields, func(x evtlog.Field) bool {
					twice := seen[x.Name]
					seen[x.Name] = true
					return twice
				})
				return r
			}
		}},
		"the id field is dropped": {"records come back as they were", func(f *faulty) {
			f.give = func(r evtlog.Record) evtlog.Record {
				r.Fields = slices.DeleteFunc(r.Fields, func(x evtlog.Field) bool { return x.Name == evtlog.IDField })
				return r
			}
		}},
		"unbranded is not kept": {"records come back as they were", func(f *faulty) {
			f.give = func(r evtlog.Record) evtlog.Record { r.Unbranded = false; return r }
		}},
		"values end at 64 KiB": {"large records", func(f *faulty) {
			f.give = func(r evtlog.Record) evtlog.Record {
				for i, x := range r.Fields {
					r.Fields[i].Value = x.Value[:min(len(x.Value), 1<<16)]
				}
				return r
			}
		}},
		"the source is live": {"fold moves the watermark", func(f *faulty) {
			f.give = func(r evtlog.Record) evtlog.Record { r.Source = evtlog.Live; return r }
		}},
		"the first id is taken for none": {"first and last id", func(f *faulty) {
			f.span = func(r archive.Range) archive.Range {
				if r.To.Snowflake() == 0 {
					r.To = evtid.ID{}
				}
				return r
			}
		}},
		"the lower bound is inclusive": {"bounds", func(f *faulty) {
			f.span = func(r archive.Range) archive.Range { r.After = r.After.Prev(); return r }
		}},
		"the upper bound is exclusive": {"bounds", func(f *faulty) {
			f.span = func(r archive.Range) archive.Range {
				if r.To != (evtid.ID{}).Next() {
					r.To = r.To.Prev()
				}
				return r
			}
		}},
		"reverse is ignored": {"bounds", func(f *faulty) {
			f.span = func(r archive.Range) archive.Range { r.Reverse = false; return r }
		}},
		"at least is ignored": {"at least: gives up", func(f *faulty) {
			f.span = func(r archive.Range) archive.Range { r.AtLeast = evtid.ID{}; return r }
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFaulty()
			tt.fault(f)
			if failures := runCheck(t, tt.caught, f); len(failures) == 0 {
				t.Errorf("the check %q did not notice", tt.caught)
			} else {
				t.Log(failures[0])
			}
		})
	}
}

func runCheck(t *testing.T, name string, a archive.Archive) []string {
	t.Helper()
	all := append(checks(), pipelinedChecks()...)
	i := slices.IndexFunc(all, func(c check) bool { return c.name == name })
	if i < 0 {
		t.Fatalf("there is no check %q", name)
	}
	var r recorder
	done := make(chan struct{})
	go func() {
		defer close(done)
		all[i].on(&r, a, 2*time.Second)
	}()
	<-done
	return r.failures
}

// careless is an archive whose reads are wrong in the way they run.
type careless struct {
	*Memory
	read func(ctx context.Context, stream evtlog.StreamName, r archive.Range) iter.Seq2[evtlog.Record, error]
}

func (c careless) Read(ctx context.Context, stream evtlog.StreamName, r archive.Range) iter.Seq2[evtlog.Record, error] {
	return c.read(ctx, stream, r)
}

func TestConformanceFindsCarelessReads(t *testing.T) {
	m := NewMemory()
	stop := make(chan struct{})
	defer close(stop)
	tests := map[string]struct {
		caught string
		read   func(context.Context, evtlog.StreamName, archive.Range) iter.Seq2[evtlog.Record, error]
	}{
		"context is ignored": {"ended context", func(ctx context.Context, s evtlog.StreamName, r archive.Range) iter.Seq2[evtlog.Record, error] {
			return m.Read(context.WithoutCancel(ctx), s, r)
		}},
		"context is looked at once": {"context ends while reading", func(ctx context.Context, s evtlog.StreamName, r archive.Range) iter.Seq2[evtlog.Record, error] {
			return m.Read(context.WithoutCancel(ctx), s, r)
		}},
		"an open end runs on": {"open end is pinned", func(ctx context.Context, s evtlog.StreamName, r archive.Range) iter.Seq2[evtlog.Record, error] {
			return func(yield func(evtlog.Record, error) bool) {
				var last evtid.ID
				for again := true; again; {
					again = false
					for rec, err := range m.Read(ctx, s, archive.Range{After: last}) {
						if !yield(rec, err) {
							return
						}
						last, again = rec.ID, true
					}
				}
			}
		}},
		"an early break leaves a goroutine": {"early break", func(ctx context.Context, s evtlog.StreamName, r archive.Range) iter.Seq2[evtlog.Record, error] {
			return func(yield func(evtlog.Record, error) bool) {
				for rec, err := range m.Read(ctx, s, r) {
					if !yield(rec, err) {
						go func() { <-stop }()
						return
					}
				}
			}
		}},
		"records arrive one by one": {"reading while folding", func(ctx context.Context, s evtlog.StreamName, r archive.Range) iter.Seq2[evtlog.Record, error] {
			return func(yield func(evtlog.Record, error) bool) {
				w, _ := m.Watermark(ctx, s)
				r.To = w.Prev()
				m.Read(ctx, s, r)(yield)
			}
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			// A check that reads beside a writer may come too late on a busy machine.
			for range 20 {
				if failures := runCheck(t, tt.caught, careless{m, tt.read}); len(failures) > 0 {
					t.Log(failures[0])
					return
				}
			}
			t.Errorf("the check %q did not notice", tt.caught)
		})
	}
}
