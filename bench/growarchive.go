package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/volume"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/redislog"
)

// grownWindows is how many windows are read at each size or position.
const grownWindows = 1000

func archiveGrowthTests() []test {
	tests := []test{{names: []string{"grow-archive", "grow-archive-window"}, group: "grow-archive", run: growArchiveTest}}
	for _, s := range []series{
		{
			name: "grow-window-position", unit: "window of 100 records behind so many archived ones",
			sizes: []int{1, 1_000, 30_000, 950_000}, point: nil,
		},
		{
			name: "grow-live-position", unit: "window of 100 records behind so many live ones",
			sizes: []int{1, 1_000, 30_000, 950_000}, point: nil,
		},
	} {
		tests = append(tests, test{names: []string{s.name}, run: func(ctx context.Context, e *env) ([]Row, error) {
			return positions(ctx, e, s)
		}})
	}
	return tests
}

// growArchiveTest folds into an archive and reads windows of it as it grows.
func growArchiveTest(ctx context.Context, e *env) ([]Row, error) {
	dir, err := e.directory("grow")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	store, err := volume.Open(dir+"/archive.db", volume.Options{})
	if err != nil {
		return nil, err
	}
	sizes, err := archiveSizes(dir, e.large)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	stream := evtlog.StreamName{Queue: queue, Name: "grow"}
	folds := series{name: "grow-archive", unit: "fold of one record, 1,000 at a time; bytes of the file for each record"}
	windows := series{name: "grow-archive-window", unit: "window of 100 records at random positions"}
	var folded, read []Point
	for i, size := range sizes {
		have := 0
		if i > 0 {
			have = sizes[i-1]
		}
		f, w, err := growOnce(ctx, e, store, stream, have, size)
		if err != nil {
			return nil, errors.Join(err, store.Close())
		}
		folded, read = append(folded, f), append(read, w)
	}
	return []Row{folds.row(folded), windows.row(read)}, store.Close()
}

// archiveSizes are the sizes that an archive is brought to: with large up to what
// the disk holds twice over, as the file of an archive is not all that it has.
func archiveSizes(dir string, large bool) ([]int, error) {
	sizes := []int{10_000, 100_000, 1_000_000}
	if !large {
		return sizes, nil
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return nil, fmt.Errorf("free space of %s: %w", dir, err)
	}
	const recordBytes = 170
	most := int(fs.Bavail) * int(fs.Bsize) / (2 * recordBytes)
	for next := 10 * sizes[len(sizes)-1]; next <= most; next *= 10 {
		sizes = append(sizes, next)
	}
	return sizes, nil
}

// growOnce brings an archive to a size and measures there.
func growOnce(ctx context.Context, e *env, store *volume.Store, stream evtlog.StreamName, have, size int) (fold, window Point, err error) {
	const last = 9_000
	if err := foldUpTo(ctx, store, stream, have, size-last, 1000); err != nil {
		return fold, window, err
	}
	s, err := e.timed(last, func() error { return foldUpTo(ctx, store, stream, size-last, size, 1000) })
	if err != nil {
		return fold, window, err
	}
	fold = e.costOf(s, last)
	info, err := os.Stat(store.Path())
	if err != nil {
		return fold, window, err
	}
	fold.X, fold.Memory = float64(size), float64(info.Size())/float64(size)
	// Every page is touched once before: what is read the first time after it was
	// written costs a page fault, at any size.
	for _, err := range store.Read(ctx, stream, archive.Range{}) {
		if err != nil {
			return fold, window, err
		}
	}
	at := 0
	s, err = e.called(grownWindows, 1, func() error {
		// A step that is coprime to the size goes over all of it.
		at = (at + 7919*31) % (size - windowRecords)
		return readArchived(ctx, store, stream, at+1)
	})
	window = Point{X: float64(size), Cost: s.p50, PerSecond: s.perSecond()}
	return fold, window, err
}

func readArchived(ctx context.Context, store *volume.Store, stream evtlog.StreamName, from int) error {
	n := 0
	for _, err := range store.Read(ctx, stream, archive.Range{After: recordID(from), To: recordID(from + windowRecords)}) {
		if err != nil {
			return err
		}
		n++
	}
	return exactly(n, windowRecords, nil)
}

// positions reads windows at several positions of a million records.
func positions(ctx context.Context, e *env, s series) ([]Row, error) {
	const records = 1_000_000
	read := livePositions
	if s.name == "grow-window-position" {
		read = archivedPositions
	}
	window, done, err := read(ctx, e, records)
	if err != nil {
		return nil, err
	}
	var points []Point
	for _, at := range s.sizes {
		sample, err := e.called(grownWindows, 1, func() error { return window(at) })
		if err != nil {
			return nil, errors.Join(err, done())
		}
		points = append(points, Point{X: float64(at), Cost: sample.p50, PerSecond: sample.perSecond()})
	}
	return []Row{s.row(points)}, done()
}

func archivedPositions(ctx context.Context, e *env, records int) (window func(at int) error, done func() error, err error) {
	a, err := e.newArchived(ctx, records)
	if err != nil {
		return nil, nil, err
	}
	return func(at int) error {
		n, err := count(ctx, a.reader, evtlog.Window{After: recordID(at), To: recordID(at + windowRecords)})
		return exactly(n, windowRecords, err)
	}, a.close, nil
}

func livePositions(ctx context.Context, e *env, records int) (window func(at int) error, done func() error, err error) {
	name, err := e.fill(ctx, records)
	if err != nil {
		return nil, nil, err
	}
	k, err := keyspace.NewStream(queue, name)
	if err != nil {
		return nil, nil, err
	}
	client, err := redislog.Open(ctx, e.redisConfig())
	if err != nil {
		return nil, nil, err
	}
	reader := archive.NewReader(evtlog.StreamName{Queue: queue, Name: name}, client.Log(k), nil)
	ids := make([]evtid.ID, 0, records)
	for r, err := range reader.Read(ctx, evtlog.Window{}) {
		if err != nil {
			return nil, nil, errors.Join(err, client.Close())
		}
		ids = append(ids, r.ID)
	}
	return func(at int) error {
		n, err := count(ctx, reader, evtlog.Window{After: ids[at], To: ids[at+windowRecords]})
		return exactly(n, windowRecords, err)
	}, client.Close, nil
}
