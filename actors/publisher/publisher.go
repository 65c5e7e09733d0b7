package publisher

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/feed"
	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/redislog"
)

// Publisher is the writer of one stream. Its methods are safe for concurrent
// use. It works while its Spec runs; until then appends wait in the queue, and
// after a stop they are refused with evtlog.ErrStopped, until it runs again.
type Publisher struct {
	cfg     Config
	name    evtlog.StreamName
	stream  stream
	archive archive.Archive

	clock    clock
	minter   *evtid.Minter
	inbox    *inbox
	outcomes outcomes
	stats    counters
	// singles and batches are requests to use again, apart because their storage
	// differs in size.
	singles, batches sync.Pool
	// pump belongs to the one incarnation that runs. What it has on its way
	// outlives a panic.
	pump pump
}

// Receipt is the outcome of one record of a batch.
type Receipt struct {
	// ID is the record's id. It is zero when none was minted: nothing was
	// written.
	ID evtid.ID
	// Err is nil when the record is committed; else it is what Append would have
	// returned.
	Err error
}

// New returns the Publisher of cfg.Stream. arch is asked about appends whose
// answers were lost, and for the ids that new ones must be above; nil means that
// the stream has no archive. An error names the field of cfg that is wrong.
func New(cfg Config, log *redislog.Log, arch archive.Archive) (*Publisher, error) {
	if log == nil {
		return nil, errors.New("publisher: New: log is nil: make it with redislog.Client.Log")
	}
	if log.Stream() != cfg.Stream {
		return nil, fmt.Errorf("publisher: New: log is of %s and Config.Stream is %s: they must be one stream", log.Stream(), cfg.Stream)
	}
	return newPublisher(cfg, redisStream{log}, arch)
}

func newPublisher(cfg Config, s stream, arch archive.Archive) (*Publisher, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	p := &Publisher{cfg: cfg, name: cfg.name(), stream: s, archive: arch}
	var err error
	if p.minter, err = cfg.minter(&p.clock); err != nil {
		return nil, err
	}
	p.inbox = newInbox(p.name, cfg.limits())
	p.pump.p = p
	return p, nil
}

// Spec returns the component for the supervision tree. It is permanent, and
// ready when it has connected and knows the ids it must stay above. It ends for
// good when the server refuses it for a reason that only a person can change,
// such as a wrong password.
//
// A stop refuses new appends, writes what is queued, waits for the answers,
// flushes the announcements and closes. Appends that cannot be settled by then
// end as *evtlog.UncertainError.
func (p *Publisher) Spec() supervise.Spec {
	return supervise.Spec{
		Name:  "publisher",
		New:   func() (supervise.Runner, error) { return supervise.RunFunc(p.pump.run), nil },
		Depth: func() int { records, _ := p.inbox.depth(); return records },
	}
}

// Append appends one record and returns its id. The fields keep their order and
// may repeat; none may be named "id". They are copied.
//
// nil means committed: the record is in the stream, behind everything that was
// appended before. Otherwise:
//
//   - *evtlog.FieldError, *evtlog.TooLargeError: refused, correct the record.
//   - evtlog.ErrOverloaded, joined with ctx's cause: the queue did not reach the
//     record before ctx ended; or at once as *OverloadedError: too many callers
//     wait. Nothing was written; slow down, try again.
//   - evtlog.ErrStopped: nothing was written.
//   - *evtid.SkewError: the newest id is too far ahead of the clock. Nothing was
//     written; correct the clock.
//   - *evtlog.RejectedError: the server refused it, nothing was written; branch
//     with errors.Is on evtlog.ErrOutOfMemory, ErrWrongType, ErrReadOnly, ….
//   - *evtlog.NonMonotonicError: a second writer is at work. Nothing was written.
//   - *evtlog.UncertainError: the answer was lost and could not be had again
//     before ctx ended. Call Resolve with its ID before appending anew.
//   - *evtlog.NotReplicatedError: committed, but on fewer replicas than asked
//     for. The id is returned with it.
func (p *Publisher) Append(ctx context.Context, fields ...evtlog.Field) (evtid.ID, error) {
	if err := evtlog.CheckFields(fields, p.cfg.MaxRecordBytes); err != nil {
		return evtid.ID{}, err
	}
	return p.one(ctx, news{}, fields)
}

