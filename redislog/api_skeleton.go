// Package redislog is the log's half in Redis: connections, stream verbs,
// consumer groups, announcements and the classification of server errors.
package redislog

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
)

var errUnfinished = errors.New("redislog: not finished")

// Config says how to reach Redis. The zero value is a local server.
type Config struct {
	URL            string
	TLS            *tls.Config
	ClientName     string
	DialTimeout    time.Duration
	CommandTimeout time.Duration
	PoolSize       int
	Dialer         func(ctx context.Context, network, addr string) (net.Conn, error)
	Logger         *slog.Logger
}

// Client is a set of connections to one Redis.
type Client struct{}

// Open connects.
func Open(ctx context.Context, cfg Config) (*Client, error) { return nil, errUnfinished }

// Close closes the pool.
func (c *Client) Close() error { return errUnfinished }

// ServerInfo describes the server.
type ServerInfo struct {
	Version      string // "" when the server does not say
	Role         string
	AppendOnly   string // "yes", "no", "" unknown
	AppendFsync  string
	Save         string
	MaxMemory    int64 // bytes, 0 = no limit, -1 unknown
	MemoryPolicy string
	Replicas     int
	Warnings     []string
}

// Server describes the server.
func (c *Client) Server(ctx context.Context) (ServerInfo, error) {
	return ServerInfo{}, errUnfinished
}

// Publish announces.
func (c *Client) Publish(ctx context.Context, queue string, payload []byte) (int64, error) {
	return 0, errUnfinished
}

// Streams lists the streams of a queue.
func (c *Client) Streams(ctx context.Context, queue string) ([]string, error) {
	return nil, errUnfinished
}

// Log returns the handle of one stream.
func (c *Client) Log(stream keyspace.Stream) *Log { return &Log{} }

// Subscribe subscribes to a queue's announcements.
func (c *Client) Subscribe(ctx context.Context, queue string) (*Subscription, error) {
	return nil, errUnfinished
}

// Subscription receives announcements.
type Subscription struct{}

// Receive returns the next payload.
func (s *Subscription) Receive(ctx context.Context) ([]byte, error) { return nil, errUnfinished }

// Close ends the subscription.
func (s *Subscription) Close() error { return errUnfinished }

// Log is one stream in Redis.
type Log struct{}

// Stream returns the stream.
func (l *Log) Stream() keyspace.Stream { return keyspace.Stream{} }

// Last implements archive.Live.
func (l *Log) Last(ctx context.Context) (evtid.ID, error) { return evtid.ID{}, errUnfinished }

// Page implements archive.Live.
func (l *Log) Page(ctx context.Context, after, to evtid.ID, n int) ([]evtlog.Record, evtid.ID, error) {
	return nil, evtid.ID{}, errUnfinished
}

// PageBefore implements archive.Live.
func (l *Log) PageBefore(ctx context.Context, after, to evtid.ID, n int) ([]evtlog.Record, error) {
	return nil, errUnfinished
}

// StreamInfo describes a stream.
type StreamInfo struct {
	Exists bool
	Length int64
	First  evtid.ID // oldest entry, zero when empty
	Newest evtid.ID // newest entry still there, zero when empty
	Last   evtid.ID // last-generated-id
	Groups int64
}

// Info describes the stream.
func (l *Log) Info(ctx context.Context) (StreamInfo, error) { return StreamInfo{}, errUnfinished }

// Lookup is the answer to "is this id in the stream".
type Lookup struct {
	Found  bool
	Record evtlog.Record
	Top    evtid.ID
	Exists bool
}

// Lookup looks an id up on a fresh connection.
func (l *Log) Lookup(ctx context.Context, id evtid.ID) (Lookup, error) {
	return Lookup{}, errUnfinished
}

// KillClient ends another connection.
func (l *Log) KillClient(ctx context.Context, clientID int64) error { return errUnfinished }

// TrimPolicy is a plain trim. Exactly one of MaxLen and MinID is used: MinID when it is not the zero Bound.
type TrimPolicy struct {
	MaxLen int64
	MinID  evtid.Bound
	Exact  bool
}

// Trim trims.
func (l *Log) Trim(ctx context.Context, p TrimPolicy) (removed int64, err error) {
	return 0, errUnfinished
}

// Seal publishes the archive's watermark.
func (l *Log) Seal(ctx context.Context, w evtid.ID) error { return errUnfinished }

