package evtlog

import (
	"context"
	"fmt"
	"iter"

	"github.com/evtlog/evtlog/evtid"
)

// IDField is the name of the first field of every stored entry. It repeats the
// id for readers that see only the fields; callers may not use the name.
const IDField = "id"

// DefaultMaxRecordBytes is the largest record that is accepted unless
// configured otherwise: names and values together, in bytes.
const DefaultMaxRecordBytes = 1 << 20

// StreamName names a stream in the shared types. It is comparable. The rule for
// both parts is keyspace's.
type StreamName struct {
	Queue string
	Name  string
}

// String returns "queue/name".
func (s StreamName) String() string { return s.Queue + "/" + s.Name }

// Field is one name and value of a record. Both are arbitrary bytes; UTF-8 is
// not required.
type Field struct {
	Name  string
	Value string
}

// F returns a Field.
func F(name, value string) Field { return Field{Name: name, Value: value} }

// Source says where a record was read from.
type Source uint8

// Where a record can come from.
const (
	// Live is the stream in Redis.
	Live Source = iota
	// Archived is the archive.
	Archived
)

// String returns "live" or "archive".
func (s Source) String() string {
	if s == Archived {
		return "archive"
	}
	return "live"
}

// Record is one event of a stream, as it was appended: fields keep the caller's
// order, and duplicates are kept.
type Record struct {
	// ID is the position in the stream, and so the identity.
	ID evtid.ID
	// Fields are the caller's fields, without the stored id field. The slice and
	// its strings belong to the receiver.
	Fields []Field
	// Source says where this copy was read from. It is not part of the event.
	Source Source
	// Unbranded is true when the entry was stored without a leading id field
	// that agrees with its position: a foreign writer left it out, or wrote
	// another id. The position is trusted; a disagreeing id field stays in
	// Fields as it is.
	Unbranded bool
}

// Get returns the value of the first field of that name.
func (r Record) Get(name string) (value string, ok bool) { return get(r.Fields, name) }

func get(fields []Field, name string) (string, bool) {
	for _, f := range fields {
		if f.Name == name {
			return f.Value, true
		}
	}
	return "", false
}

// Size returns the bytes of all names and values.
func Size(fields []Field) int {
	n := 0
	for _, f := range fields {
		n += len(f.Name) + len(f.Value)
	}
	return n
}

// CheckFields reports whether a record with these fields may be appended. limit
// is the largest Size; 0 means DefaultMaxRecordBytes. The error is a
// *FieldError or a *TooLargeError, and nothing has been written.
func CheckFields(fields []Field, limit int) error {
	if limit == 0 {
		limit = DefaultMaxRecordBytes
	}
	for i, f := range fields {
		if f.Name == IDField {
			return &FieldError{Index: i, Name: f.Name, Reason: "the name is reserved for the event id; choose another"}
		}
	}
	if size := Size(fields); size > limit {
		return &TooLargeError{Size: size, Limit: limit}
	}
	return nil
}

// Delivery is one attempt to have a record handled by a member of a group.
type Delivery struct {
	Record
	// Stream is the stream the record belongs to.
	Stream StreamName
	// Group is the consumer group.
	Group string
	// Attempts counts the deliveries of this entry to the group, this one
	// included: 1 is the first. It is the server's count, so it also counts
	// attempts that ended in a crash.
	Attempts int
}

// Handler handles one delivery. It has one shape for work and for streams.
//
// nil acknowledges the entry. An error, or a panic, leaves it pending: it is
// offered again after a back-off, and after the consumer's MaxDeliveries it is
// moved to the dead stream. RetryAfter is an error that names the pause before the
// next attempt; Dead is one that moves the entry to the dead stream at once.
// Deliveries are at-least-once, so a handler is idempotent; Delivery.ID is the key
// to deduplicate on.
//
// ctx is cancelled, with a cause, when the consumer stops, when the member has
// lost the entry to another one, or when the program cancels this delivery.
// Unless the consumer is given more workers, one call runs at a time; with more,
// calls run at the same time, and entries of one key one after the other.
type Handler func(ctx context.Context, d Delivery) error

// Reader reads records of one stream in mint order.
type Reader interface {
	// Read returns the records of w. The sequence ends after the first error.
	// It may be ranged over once, by one goroutine; breaking out releases
	// everything it holds. Records are read while ranging, in pages.
	Read(ctx context.Context, w Window) iter.Seq2[Record, error]
}

// GoString makes test failures readable.
func (r Record) GoString() string {
	return fmt.Sprintf("%s%q", r.ID, r.Fields)
}
