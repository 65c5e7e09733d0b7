package evtlog

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Keep says how much of a stream stays live in Redis. What lies below may be
// trimmed; with an archive it is folded first. Make one with KeepLast, KeepFor
// or KeepSince; the zero Keep keeps everything.
type Keep struct {
	// Last keeps the newest so many records.
	Last int64
	// For keeps the records minted in the last so long, by the wall clock.
	For time.Duration
	// Since keeps the records minted in the millisecond of this instant or later.
	Since time.Time
	// Exact trims to the record. The default, approximate, lets Redis remove
	// whole internal nodes only, which is cheaper and leaves up to one node
	// (about 100 records) more than asked. Trims behind an archive are always
	// exact.
	Exact bool
}

// KeepLast keeps the newest n records.
func KeepLast(n int64) Keep { return Keep{Last: n} }

// KeepFor keeps the records minted in the last d.
func KeepFor(d time.Duration) Keep { return Keep{For: d} }

// KeepSince keeps the records minted at t or later.
func KeepSince(t time.Time) Keep { return Keep{Since: t} }

// All reports whether nothing is ever to be trimmed.
func (k Keep) All() bool { return k.Last == 0 && k.For == 0 && k.Since.IsZero() }

// Check reports whether the policy can be applied: at most one of Last, For and
// Since, none negative, and Since not before 1970, where no record has a
// position. The error is a *KeepError.
func (k Keep) Check() error {
	var set []string
	for _, part := range []struct {
		name string
		set  bool
	}{{"Last", k.Last != 0}, {"For", k.For != 0}, {"Since", !k.Since.IsZero()}} {
		if part.set {
			set = append(set, part.name)
		}
	}
	switch {
	case len(set) > 1:
		return &KeepError{Field: strings.Join(set, " and "), Value: "together", Reason: "give only one of them"}
	case k.Last < 0:
		return &KeepError{Field: "Last", Value: strconv.FormatInt(k.Last, 10), Reason: "give the number of records to keep, or 0 to keep all"}
	case k.For < 0:
		return &KeepError{Field: "For", Value: k.For.String(), Reason: "give a positive duration, or 0 to keep all"}
	case !k.Since.IsZero() && k.Since.Unix() < 0:
		return &KeepError{Field: "Since", Value: k.Since.Format(time.RFC3339), Reason: "give an instant from 1970 on"}
	}
	return nil
}

// KeepError says which part of a policy was refused.
type KeepError struct{ Field, Value, Reason string }

// Error implements error.
func (e *KeepError) Error() string {
	return fmt.Sprintf("evtlog: retention %s %s refused: %s", e.Field, e.Value, e.Reason)
}

// Unwrap returns ErrBadKeep.
func (e *KeepError) Unwrap() error { return ErrBadKeep }
