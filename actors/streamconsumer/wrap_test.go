package streamconsumer

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// readCounts counts the commands of a member's private connection.
type readCounts struct {
	option               option
	fresh, pending, acks atomic.Int64
	claims, ahead        atomic.Int64
}

func countingReads() *readCounts {
	c := &readCounts{}
	c.option = func(cfg *Config, p *ports) {
		dial := p.dial
		p.dial = func(ctx context.Context, name string) (groupReader, error) {
			reader, err := dial(ctx, name)
			if err != nil {
				return nil, err
			}
			return &countedReader{groupReader: reader, counts: c}, nil
		}
		p.log = &countedLog{groupLog: p.log, counts: c}
	}
	return c
}

type countedReader struct {
	groupReader
	counts *readCounts
}

func (r *countedReader) ReadNew(count int, block time.Duration) ([]redislog.Entry, error) {
	r.counts.fresh.Add(1)
	return r.groupReader.ReadNew(count, block)
}

func (r *countedReader) ReadAhead(count int) error {
	r.counts.ahead.Add(1)
	return r.groupReader.ReadAhead(count)
}

func (r *countedReader) ReadPending(after evtid.ID, count int) ([]redislog.Entry, error) {
	r.counts.pending.Add(1)
	return r.groupReader.ReadPending(after, count)
}

// countedLog counts the steps of the sweep.
type countedLog struct {
	groupLog
	counts *readCounts
}

func (l *countedLog) ClaimIdle(ctx context.Context, group, member string, minIdle time.Duration, cursor string, count int) (redislog.Idle, error) {
	l.counts.claims.Add(1)
	return l.groupLog.ClaimIdle(ctx, group, member, minIdle, cursor, count)
}

func (r *countedReader) FlushAcks() error {
	r.counts.acks.Add(1)
	return r.groupReader.FlushAcks()
}

// deafLog can be made to let no renewal through.
type deafLog struct {
	groupLog
	deaf atomic.Bool
}

func (l *deafLog) Renew(ctx context.Context, group, consumer string, ids []evtid.ID, hold time.Duration) ([]evtid.ID, error) {
	if l.deaf.Load() {
		return nil, errors.New("deaf")
	}
	return l.groupLog.Renew(ctx, group, consumer, ids, hold)
}

// fullLog is a server at its memory limit, as far as bookkeeping goes.
type fullLog struct {
	groupLog
	full atomic.Bool
}

func (l *fullLog) refuse() error {
	if l.full.Load() {
		return &redislog.ServerError{Op: "test", Prefix: "OOM", Message: "OOM", Class: redislog.BackPressure}
	}
	return nil
}

func (l *fullLog) AddSkipped(ctx context.Context, group string, ranges ...redislog.SkippedRange) error {
	if err := l.refuse(); err != nil {
		return err
	}
	return l.groupLog.AddSkipped(ctx, group, ranges...)
}

func (l *fullLog) AcquireLease(ctx context.Context, what, owner string, ttl time.Duration) (bool, error) {
	if err := l.refuse(); err != nil {
		return false, err
	}
	return l.groupLog.AcquireLease(ctx, what, owner, ttl)
}

// peerMakesGroup has a peer make a vanished group anew, behind last, just before
// the member would.
type peerMakesGroup struct {
	groupLog
	on   atomic.Bool
	last evtid.ID
}

func (l *peerMakesGroup) CreateGroup(ctx context.Context, group string, at redislog.StartAt) (bool, error) {
	if l.on.Load() {
		if _, err := l.groupLog.CreateGroup(ctx, group, redislog.AfterID(l.last)); err != nil {
			return false, err
		}
	}
	return l.groupLog.CreateGroup(ctx, group, at)
}
