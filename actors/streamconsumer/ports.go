package streamconsumer

import (
	"context"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// groupLog is what a consumer needs of the stream beside its private
// connection. *redislog.Log is one.
type groupLog interface {
	CreateGroup(ctx context.Context, group string, at redislog.StartAt) (created bool, err error)
	Page(ctx context.Context, after, to evtid.ID, n int) (page []evtlog.Record, floor evtid.ID, err error)
	Groups(ctx context.Context) ([]redislog.GroupInfo, error)
	Pending(ctx context.Context, group string, after evtid.ID, n int, consumer string, minIdle time.Duration) ([]redislog.PendingEntry, error)
	Renew(ctx context.Context, group, consumer string, ids []evtid.ID, hold time.Duration) (still []evtid.ID, err error)
	ClaimIdle(ctx context.Context, group, member string, minIdle time.Duration, cursor string, count int) (redislog.Idle, error)
	TakeTrimmed(ctx context.Context, group, self string, r redislog.SkippedRange, minIdle time.Duration, keep func(evtid.ID) bool) (taken, held []redislog.PendingEntry, err error)
	Yield(ctx context.Context, group, consumer string, ids []evtid.ID, idle time.Duration) error
	SkippedRanges(ctx context.Context, group string) ([]redislog.SkippedRange, error)
	AddSkipped(ctx context.Context, group string, ranges ...redislog.SkippedRange) error
	ShrinkSkipped(ctx context.Context, group string, r redislog.SkippedRange, done evtid.ID) error
	SettleSkipped(ctx context.Context, group string, ids []evtid.ID) error
	SplitSkipped(ctx context.Context, group string, r redislog.SkippedRange, ids []evtid.ID) error
	JoinSkipped(ctx context.Context, group string, ranges ...redislog.SkippedRange) error
	RemoveSkipped(ctx context.Context, group string, r redislog.SkippedRange) error
	AcquireLease(ctx context.Context, what, owner string, ttl time.Duration) (bool, error)
	ReleaseLease(ctx context.Context, what, owner string) error
	KillReader(ctx context.Context, group, consumer string, clientID int64) error
}

// groupReader is the private connection. *redislog.GroupReader is one.
type groupReader interface {
	ClientID() int64
	Ack(ids ...evtid.ID)
	AckRaw(entries ...string)
	ReadNew(count int, block time.Duration) ([]redislog.Entry, error)
	ReadAhead(count int) error
	AwaitAhead() error
	TakeAhead() ([]redislog.Entry, error)
	ReadPending(after evtid.ID, count int) ([]redislog.Entry, error)
	FlushAcks() error
	LostAcks() int64
	Recorded() int64
	Close() error
}

// ports is everything outside of the package that a consumer works with.
type ports struct {
	log  groupLog
	dial func(ctx context.Context, member string) (groupReader, error)
	arch archive.Archive // nil: none
	dead func(ctx context.Context, fields ...evtlog.Field) (evtid.ID, error)
	rnd  func() float64
}
