package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/streamconsumer"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/devredis"
	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/redislog"
	"github.com/evtlog/evtlog/runtime"
)

// standIn is what does not hold on the embedded stand-in.
const standIn = "the embedded stand-in counts a take-over as a delivery of its own, redis-server does not; " +
	"all else is as on redis-server while nothing is trimmed"

// stage is what the scenario is played on.
type stage struct {
	srv      devredis.Server
	client   *redislog.Client
	stream   keyspace.Stream
	rt       *runtime.Runtime
	work     *runtime.Log
	progress io.Writer

	appended []evtid.ID
	members  []*member // every process that was ever started
}

// drill plays the whole scenario and reconciles it.
func drill(ctx context.Context, progress io.Writer) (r report, err error) {
	dir, err := os.MkdirTemp("", "evtlog-peldrain-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	srv, err := devredis.Start(ctx, os.Getenv(urlVariable), dir)
	if err != nil {
		return r, err
	}
	defer srv.Stop()
	fmt.Fprintf(progress, "redis: %s (%s)\n", srv.Kind, srv.Meaning())
	if r.Redis = srv.Kind; srv.Kind == devredis.Embedded {
		r.Note = standIn
	}
	s, err := open(ctx, srv, progress)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	ada, err := s.killAndComeBack(ctx, &r)
	if err != nil {
		return r, err
	}
	if err := s.killForGood(ctx, ada, &r); err != nil {
		return r, err
	}
	if err := ada.stop(); err != nil {
		return r, err
	}
	return r, s.reconcile(ctx, &r)
}

// open starts the writer on a queue of its own: on a shared server nothing else
// is touched.
func open(ctx context.Context, srv devredis.Server, progress io.Writer) (s *stage, err error) {
	s = &stage{srv: srv, progress: progress}
	if s.stream, err = keyspace.NewStream("evtlog-peldrain-"+strconv.FormatInt(time.Now().UnixNano(), 36), streamName); err != nil {
		return nil, err
	}
	if s.client, err = redislog.Open(ctx, redisConfig(srv.URL)); err != nil {
		return nil, err
	}
	s.rt, err = runtime.Start(ctx, runtime.Config{
		Redis: redisConfig(srv.URL), Node: 1,
		Streams: []runtime.Stream{{Queue: s.stream.Queue(), Name: s.stream.Name()}},
	})
	if err != nil {
		return nil, errors.Join(err, s.client.Close())
	}
	if s.work, err = s.rt.Stream(s.stream.Queue(), s.stream.Name()); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// close ends what is left, and removes the keys from a server that is not the
// example's own. It works although the program was interrupted.
func (s *stage) close() error {
	for _, m := range s.members {
		m.kill()
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	errs := []error{s.rt.Stop(ctx)}
	if s.srv.Kind == devredis.Given {
		errs = append(errs, s.client.Log(s.stream).Delete(ctx), s.client.Log(s.stream.Dead()).Delete(ctx))
	}
	return errors.Join(append(errs, s.client.Close())...)
}

// say tells the people in front of the screen.
func (s *stage) say(format string, args ...any) { fmt.Fprintf(s.progress, format+"\n", args...) }

func (s *stage) start(ctx context.Context, name string) (*member, error) {
	m, err := startMember(ctx, s.srv.URL, s.stream.Queue(), name, s.tell)
	if err == nil {
		s.members = append(s.members, m)
	}
	return m, err
}

// tell prints one line of a member.
func (s *stage) tell(m *member, l saying) {
	switch l.what {
	case sayHandled:
		age := "new"
		if l.count > 1 {
			age = "was pending, delivery " + strconv.Itoa(l.count)
		}
		s.say("  %s  handled  %s  %s", m.name, l.id, age)
	case sayDrained:
		s.say("  %s  has drained %d entries that were pending under its name", m.name, l.count)
	case sayReclaimed:
		s.say("  %s  has taken over %d entries of a member that is gone", m.name, l.count)
	}
}

// append appends records, of the kinds given by their index, and keeps the
// receipts.
func (s *stage) append(ctx context.Context, n int, kinds map[int]string) ([]evtid.ID, error) {
	records := make([][]evtlog.Field, n)
	for i := range records {
		records[i] = []evtlog.Field{evtlog.F("n", strconv.Itoa(len(s.appended)+i))}
		if kind := kinds[i]; kind != "" {
			records[i] = append(records[i], evtlog.F(fieldKind, kind))
		}
	}
	receipts, err := s.work.AppendBatch(ctx, records)
	if err != nil {
		return nil, err
	}
	ids := make([]evtid.ID, n)
	for i, receipt := range receipts {
		ids[i] = receipt.ID
	}
	s.appended = append(s.appended, ids...)
	return ids, nil
}

// pending lists what is pending for a member, in order.
func (s *stage) pending(ctx context.Context, name string) ([]evtid.ID, error) {
	entries, err := s.client.Log(s.stream).Pending(ctx, groupName, evtid.ID{}, 10*batch, name, 0)
	ids := make([]evtid.ID, len(entries))
	for i, e := range entries {
		ids[i] = e.ID
	}
	return ids, err
}

// settled waits until everything appended was handled or given up, and
// acknowledged.
func (s *stage) settled(ctx context.Context, by *member) error {
	var failure error
	err := by.await(ctx, "to finish the stream", func() bool {
		var done bool
		done, failure = runtime.CaughtUp(ctx, s.client.Log(s.stream), groupName)
		return done || failure != nil
	})
	return errors.Join(err, failure)
}

// killAndComeBack kills a member in the middle of a batch, appends, and starts it
// again under its name. It returns the member that runs.
func (s *stage) killAndComeBack(ctx context.Context, r *report) (*member, error) {
	ids, err := s.append(ctx, 3*batch, map[int]string{batch / 3: poison, batch / 2: hangs + "ada"})
	if err != nil {
		return nil, err
	}
	s.say("ada works on %d entries, and is killed in the middle of her first batch", len(ids))
	ada, err := s.start(ctx, "ada")
	if err != nil {
		return nil, err
	}
	if err := ada.await(ctx, "to hang", func() bool { return ada.holds(ids[batch/2]) }); err != nil {
		return nil, err
	}
	ada.kill()
	left, err := s.pending(ctx, "ada")
	if err != nil {
		return nil, err
	}
	if _, err := s.append(ctx, 2*batch, nil); err != nil {
		return nil, err
	}
	s.say("%d entries are pending under her name, %d more were appended; she comes back", len(left), 2*batch)
	if ada, err = s.start(ctx, "ada"); err != nil {
		return nil, err
	}
	if err := s.settled(ctx, ada); err != nil {
		return nil, err
	}
	r.Drained = ada.sum(sayDrained)
	r.DrainedFirst = drainedFirst(left, ada.saidSoFar(sayTaken))
	return ada, nil
}

// drainedFirst reports whether a member began with what was pending under its
// name, all of it and in order.
func drainedFirst(pending []evtid.ID, taken []saying) bool {
	if len(pending) == 0 || len(taken) < len(pending) {
		return false
	}
	for i, id := range pending {
		if taken[i].id != id {
			return false
		}
	}
	return true
}

// killForGood kills a second member in the middle of a batch. Nobody of its name
// comes back.
func (s *stage) killForGood(ctx context.Context, ada *member, r *report) error {
	s.say("bob joins, and is killed for good in the middle of a batch")
	bob, err := s.start(ctx, "bob")
	if err != nil {
		return err
	}
	var traps []evtid.ID
	caught := func() bool { return slices.ContainsFunc(traps, bob.holds) }
	// Who is given what is up to the server: append until bob was given one that
	// he hangs at.
	for !caught() {
		ids, err := s.append(ctx, batch, map[int]string{batch / 2: hangs + "bob"})
		if err != nil {
			return err
		}
		traps = append(traps, ids[batch/2])
		if err := bob.await(ctx, "or ada to take a batch", func() bool {
			return caught() || taken(ids[batch/2], ada)
		}); err != nil {
			return err
		}
	}
	bob.kill()
	left, err := s.pending(ctx, "bob")
	if err != nil {
		return err
	}
	s.say("%d entries are pending under his name; after %s of silence ada may take them", len(left), minIdle)
	if err := s.settled(ctx, ada); err != nil {
		return err
	}
	r.Reclaimed = ada.sum(sayReclaimed)
	return nil
}

// taken reports whether a member was given an entry.
func taken(id evtid.ID, m *member) bool {
	return slices.ContainsFunc(m.saidSoFar(sayTaken), func(s saying) bool { return s.id == id })
}

// reconcile compares what was appended with what was handled and given up.
func (s *stage) reconcile(ctx context.Context, r *report) error {
	handled := map[evtid.ID]int{}
	for _, m := range s.members {
		for _, l := range m.saidSoFar(sayHandled) {
			handled[l.id]++
		}
	}
	letters, _, err := s.client.Log(s.stream.Dead()).Page(ctx, evtid.ID{}, evtid.Max, 10*batch)
	if err != nil {
		return err
	}
	dead := map[string]bool{}
	for _, letter := range letters {
		origin, _ := letter.Get(streamconsumer.FieldOrigin)
		reason, _ := letter.Get(streamconsumer.FieldReason)
		s.say("in the dead stream: %s, because %q", origin, reason)
		dead[origin] = true
	}
	r.Appended, r.Dead = len(s.appended), len(letters)
	for _, id := range s.appended {
		switch n := handled[id]; {
		case n > 0:
			r.Handled++
			r.Duplicates += n - 1
		case !dead[id.String()]:
			r.Missing++
		}
	}
	return nil
}
