package runtime

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/redislog"
)

// followPoll is the longest time a followed stream is not looked at: an
// announcement that was lost, or a record that was never announced, is found
// after this.
const followPoll = time.Second

// Update is one step of a followed stream: a record, or the moment at which all
// records that stood when Follow began have been yielded.
type Update struct {
	evtlog.Record
	// CaughtUp marks that moment. It comes once, with a zero Record.
	CaughtUp bool
}

// Follow yields the records of a stream after the given id, each once and in
// order: first what stands already, from archive and live stream, then a
// CaughtUp, then what is appended, as it is appended. The zero ID follows from
// the first record.
//
// Announcements only tell that there is something to read, so it does not matter
// when they are lost, doubled or late: what is yielded comes from the log. A
// receiver that is slow falls behind and reads on where it is; nothing is
// buffered for it and nothing dropped.
//
// An error does not end the sequence. Ranging on goes on where it stopped, after
// a pause when Redis is unavailable, and behind the gap when it is an
// *archive.GapError: records that left the stream, or may have, and are in no
// archive this runtime knows. Without an archive that is told whenever the record
// yielded last has been trimmed before the next one was read. A *BeyondEndError
// says that the log ends below the cursor, as after the stream was deleted; ranging
// on follows what is appended from then on.
//
// The sequence ends when ctx does or the runtime stops, without an error, or after a
// *keyspace.NameError, or evtlog.ErrStopped when the runtime had stopped before.
// Streams that are declared in the configuration are read with their archive, streams
// that are only consumed here with the archive of their consumers, others from the
// live stream alone.
func (rt *Runtime) Follow(ctx context.Context, queue, stream string, after evtid.ID) iter.Seq2[Update, error] {
	return func(yield func(Update, error) bool) {
		key, err := keyspace.NewStream(queue, stream)
		if err != nil {
			yield(Update{}, err)
			return
		}
		if err := rt.life.check("follow " + key.String()); err != nil {
			yield(Update{}, err)
			return
		}
		ctx, cancel := rt.bound(ctx)
		var hints sync.WaitGroup
		defer hints.Wait()
		defer cancel()
		f := &follower{life: rt.life, cursor: after, hint: make(chan struct{}, 1), yield: yield, stream: rt.client.Log(key)}
		f.reader, f.arch = rt.reader(key)
		hints.Go(func() { rt.hint(ctx, queue, f.hint) })
		f.run(ctx)
	}
}

// reader returns the merged reader of a declared stream, one with the archive of
// its consumers, or one of the live stream, and the archive that it joins, nil for
// none.
func (rt *Runtime) reader(key keyspace.Stream) (evtlog.Reader, archive.Archive) {
	if l, ok := rt.logs[nameOf(key)]; ok {
		return l.reader, l.archive
	}
	log, arch, err := rt.openLog(nameOf(key))
	if err != nil {
		log = rt.client.Log(key) // nothing is known of it here
	}
	return archive.NewReader(nameOf(key), log, arch), arch
}

// gapBehind decides whether records after a cursor may have been trimmed: those
// below the oldest one that is there. Trims take the oldest first, so a stream
// that still reaches down to the cursor has lost nothing after it. next is the
// first record that was read above the cursor before info, zero when none was.
func gapBehind(cursor, next evtid.ID, info redislog.StreamInfo) (to evtid.ID, gap bool) {
	switch {
	case cursor.IsZero() || !cursor.Less(info.Last):
		return to, false
	case info.Length == 0:
		to = info.Last
	default:
		to = info.First.Prev()
	}
	if !next.IsZero() && !to.Less(next) {
		to = next.Prev()
	}
	return to, cursor.Less(to)
}

// hint puts a token into the channel for every announcement of the queue, and
// whenever the subscription stands again. It never waits for the receiver.
func (rt *Runtime) hint(ctx context.Context, queue string, hint chan<- struct{}) {
	var pause time.Duration
	for attempt := -1; ctx.Err() == nil; {
		sub, err := rt.client.Subscribe(ctx, queue)
		stood := time.Now()
		for err == nil {
			select {
			case hint <- struct{}{}:
			default:
			}
			_, err = sub.Receive(ctx)
		}
		if sub != nil {
			_ = sub.Close()
		}
		attempt = nextAttempt(attempt, pause, time.Since(stood))
		pause = resubscribe.Delay(attempt, rand.Float64())
		_ = supervise.Wait(ctx, pause)
	}
}

