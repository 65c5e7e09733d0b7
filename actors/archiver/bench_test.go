package archiver

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/volume"
	"github.com/evtlog/evtlog/evtid"
)

// benchRecords is how many live records one operation folds.
const benchRecords = 200_000

// instant is an archive that forgets, and costs nothing.
type instant struct {
	archive.Archive
	w evtid.ID
}

func (i *instant) Fold(_ context.Context, _ evtlog.StreamName, _ evtid.ID, records []evtlog.Record) (evtid.ID, error) {
	i.w = records[len(records)-1].ID
	return i.w, nil
}

func (i *instant) Watermark(context.Context, evtlog.StreamName) (evtid.ID, error) { return i.w, nil }

// BenchmarkFold folds a backlog of live records on a real server.
func BenchmarkFold(b *testing.B) {
	r := newReal(b)
	for len(r.acked) < benchRecords {
		r.append(1000)
	}
	fold := func(b *testing.B, arch archive.Archive) {
		b.Helper()
		a, err := New(Config{Stream: stream(b)}, r.log, arch)
		if err != nil {
			b.Fatal(err)
		}
		if w, err := a.FoldAll(b.Context()); err != nil || w != r.acked[benchRecords-1] {
			b.Fatal(w, err)
		}
	}
	run := func(name string, open func(b *testing.B) archive.Archive) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				// What the former fold has proved would be taken for an archive set back.
				r.server.Do("DEL", stream(b).Floor())
				arch := open(b)
				b.StartTimer()
				fold(b, arch)
			}
			b.ReportMetric(float64(benchRecords)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
	run("instant", func(*testing.B) archive.Archive { return &instant{} })
	run("volume", func(b *testing.B) archive.Archive {
		s, err := volume.Open(filepath.Join(b.TempDir(), "archive.db"), volume.Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = s.Close() })
		return s
	})
	b.Run("read only", func(b *testing.B) {
		for b.Loop() {
			for after := none; ; {
				page, _, err := r.log.Page(b.Context(), after, evtid.Max, maxRecords)
				if err != nil {
					b.Fatal(err)
				}
				if len(page) == 0 {
					break
				}
				after = page[len(page)-1].ID
			}
		}
		b.ReportMetric(float64(benchRecords)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
	})
}

// BenchmarkCommit folds one record at a time into a volume, as the dial Commit
// does for a lone append.
func BenchmarkCommit(b *testing.B) {
	r := newReal(b)
	s, err := volume.Open(filepath.Join(b.TempDir(), "archive.db"), volume.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	a, err := New(Config{Stream: stream(b), Fold: Dial{Commit: true}}, r.log, s)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		r.append(1)
		b.StartTimer()
		if _, err := a.turnOf(b.Context(), order{}); err != nil {
			b.Fatal(err)
		}
	}
}
