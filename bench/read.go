package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/archive/volume"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/redislog"
	bolt "go.etcd.io/bbolt"
)

// Numbers of records of a full run.
const (
	windowRecords = 100
	windowReads   = 4_000
	windowArchive = 10_000_000
	scanned       = 1_000_000
	replayed      = 1_000_000
	// perFold is how many records the archives are filled with at a time.
	perFold = 5_000
)

func readTests() []test {
	return []test{
		{names: []string{"window"}, run: windowTest},
		{names: []string{"scan"}, run: scanTest},
		comparison{
			name: "replay-live", against: "redigo XRANGE, pages of 1,000", target: atLeast(1.2),
			limit: replayLimit(replayed), product: replays(replayed),
		}.asTest(),
	}
}

// recordID is the id of the nth record, from 1, of an archive that is made here.
func recordID(n int) evtid.ID {
	base := uint64(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()-evtid.EpochMillis) << 22
	id, err := evtid.FromSnowflake(base + uint64(n))
	if err != nil {
		panic(err)
	}
	return id
}

// recordsFrom returns n records, the first of which is the given one.
func recordsFrom(first, n int) []evtlog.Record {
	out := make([]evtlog.Record, n)
	for i := range out {
		out[i] = evtlog.Record{ID: recordID(first + i), Fields: fields}
	}
	return out
}

// foldUpTo folds records into an archive that holds the first have of them.
func foldUpTo(ctx context.Context, arch archive.Archive, stream evtlog.StreamName, have, want, each int) error {
	prev := evtid.ID{}
	if have > 0 {
		prev = recordID(have)
	}
	for have < want {
		n := min(each, want-have)
		w, err := arch.Fold(ctx, stream, prev, recordsFrom(have+1, n))
		if err != nil {
			return err
		}
		prev, have = w, have+n
	}
	return nil
}

// archived is an archive of made-up records behind a live stream that was
// trimmed to nothing, and a bare bbolt file with as many values.
type archived struct {
	client *redislog.Client
	store  *volume.Store
	bare   *bolt.DB
	reader *archive.Reader
	dir    string
}

func (a *archived) close() error {
	removeBolt(a.bare)
	err := errors.Join(a.store.Close(), a.client.Close())
	_ = os.RemoveAll(a.dir)
	return err
}

func (e *env) newArchived(ctx context.Context, records int) (*archived, error) {
	name, err := e.fresh(ctx)
	if err != nil {
		return nil, err
	}
	k, err := keyspace.NewStream(queue, name)
	if err != nil {
		return nil, err
	}
	dir, err := e.directory("archived")
	if err != nil {
		return nil, err
	}
	a := &archived{dir: dir}
	if a.client, err = redislog.Open(ctx, e.redisConfig()); err != nil {
		return nil, err
	}
	if a.store, err = volume.Open(dir+"/archive.db", volume.Options{}); err != nil {
		return nil, err
	}
	stream := evtlog.StreamName{Queue: queue, Name: name}
	if err := foldUpTo(ctx, a.store, stream, 0, records, perFold); err != nil {
		return nil, err
	}
	if err := a.client.Log(k).Seal(ctx, recordID(records)); err != nil {
		return nil, err
	}
	if a.bare, err = bareBolt(dir+"/bare.db", records, perFold); err != nil {
		return nil, err
	}
	a.reader = archive.NewReader(stream, a.client.Log(k), a.store)
	return a, nil
}

// count reads a window and returns how many records it has.
func count(ctx context.Context, r evtlog.Reader, w evtlog.Window) (n int, err error) {
	for _, err := range r.Read(ctx, w) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// exactly fails unless as many were read as were there.
func exactly(got, want int, err error) error {
	if err == nil && got != want {
		return fmt.Errorf("read %d records of %d", got, want)
	}
	return err
}

// windowTest reads windows at random positions of one archive.
func windowTest(ctx context.Context, e *env) ([]Row, error) {
	records := e.pick(windowArchive, 300_000)
	a, err := e.newArchived(ctx, records)
	if err != nil {
		return nil, err
	}
	reads := e.scale(windowReads)
	at := func() int { return 1 + rand.IntN(records-windowRecords) }
	c := comparison{
		name: "window", against: "bbolt seek and read of 100 values", unit: "µs (p50)", target: atMost(15), of: sample.median,
		limit: func(_ context.Context, e *env) (sample, error) {
			return e.called(reads, 1, func() error {
				n, err := boltWindow(a.bare, at()-1, windowRecords)
				return exactly(n, windowRecords, err)
			})
		},
		product: func(ctx context.Context, e *env) (sample, error) {
			return e.called(reads, 1, func() error {
				from := at()
				n, err := count(ctx, a.reader, evtlog.Window{After: recordID(from), To: recordID(from + windowRecords)})
				return exactly(n, windowRecords, err)
			})
		},
		note: fmt.Sprintf("out of %d archived records; a record of CPU, allocations and bytes is one window", records),
	}
	row, err := c.run(ctx, e)
	return []Row{row}, errors.Join(err, a.close())
}

// scanTest reads a whole archive.
func scanTest(ctx context.Context, e *env) ([]Row, error) {
	records := e.scale(scanned)
	a, err := e.newArchived(ctx, records)
	if err != nil {
		return nil, err
	}
	c := comparison{
		name: "scan", against: "bare bbolt, a copy of each value", target: atLeast(0.3),
		limit: func(_ context.Context, e *env) (sample, error) {
			return e.timed(records, func() error {
				n, err := boltScan(a.bare)
				return exactly(n, records, err)
			})
		},
		product: func(ctx context.Context, e *env) (sample, error) {
			return e.timed(records, func() error {
				n, err := count(ctx, a.reader, evtlog.Window{})
				return exactly(n, records, err)
			})
		},
	}
	row, err := c.run(ctx, e)
	return []Row{row}, errors.Join(err, a.close())
}

func replayLimit(n int) measurement {
	return func(ctx context.Context, e *env) (sample, error) {
		records := e.scale(n)
		name, err := e.fill(ctx, records)
		if err != nil {
			return sample{}, err
		}
		return e.peer(ctx, "redigo-replay", key(name), records, 1)
	}
}

// replays reads a whole live stream through the merged reader.
func replays(n int) measurement {
	return func(ctx context.Context, e *env) (sample, error) {
		records := e.scale(n)
		name, err := e.fill(ctx, records)
		if err != nil {
			return sample{}, err
		}
		k, err := keyspace.NewStream(queue, name)
		if err != nil {
			return sample{}, err
		}
		client, err := redislog.Open(ctx, e.redisConfig())
		if err != nil {
			return sample{}, err
		}
		defer client.Close()
		reader := archive.NewReader(evtlog.StreamName{Queue: queue, Name: name}, client.Log(k), nil)
		return e.timed(records, func() error {
			n, err := count(ctx, reader, evtlog.Window{})
			return exactly(n, records, err)
		})
	}
}
