package streamconsumer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

// The fields that a dead letter has behind the fields of its entry. A crash
// between the letter and the acknowledgement stores a second letter; FieldGroup
// and FieldOrigin together tell it from another one.
const (
	// FieldReason says why the entry was given up, in words.
	FieldReason = "dead_reason"
	// FieldAttempts is how often it was delivered to the group.
	FieldAttempts = "dead_attempts"
	// FieldGroup is the group that gave it up.
	FieldGroup = "dead_group"
	// FieldOrigin is the id of the entry in the original stream; for an entry at
	// a position that no id has, its entry id.
	FieldOrigin = "dead_origin"
	// FieldFirst is when the member that gave it up saw it fail first, and
	// FieldLast when it gave it up, both RFC 3339 in UTC. They are equal when all
	// earlier attempts were made by processes that are gone.
	FieldFirst = "dead_first"
	FieldLast  = "dead_last"
	// FieldStoredID is an id field of the entry, whose name is reserved.
	FieldStoredID = "dead_id"
	// FieldTruncated is "true" when the entry's own fields were left out, because
	// with them the dead letter would pass the limit for a record.
	FieldTruncated = "dead_truncated"
)

// maxReason is the longest reason that is stored, in bytes.
const maxReason = 1024

// deadLetter is an entry that is given up.
type deadLetter struct {
	id       evtid.ID
	entry    string
	fields   []evtlog.Field
	group    string
	reason   string
	attempts int
	first    time.Time // zero: unknown
	last     time.Time
}

// compose returns the fields of the dead letter.
func (d deadLetter) compose(truncated bool) []evtlog.Field {
	origin := d.entry
	if !d.id.IsZero() {
		origin = d.id.String()
	}
	first := d.first
	if first.IsZero() {
		first = d.last
	}
	var fields []evtlog.Field
	if !truncated {
		fields = make([]evtlog.Field, 0, len(d.fields)+6)
		for _, f := range d.fields {
			if f.Name == evtlog.IDField {
				f.Name = FieldStoredID
			}
			fields = append(fields, f)
		}
	}
	fields = append(fields,
		evtlog.F(FieldReason, d.reason[:min(len(d.reason), maxReason)]),
		evtlog.F(FieldAttempts, strconv.Itoa(d.attempts)),
		evtlog.F(FieldGroup, d.group),
		evtlog.F(FieldOrigin, origin),
		evtlog.F(FieldFirst, first.UTC().Format(time.RFC3339Nano)),
		evtlog.F(FieldLast, d.last.UTC().Format(time.RFC3339Nano)))
	if truncated {
		fields = append(fields, evtlog.F(FieldTruncated, "true"))
	}
	return fields
}

// bury moves a pending entry to the dead stream and acknowledges it at once.
// When the dead stream does not take it, it stays pending.
func (r *runner) bury(e *redislog.Entry, attempts int, reason string) error {
	d := deadLetter{
		id: e.ID, entry: e.Raw, fields: e.Fields, group: r.cfg.Group, reason: reason,
		attempts: attempts, first: r.hand.firstFailed(e.ID), last: time.Now(),
	}
	if d.entry == "" {
		d.entry = e.ID.Entry()
	}
	if err := r.store(d); err != nil {
		r.cfg.Logger.Warn("dead letter was not stored; the entry stays pending", "entry", d.entry, "err", err)
		r.postpone(e, r.retryDelay(attempts))
		return nil
	}
	if e.Raw != "" {
		r.acks.owedRaw = append(r.acks.owedRaw, e.Raw)
	} else {
		r.acks.owed = append(r.acks.owed, e.ID)
		r.hand.forget(e.ID)
	}
	return r.flush()
}

// store appends a dead letter. A stop does not cut it short.
func (r *runner) store(d deadLetter) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), closingTime)
	defer cancel()
	_, err := r.ports.dead(ctx, d.compose(false)...)
	if errors.Is(err, evtlog.ErrTooLarge) {
		_, err = r.ports.dead(ctx, d.compose(true)...)
	}
	if err != nil {
		return fmt.Errorf("streamconsumer: append to %s of %s: %w", r.cfg.Stream.Dead(), d.entry, err)
	}
	r.count.dead.Add(1)
	r.cfg.Observer.Emit(evtlog.DeadLettered{
		Stream: r.stream, Group: r.cfg.Group, ID: d.id, Entry: d.entry,
		Attempts: d.attempts, Reason: d.reason,
	})
	return nil
}
