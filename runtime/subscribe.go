package runtime

import (
	"context"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/feed"
	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/redislog"
)

// resubscribe is the pause before a lost subscription is made anew.
var resubscribe = supervise.Backoff{Min: 100 * time.Millisecond, Max: 4 * time.Second}

// heldFor is how long a subscription must have stood at least for its loss to
// count as the first one; after a long pause, twice that pause. A server that
// confirms each and then ends it is not hammered.
const heldFor = 250 * time.Millisecond

// nextAttempt counts the attempts in a row at a subscription, from 0. The last one
// came after a pause, and stood for a while.
func nextAttempt(attempt int, pause, stood time.Duration) int {
	if stood > max(heldFor, 2*pause) {
		return 0
	}
	return attempt + 1
}

// Subscribe yields what is announced on a queue from now on: live, at-most-once.
// The subscription is confirmed by the server before Subscribe returns.
//
// A payload that is not a flat JSON object of strings is yielded as an error
// that says so, and ranging on goes on with the next. When the connection is
// lost the error is a *redislog.ConnError: what was published until the
// subscription stands again is missed, and ranging on waits for that. The
// sequence ends when ctx does or the runtime is stopped, and then without an
// error. Range over it once; a sequence that is not ranged over holds its
// connection until then.
//
// Read the log itself for what must not be missed; announcements of appended
// records carry their id and the one before.
func (rt *Runtime) Subscribe(ctx context.Context, queue string) (iter.Seq2[feed.Announcement, error], error) {
	if err := keyspace.CheckQueue(queue); err != nil {
		return nil, err
	}
	if err := rt.life.check("subscribe to " + queue); err != nil {
		return nil, err
	}
	sub, err := rt.client.Subscribe(ctx, queue)
	if err != nil {
		return nil, rt.life.explain("subscribe to "+queue, err)
	}
	ctx, cancel := rt.bound(ctx)
	first := sub
	ranged := context.AfterFunc(ctx, func() { _ = first.Close() })
	return func(yield func(feed.Announcement, error) bool) {
		defer cancel()
		defer func() {
			if sub != nil {
				_ = sub.Close()
			}
		}()
		ranged()
		var pause time.Duration
		for attempt := -1; ctx.Err() == nil; {
			stood := time.Now()
			if sub != nil {
				more := receive(ctx, sub, yield)
				_ = sub.Close()
				if !more {
					return
				}
			}
			attempt = nextAttempt(attempt, pause, time.Since(stood))
			pause = resubscribe.Delay(attempt, rand.Float64())
			if supervise.Wait(ctx, pause) != nil {
				return
			}
			sub, _ = rt.client.Subscribe(ctx, queue)
		}
	}, nil
}

// receive yields announcements until the subscription breaks. It reports
// whether the receiver wants more.
func receive(ctx context.Context, sub *redislog.Subscription, yield func(feed.Announcement, error) bool) bool {
	for {
		payload, err := sub.Receive(ctx)
		if err != nil {
			return ctx.Err() == nil && yield(feed.Announcement{}, err)
		}
		if !yield(feed.Decode(payload)) {
			return false
		}
	}
}

// Publish announces something that is not a record of a stream, live and
// at-most-once. job is a branded id of any kind; a malformed one is refused
// before anything is sent. It returns how many subscribers the server passed it
// to.
func (rt *Runtime) Publish(ctx context.Context, queue string, a feed.Announcement) (receivers int64, err error) {
	if err := evtid.ValidBranded(a.Job); err != nil {
		return 0, err
	}
	if _, err := keyspace.JobKey(queue, a.Job); err != nil {
		return 0, err
	}
	err = rt.life.do("publish to "+queue, func() (err error) {
		receivers, err = rt.client.Publish(ctx, queue, a.AppendTo(nil))
		return err
	})
	return receivers, err
}
