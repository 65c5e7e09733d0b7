package api

import (
	"fmt"

	"github.com/evtlog/evtlog"
	pb "github.com/evtlog/evtlog/archive/replica/replicapb"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/keyspace"
)

// StreamToWire returns the message for a stream.
func StreamToWire(s evtlog.StreamName) *pb.Stream { return &pb.Stream{Queue: s.Queue, Name: s.Name} }

// StreamFromWire returns the stream of a message; nil gives the zero name.
func StreamFromWire(s *pb.Stream) evtlog.StreamName {
	return evtlog.StreamName{Queue: s.GetQueue(), Name: s.GetName()}
}

// CheckStream returns the stream of a message when its names obey keyspace's
// rule; else the error wraps ErrBadRequest.
func CheckStream(s *pb.Stream) (evtlog.StreamName, error) {
	name := StreamFromWire(s)
	if _, err := keyspace.NewStream(name.Queue, name.Name); err != nil {
		return name, fmt.Errorf("replica: %w: %w", ErrBadRequest, err)
	}
	return name, nil
}

// IDFromWire reads an id as the messages carry it: branded, or "" for none. The
// error wraps ErrBadRequest.
func IDFromWire(s string) (evtid.ID, error) {
	if s == "" {
		return evtid.ID{}, nil
	}
	id, err := evtid.Parse(s)
	if err != nil {
		return evtid.ID{}, fmt.Errorf("replica: %w: %w", ErrBadRequest, err)
	}
	return id, nil
}

// RecordsToWire returns the messages for records.
func RecordsToWire(records []evtlog.Record) []*pb.Record {
	out := make([]*pb.Record, len(records))
	for i, r := range records {
		fields := make([]*pb.Field, len(r.Fields))
		for j, f := range r.Fields {
			fields[j] = &pb.Field{Name: []byte(f.Name), Value: []byte(f.Value)}
		}
		out[i] = &pb.Record{Id: r.ID.String(), Fields: fields, Unbranded: r.Unbranded}
	}
	return out
}

// RecordsFromWire returns the records of messages, as records of the archive.
// An id that does not parse is ErrBadRequest.
func RecordsFromWire(records []*pb.Record) ([]evtlog.Record, error) {
	out := make([]evtlog.Record, len(records))
	for i, r := range records {
		id, err := evtid.Parse(r.GetId())
		if err != nil {
			return nil, fmt.Errorf("replica: %w: record %d: %w", ErrBadRequest, i, err)
		}
		var fields []evtlog.Field
		if n := len(r.GetFields()); n > 0 {
			fields = make([]evtlog.Field, n)
		}
		for j, f := range r.GetFields() {
			fields[j] = evtlog.Field{Name: string(f.GetName()), Value: string(f.GetValue())}
		}
		out[i] = evtlog.Record{ID: id, Fields: fields, Source: evtlog.Archived, Unbranded: r.GetUnbranded()}
	}
	return out, nil
}