// SkippedRange is After < id <= To.
type SkippedRange struct{ After, To evtid.ID }

// Skipped is what one group was not given by a trim.
type Skipped struct {
	Group   string
	Range   SkippedRange // zero when the group had been given everything
	Pending []evtid.ID   // delivered, not acknowledged, and trimmed
}

// TrimResult is the outcome of a recorded trim.
type TrimResult struct {
	Through evtid.ID // newest entry that was removed, zero when nothing was
	Removed int64
	Skipped []Skipped
}

// TrimThrough trims and records what groups are skipped over.
func (l *Log) TrimThrough(ctx context.Context, through evtid.ID) (TrimResult, error) {
	return TrimResult{}, errUnfinished
}

// FirstForeign finds an entry outside of the id range.
func (l *Log) FirstForeign(ctx context.Context) (entry string, found bool, err error) {
	return "", false, errUnfinished
}

// StartAt is where a new group begins. Make one with Head, New or AfterID; the zero value is refused.
type StartAt struct {
	kind uint8
	id   evtid.ID
}

// Head starts at the first entry that ever was.
func Head() StartAt { return StartAt{kind: 1} }

// New starts behind the newest entry.
func New() StartAt { return StartAt{kind: 2} }

// AfterID starts behind id.
func AfterID(id evtid.ID) StartAt { return StartAt{kind: 3, id: id} }

// CreateGroup creates a group.
func (l *Log) CreateGroup(ctx context.Context, group string, at StartAt) (created bool, err error) {
	return false, errUnfinished
}

// DestroyGroup removes a group.
func (l *Log) DestroyGroup(ctx context.Context, group string) error { return errUnfinished }

// GroupInfo describes a group.
type GroupInfo struct {
	Name          string
	Consumers     int64
	Pending       int64
	LastDelivered evtid.ID
	EntriesRead   int64 // -1 unknown
	Lag           int64 // -1 unknown
}

// Groups lists the groups.
func (l *Log) Groups(ctx context.Context) ([]GroupInfo, error) { return nil, errUnfinished }

// MemberInfo describes a member of a group.
type MemberInfo struct {
	Name    string
	Pending int64
	Idle    time.Duration
}

// Members lists the members.
func (l *Log) Members(ctx context.Context, group string) ([]MemberInfo, error) {
	return nil, errUnfinished
}

// DeleteMember removes a member without pending entries.
func (l *Log) DeleteMember(ctx context.Context, group, member string) error { return errUnfinished }

// PendingEntry is one delivered and unacknowledged entry.
type PendingEntry struct {
	ID       evtid.ID
	Raw      string // entry id, only set when foreign (ID is zero)
	Consumer string
	Idle     time.Duration
	Attempts int
}

// Pending lists pending entries with id > after. consumer "" is everybody, minIdle 0 any.
func (l *Log) Pending(ctx context.Context, group string, after evtid.ID, n int, consumer string, minIdle time.Duration) ([]PendingEntry, error) {
	return nil, errUnfinished
}

// PendingSummary counts the pending entries.
func (l *Log) PendingSummary(ctx context.Context, group string) (count int64, lowest, highest evtid.ID, err error) {
	return 0, evtid.ID{}, evtid.ID{}, errUnfinished
}

// Renew keeps running work.
func (l *Log) Renew(ctx context.Context, group, consumer string, ids []evtid.ID) (still []evtid.ID, err error) {
	return nil, errUnfinished
}

// SkippedRanges lists what the group was not given.
func (l *Log) SkippedRanges(ctx context.Context, group string) ([]SkippedRange, error) {
	return nil, errUnfinished
}

// RemoveSkipped removes a handled range.
func (l *Log) RemoveSkipped(ctx context.Context, group string, r SkippedRange) error {
	return errUnfinished
}

// ShrinkSkipped replaces r by what is left of it above done, in one step.
func (l *Log) ShrinkSkipped(ctx context.Context, group string, r SkippedRange, done evtid.ID) error {
	return errUnfinished
}

// AcquireLease takes or extends a lease.
func (l *Log) AcquireLease(ctx context.Context, what, owner string, ttl time.Duration) (bool, error) {
	return false, errUnfinished
}

// ReleaseLease gives a lease back when owner holds it.
func (l *Log) ReleaseLease(ctx context.Context, what, owner string) error { return errUnfinished }