// follower is one Follow under way.
type follower struct {
	life   life
	reader evtlog.Reader
	stream *redislog.Log
	// arch is nil when there is none: then a trim may pass the cursor, and only the
	// stream itself can tell.
	arch archive.Archive
	// cursor is where the next read begins. It is anchored when it is the record
	// that was yielded last.
	cursor   evtid.ID
	anchored bool
	// checked is when the end of the log was last compared with the cursor.
	checked  time.Time
	caughtUp bool
	hint     chan struct{}
	yield    func(Update, error) bool
	failures int
}

func (f *follower) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := f.read(ctx)
		switch {
		case errors.Is(err, errLeft) || f.over(ctx):
			return
		case err != nil:
			if !f.fail(ctx, err) {
				return
			}
			continue
		}
		f.failures = 0
		if !f.caughtUp {
			f.caughtUp = true
			if !f.yield(Update{CaughtUp: true}, nil) {
				return
			}
		}
		f.wait(ctx)
	}
}

// errLeft: the receiver broke out of its loop.
var errLeft = errors.New("range loop was left")

// read yields everything that stands above the cursor.
func (f *follower) read(ctx context.Context) error {
	err := f.readAbove(ctx, f.arch != nil)
	var gap *archive.GapError
	switch {
	case !errors.As(err, &gap) || !gap.After.Less(f.cursor):
		return err
	case f.cursor.Less(gap.To):
		return &archive.GapError{Stream: gap.Stream, After: f.cursor, To: gap.To, Reason: gap.Reason}
	}
	// The floor of the stream proves that no trim has gone beyond the cursor.
	return f.readAbove(ctx, true)
}

// readAbove reads once, and looks whether there ever was a cursor as this one when
// nothing stands above it. As long as it is not proved that no trim has passed the
// cursor, it begins at an anchored cursor, not above it: while that record is
// there, no later one has been trimmed.
func (f *follower) readAbove(ctx context.Context, proved bool) error {
	began, w := f.cursor, evtlog.Window{After: f.cursor}
	if !proved && f.anchored {
		w.After = f.cursor.Prev()
	}
	for rec, err := range f.reader.Read(ctx, w) {
		if err != nil {
			return err
		}
		if !proved && f.anchored && rec.ID == f.cursor {
			proved = true
			continue
		}
		if !proved {
			if err := f.prove(ctx, rec.ID); err != nil {
				return err
			}
			proved = true
		}
		f.cursor, f.anchored = rec.ID, true
		if !f.yield(Update{Record: rec}, nil) {
			return errLeft
		}
	}
	if !proved {
		if err := f.prove(ctx, evtid.ID{}); err != nil {
			return err
		}
	}
	if began != f.cursor || time.Since(f.checked) < followPoll {
		return nil
	}
	return f.checkEnd(ctx)
}

// prove returns an error when records between the cursor and the first one that
// was read above it, zero for none, may have been trimmed. It looks at the stream
// after that read, as a trim may come at any moment.
func (f *follower) prove(ctx context.Context, next evtid.ID) error {
	info, err := f.stream.Info(ctx)
	if err != nil {
		return err
	}
	to, gap := gapBehind(f.cursor, next, info)
	if !gap {
		return nil
	}
	return &archive.GapError{
		Stream: nameOf(f.stream.Stream()), After: f.cursor, To: to,
		Reason: "the record there was trimmed or never was, and there is no archive: what came after it may have been trimmed too",
	}
}

// fail yields an error and prepares to go on. It reports whether the receiver
// wants that.
func (f *follower) fail(ctx context.Context, err error) bool {
	if !f.yield(Update{}, err) {
		return false
	}
	var gap *archive.GapError
	if errors.As(err, &gap) && f.cursor.Less(gap.To) {
		f.cursor, f.anchored = gap.To, false
		return true
	}
	var beyond *BeyondEndError
	if errors.As(err, &beyond) {
		f.cursor, f.anchored = beyond.End(), false
		return true
	}
	err = supervise.Wait(ctx, resubscribe.Delay(f.failures, rand.Float64()))
	f.failures++
	return err == nil
}

// wait returns when there may be something to read.
func (f *follower) wait(ctx context.Context) {
	timer := time.NewTimer(followPoll)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-f.hint:
	case <-timer.C:
	}
}

// over reports whether ctx has ended, or is about to: a socket notices the
// deadline it was given a moment before the context does, and connections are
// closed a moment before ctx is told of the runtime's end.
func (f *follower) over(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || f.life.ended.Err() != nil || ok && !time.Now().Before(deadline)
}
