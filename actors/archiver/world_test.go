package archiver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/internal/fakelog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/archivetest"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var feed = evtlog.StreamName{Queue: "cm", Name: "feed"}

func stream(t testing.TB) keyspace.Stream {
	t.Helper()
	s, err := keyspace.NewStream(feed.Queue, feed.Name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

type quietKey struct{}

// quiet is the context of what a test does besides the archiver's work.
var quiet = context.WithValue(context.Background(), quietKey{}, true)

func isQuiet(ctx context.Context) bool { return ctx.Value(quietKey{}) != nil }

// world is a stream and an archive in memory, and what was ever appended.
type world struct {
	t    testing.TB
	log  *fakelog.Log
	arch *archivetest.Memory
	// piped is the same archive, when it is to take several folds at a time.
	piped *archivetest.Pipelined
	// body makes records large, so that few of them are a fold.
	body string

	mu   sync.Mutex
	ids  []evtid.ID
	told []evtlog.Event
}

func newWorld(t testing.TB) *world {
	return &world{t: t, log: &fakelog.Log{}, arch: archivetest.NewMemory()}
}

// newPipedWorld is a world whose archive takes four folds at a time, and in which
// 25 records are a fold.
func newPipedWorld(t testing.TB) *world {
	w := newWorld(t)
	w.piped = archivetest.NewPipelined(w.arch, 4)
	w.body = largeBody
	return w
}

// largeBody is shared by all records, in the stream and in the archive.
var largeBody = strings.Repeat("x", 20<<10)

// archive is what an archiver gets.
func (w *world) archive() archive.Archive {
	if w.piped != nil {
		return w.piped
	}
	return w.arch
}

func (w *world) append(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range n {
		next := id(len(w.ids) + 1)
		fields := []evtlog.Field{evtlog.F("n", next.String())}
		if w.body != "" {
			fields = append(fields, evtlog.F("body", w.body))
		}
		w.log.Add(next, fields...)
		w.ids = append(w.ids, next)
	}
}

func (w *world) appended() []evtid.ID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.ids)
}

func (w *world) observe(e evtlog.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, e)
}

// events returns the events of one type.
func events[E evtlog.Event](w *world) (out []E) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.told {
		if e, ok := e.(E); ok {
			out = append(out, e)
		}
	}
	return out
}

func (w *world) archiver(keep evtlog.Keep, d Dial) *Archiver {
	w.t.Helper()
	a, err := New(Config{
		Stream: stream(w.t), Keep: keep, Fold: d, Observer: w.observe,
		Now: func() time.Time { return time.UnixMilli(evtid.EpochMillis).Add(time.Hour) },
	}, w.log, w.archive())
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// tick makes one full cycle, as the component does.
func (a *Archiver) tick(ctx context.Context) error {
	_, err := a.turnOf(ctx, order{tick: true, trim: true})
	return err
}

func (w *world) archived() []evtid.ID {
	w.t.Helper()
	var ids []evtid.ID
	for r, err := range w.arch.Read(quiet, feed, archive.Range{}) {
		if err != nil {
			w.t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	return ids
}

func (w *world) watermark() evtid.ID {
	ids := w.archived()
	if len(ids) == 0 {
		return evtid.ID{}
	}
	return ids[len(ids)-1]
}

// fault returns what is wrong with the world, nil when every appended record can
// be read exactly once by archive up to W and live above it, and no record left
// the live stream without the floor saying so.
func (w *world) fault() error {
	all := w.appended()
	archived, live := w.archived(), w.log.IDs()
	floor, _ := w.log.Floor()
	mark := evtid.ID{}
	if len(archived) > 0 {
		mark = archived[len(archived)-1]
	}
	read := slices.Clone(archived)
	for _, k := range live {
		if mark.Less(k) {
			read = append(read, k)
		}
	}
	if !slices.Equal(read, all) {
		return fmt.Errorf("read %d of %d records: archive through %q (%d), live %d", len(read), len(all), mark, len(archived), len(live))
	}
	if mark.Less(floor) {
		return fmt.Errorf("the floor %s is above the watermark %q", floor, mark)
	}
	for _, k := range all[:len(all)-len(live)] {
		if floor.Less(k) {
			return fmt.Errorf("%s was trimmed above the floor %q", k, floor)
		}
	}
	return nil
}

func (w *world) check() {
	w.t.Helper()
	if err := w.fault(); err != nil {
		w.t.Fatal(err)
	}
}
