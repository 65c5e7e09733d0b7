package runtime

import (
	"context"
	"errors"
	"fmt"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/archiver"
	"github.com/evtlog/evtlog/actors/publisher"
	"github.com/evtlog/evtlog/actors/retention"
	"github.com/evtlog/evtlog/actors/streamconsumer"
	"github.com/evtlog/evtlog/actors/supervise"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
	"github.com/evtlog/evtlog/redislog"
)

// ID is the id of a record; see package evtid.
type ID = evtid.ID

// member is one running consumer.
type member struct {
	plan  consumerPlan
	redis *redislog.Log
	actor *streamconsumer.Consumer
	rest  rest
}

// deadTries bounds how often an entry for a dead stream is appended anew when
// another process has put its own on top.
const deadTries = 5

// build starts the branches: first the look at the server's settings, then the
// streams, then the dead streams, then the consumers, whose handlers may append.
func (rt *Runtime) build(ctx context.Context, p plan) error {
	look := &settings{server: rt.client.Server, every: settingsEvery, observer: p.Observer, log: p.Logger}
	if _, err := rt.system.Branch(ctx, "redis", look.spec()); err != nil {
		return err
	}
	for _, s := range p.streams {
		if err := rt.startStream(ctx, p, s); err != nil {
			return err
		}
	}
	dead := map[keyspace.Stream]*publisher.Publisher{}
	for _, c := range p.consumers {
		if _, ok := dead[c.key]; ok {
			continue
		}
		w, err := rt.deadWriter(ctx, p, c.key.Dead())
		if err != nil {
			return err
		}
		dead[c.key] = w
	}
	for _, c := range p.consumers {
		if err := rt.startConsumer(ctx, p, c, dead[c.key]); err != nil {
			return err
		}
	}
	return nil
}

func (rt *Runtime) startStream(ctx context.Context, p plan, s streamPlan) error {
	redis := rt.client.Log(s.key)
	l := &Log{
		name: nameOf(s.key), redis: redis, archive: s.Archive,
		reader: archive.NewReader(nameOf(s.key), redis, s.Archive), life: rt.life,
	}
	if s.ReadOnly {
		rt.logs[l.name] = l
		return nil
	}
	trimmer, committed, err := l.trimmer(p, s)
	if err != nil {
		return refused(s.field, s.key, err)
	}
	l.writer, err = publisher.New(publisher.Config{
		Stream: s.key, Node: p.Node, MaxSkew: p.MaxSkew, MaxRecordBytes: p.MaxRecordBytes,
		Replicas: s.Replicas, OnCommit: committed, Observer: p.Observer, Logger: p.Logger,
	}, redis, s.Archive)
	if err != nil {
		return refused(s.field, s.key, err)
	}
	if _, err := rt.system.Branch(ctx, s.path(), append([]supervise.Spec{l.writer.Spec()}, trimmer...)...); err != nil {
		return err
	}
	rt.logs[l.name] = l
	return nil
}

// trimmer makes the archiver or the retention actor of a stream, or neither,
// and what the writer calls after each commit.
func (l *Log) trimmer(p plan, s streamPlan) (specs []supervise.Spec, committed func(), err error) {
	switch {
	case s.Archive != nil:
		a, err := archiver.New(archiver.Config{
			Stream: s.key, Keep: s.Retention, Fold: s.Durability.dial(),
			Observer: p.Observer, Logger: p.Logger,
		}, l.redis, s.Archive)
		if err != nil {
			return nil, nil, err
		}
		l.sweep = func(ctx context.Context) error {
			_, err := a.Fold(ctx, evtid.ID{})
			return err
		}
		return []supervise.Spec{a.Spec()}, a.Nudge, nil
	case !s.Retention.All():
		r, err := retention.New(retention.Config{
			Stream: s.key, Keep: s.Retention, Observer: p.Observer,
		}, l.redis)
		if err != nil {
			return nil, nil, err
		}
		l.sweep = func(ctx context.Context) error {
			_, err := r.Trim(ctx)
			return err
		}
		return []supervise.Spec{r.Spec()}, nil, nil
	}
	return nil, nil, nil
}

// deadWriter returns the writer of a dead stream: the declared one, or one of
// its own.
func (rt *Runtime) deadWriter(ctx context.Context, p plan, s keyspace.Stream) (*publisher.Publisher, error) {
	if l, ok := rt.logs[nameOf(s)]; ok {
		return l.writer, nil
	}
	w, err := publisher.New(publisher.Config{
		Stream: s, Node: p.Node, MaxSkew: p.MaxSkew, MaxRecordBytes: p.MaxRecordBytes,
		Observer: p.Observer, Logger: p.Logger,
	}, rt.client.Log(s), nil)
	if err != nil {
		return nil, err
	}
	_, err = rt.system.Branch(ctx, "dead/"+s.String(), w.Spec())
	return w, err
}

func (rt *Runtime) startConsumer(ctx context.Context, p plan, c consumerPlan, dead *publisher.Publisher) error {
	redis := rt.client.Log(c.key)
	actor, err := streamconsumer.New(streamconsumer.Config{
		Stream: c.key, Group: c.Group, Name: c.Name, Slots: c.Slots, Start: c.Start, Handler: c.Handler,
		Workers: c.Workers, Key: c.Key, Count: c.Count, Block: c.Block, MinIdle: c.MinIdle, MaxDeliveries: c.MaxDeliveries,
		RetryMin: c.RetryMin, RetryMax: c.RetryMax, Observer: p.Observer, Logger: p.Logger,
	}, redis, c.Archive, appendDead(dead))
	if err != nil {
		return refused(c.field, c.key, err)
	}
	if _, err := rt.system.Branch(ctx, c.path(), actor.Spec()); err != nil {
		return err
	}
	rt.consumers = append(rt.consumers, &member{plan: c, redis: redis, actor: actor})
	return nil
}

// appendDead appends to a dead stream. Members of other processes append to it
// as well, each under its own node, so an id can come out below another one's:
// such an append was refused for good and may be made anew.
func appendDead(w *publisher.Publisher) func(ctx context.Context, fields ...evtlog.Field) (evtid.ID, error) {
	return func(ctx context.Context, fields ...evtlog.Field) (id evtid.ID, err error) {
		for range deadTries {
			if id, err = w.Append(ctx, fields...); !errors.Is(err, evtlog.ErrNonMonotonic) {
				return id, err
			}
		}
		return id, fmt.Errorf("dead stream: %w", err)
	}
}