// Writer is the append pipeline.
type Writer struct{}

// NewWriter dials a writer.
func (l *Log) NewWriter(ctx context.Context) (*Writer, error) { return nil, errUnfinished }

// ClientID is the server's id of this connection, 0 when unknown.
func (w *Writer) ClientID() int64 { return 0 }

// Append encodes an append.
func (w *Writer) Append(id evtid.ID, fields []evtlog.Field) {}

// Publish encodes an announcement to the queue's channel.
func (w *Writer) Publish(payload []byte) {}

// Wait encodes a WAIT.
func (w *Writer) Wait(replicas int, timeout time.Duration) {}

// Buffered is the bytes encoded and not flushed.
func (w *Writer) Buffered() int { return 0 }

// Flush writes.
func (w *Writer) Flush() error { return errUnfinished }

// ReceiveAppend reads the answer of an Append.
func (w *Writer) ReceiveAppend(id evtid.ID) error { return errUnfinished }

// ReceiveInt reads the answer of a Publish or Wait.
func (w *Writer) ReceiveInt() (int64, error) { return 0, errUnfinished }

// Close closes the connection.
func (w *Writer) Close() error { return errUnfinished }

// Entry is one entry as a group reads it.
type Entry struct {
	evtlog.Record
	Raw     string // entry id, only set when foreign (Record.ID zero)
	Missing bool   // body trimmed
	Stored  string // the id field that disagrees with the position
}

// Claimed is one step of AutoClaim.
type Claimed struct {
	Entries []Entry
	Deleted []evtid.ID
	Cursor  string // "0-0" = done
}

// GroupReader reads for one member of a group.
type GroupReader struct{}

// NewGroupReader dials a reader.
func (l *Log) NewGroupReader(ctx context.Context, group, consumer string) (*GroupReader, error) {
	return nil, errUnfinished
}

// ClientID is the server's id of this connection, 0 when unknown.
func (g *GroupReader) ClientID() int64 { return 0 }

// Ack queues acknowledgements.
func (g *GroupReader) Ack(ids ...evtid.ID) {}

// AckRaw queues acknowledgements of foreign entries.
func (g *GroupReader) AckRaw(entries ...string) {}

// ReadNew reads new entries; nil when block ran out.
func (g *GroupReader) ReadNew(count int, block time.Duration) ([]Entry, error) {
	return nil, errUnfinished
}

// ReadPending reads a page of the member's own pending entries with id > after.
func (g *GroupReader) ReadPending(after evtid.ID, count int) ([]Entry, error) {
	return nil, errUnfinished
}

// AutoClaim takes over entries of dead peers.
func (g *GroupReader) AutoClaim(minIdle time.Duration, cursor string, count int) (Claimed, error) {
	return Claimed{}, errUnfinished
}

// FlushAcks sends the queued acknowledgements and waits for the answer.
func (g *GroupReader) FlushAcks() error { return errUnfinished }

// Acked counts entries the server acknowledged for this reader.
func (g *GroupReader) Acked() int64 { return 0 }

// LostAcks counts acknowledgements that the server did not count: the entry was not pending any more.
func (g *GroupReader) LostAcks() int64 { return 0 }

// Close closes the connection; any goroutine may call it.
func (g *GroupReader) Close() error { return errUnfinished }

// Class is what to do about an error.
type Class uint8

// The classes.
const (
	Transient Class = iota + 1
	BackPressure
	Topology
	Terminal
	Caller
)

// Classify returns the class of an error, 0 for nil.
func Classify(err error) Class { return 0 }

// ServerError is an answer that begins with '-'. Unwrap gives the root sentinel.
type ServerError struct {
	Op      string
	Addr    string
	Prefix  string
	Message string
	Class   Class
}

// Error implements error.
func (e *ServerError) Error() string { return e.Message }

// Unwrap returns the root sentinel.
func (e *ServerError) Unwrap() error { return evtlog.ErrServer }

// ConnError is a broken connection; the outcome of what was sent is unknown.
type ConnError struct {
	Op, Addr string
	Err      error
}

// Error implements error.
func (e *ConnError) Error() string { return e.Op }

// Unwrap returns evtlog.ErrUnavailable and the cause.
func (e *ConnError) Unwrap() []error { return []error{evtlog.ErrUnavailable, e.Err} }