// Announce appends a record with the fields event, job and then fields, and once
// it is committed publishes the same on the queue's channel, with the record's
// id as "evt" and the id before it as "prev". The receipt does not wait for the
// publication. That is at most once: a subscriber that sees a hole in the prev
// ids reads the stream.
//
// job must be a branded id, of any namespace; else it is an *evtid.ParseError or
// a *keyspace.NameError. event must not be empty, and no field may have the name
// of a member that the announcement has by itself (event, job, evt, prev); else it
// is an *evtlog.FieldError. Nothing is written then. Other errors are those of
// Append.
func (p *Publisher) Announce(ctx context.Context, event, job string, fields ...evtlog.Field) (evtid.ID, error) {
	if err := evtid.ValidBranded(job); err != nil {
		return evtid.ID{}, fmt.Errorf("publisher: announce %s in %s: job: %w", event, p.name, err)
	}
	if _, err := keyspace.JobKey(p.name.Queue, job); err != nil {
		return evtid.ID{}, fmt.Errorf("publisher: announce %s in %s: %w", event, p.name, err)
	}
	if err := evtlog.CheckFields(fields, p.cfg.MaxRecordBytes); err != nil {
		return evtid.ID{}, err
	}
	if err := checkMembers(event, fields); err != nil {
		return evtid.ID{}, err
	}
	head := [...]evtlog.Field{evtlog.F(eventField, event), evtlog.F(jobField, job)}
	if size := evtlog.Size(head[:]) + evtlog.Size(fields); size > p.cfg.MaxRecordBytes {
		return evtid.ID{}, &evtlog.TooLargeError{Size: size, Limit: p.cfg.MaxRecordBytes}
	}
	return p.one(ctx, news{event: event, job: job, announce: true}, fields)
}

// checkMembers refuses what would make an announcement ambiguous: a JSON object
// with two members of one name is read differently by different readers.
func checkMembers(event string, extras []evtlog.Field) error {
	if event == "" {
		return &evtlog.FieldError{Name: eventField, Reason: "an announcement needs the name of its event"}
	}
	for i, f := range extras {
		switch f.Name {
		case eventField, jobField, feed.IDName, feed.PrevName:
			return &evtlog.FieldError{Index: i, Name: f.Name, Reason: "the announcement has a member of this name by itself; choose another"}
		}
	}
	return nil
}

// one queues a single record and waits for its outcome.
func (p *Publisher) one(ctx context.Context, d news, fields []evtlog.Field) (evtid.ID, error) {
	r, err := p.enter(ctx, d, fields)
	if err != nil {
		return evtid.ID{}, err
	}
	if left := p.wait(ctx, r); left != nil {
		return evtid.ID{}, left[0].Err
	}
	id, err := r.items[0].id, r.items[0].err
	r.recycle()
	if err != nil && !errors.Is(err, evtlog.ErrNotReplicated) {
		id = evtid.ID{}
	}
	return id, err
}

// AppendBatch appends records in their order, next to each other: nothing of
// this process comes between them. It is not atomic. Each record has a receipt,
// in the order given; the error is a *BatchError when any is not committed.
//
// A record that Append would refuse refuses the whole batch before anything is
// sent, and so does a batch that is charged more than records may take of
// Config.MaxQueuedBytes (*evtlog.TooLargeError); there are no receipts then.
func (p *Publisher) AppendBatch(ctx context.Context, records [][]evtlog.Field) ([]Receipt, error) {
	if len(records) == 0 {
		return nil, nil
	}
	cost := 0
	for i, fields := range records {
		if err := evtlog.CheckFields(fields, p.cfg.MaxRecordBytes); err != nil {
			return nil, fmt.Errorf("record %d of the batch: %w", i, err)
		}
		cost += charge(fields)
	}
	if most := p.cfg.limits().bytes; cost > most {
		return nil, &evtlog.TooLargeError{Size: cost, Limit: most, Batch: true}
	}
	if err := p.inbox.admit(ctx, cost); err != nil {
		return nil, err
	}
	r := p.batch(records)
	if err := p.inbox.push(r); err != nil {
		r.recycle()
		return nil, err
	}
	receipts := p.wait(ctx, r)
	if receipts == nil {
		receipts = make([]Receipt, len(r.items))
		for i := range r.items {
			receipts[i] = Receipt{ID: r.items[i].id, Err: r.items[i].err}
		}
		r.recycle()
	}
	return receipts, p.batchError(receipts)
}

func (p *Publisher) batchError(receipts []Receipt) error {
	e := &BatchError{Stream: p.name, Total: len(receipts)}
	for _, r := range receipts {
		if r.Err == nil {
			continue
		}
		if e.Failed++; e.Failed == 1 {
			e.Err = r.Err
		}
	}
	if e.Failed == 0 {
		return nil
	}
	return e
}
