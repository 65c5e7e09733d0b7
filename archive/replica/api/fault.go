package api

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	pb "github.com/evtlog/evtlog/archive/replica/replicapb"
)

// ToWire turns an error into the form the other side can turn back. An error
// that is one already is returned as it is. nil stays nil.
func ToWire(err error) error {
	var already *connect.Error
	if err == nil || errors.As(err, &already) {
		return err
	}
	code, fault := classify(err)
	out := connect.NewError(code, errors.New(err.Error()))
	if fault != nil {
		fault.Message = err.Error()
		if detail, detailErr := connect.NewErrorDetail(fault); detailErr == nil {
			out.AddDetail(detail)
		}
	}
	return out
}

func classify(err error) (connect.Code, *pb.Fault) {
	var (
		conflict  *archive.ConflictError
		notLeader *NotLeaderError
		foreign   *ForeignClusterError
		tooLarge  *TooLargeError
		uncertain *UncertainError
	)
	switch {
	case errors.As(err, &conflict):
		return connect.CodeFailedPrecondition, &pb.Fault{Kind: pb.Fault_KIND_CONFLICT, Stream: StreamToWire(conflict.Stream), Prev: conflict.Prev.String(), Watermark: conflict.Watermark.String()}
	case errors.As(err, &tooLarge):
		return connect.CodeInvalidArgument, &pb.Fault{Kind: pb.Fault_KIND_TOO_LARGE, Stream: StreamToWire(tooLarge.Stream), Size: tooLarge.Size, Limit: tooLarge.Limit}
	case errors.As(err, &notLeader):
		return connect.CodeUnavailable, &pb.Fault{Kind: pb.Fault_KIND_NOT_LEADER, LeaderId: notLeader.LeaderID, LeaderAddress: notLeader.LeaderAddress}
	case errors.As(err, &uncertain):
		return connect.CodeAborted, &pb.Fault{Kind: pb.Fault_KIND_UNCERTAIN, Stream: StreamToWire(uncertain.Stream), Prev: uncertain.Prev.String(), Watermark: uncertain.Last.String()}
	case errors.As(err, &foreign):
		return connect.CodePermissionDenied, &pb.Fault{Kind: pb.Fault_KIND_FOREIGN_CLUSTER, Ours: foreign.Ours, Theirs: foreign.Theirs}
	}
	for _, row := range plainFaults {
		if errors.Is(err, row.err) {
			return row.code, &pb.Fault{Kind: row.kind}
		}
	}
	switch {
	case errors.Is(err, context.Canceled):
		return connect.CodeCanceled, nil
	case errors.Is(err, context.DeadlineExceeded):
		return connect.CodeDeadlineExceeded, nil
	}
	return connect.CodeInternal, nil
}

// plainFaults are the errors that carry nothing but their class.
var plainFaults = []struct {
	err  error
	kind pb.Fault_Kind
	code connect.Code
}{
	{archive.ErrRejected, pb.Fault_KIND_REJECTED, connect.CodeInvalidArgument},
	{archive.ErrBehind, pb.Fault_KIND_BEHIND, connect.CodeUnavailable},
	{archive.ErrCorrupt, pb.Fault_KIND_CORRUPT, connect.CodeDataLoss},
	{ErrDenied, pb.Fault_KIND_DENIED, connect.CodeUnauthenticated},
	{ErrRemoved, pb.Fault_KIND_REMOVED, connect.CodeFailedPrecondition},
	{ErrMembership, pb.Fault_KIND_MEMBERSHIP, connect.CodeFailedPrecondition},
	{ErrNotReady, pb.Fault_KIND_NOT_READY, connect.CodeUnavailable},
	{ErrNoLeader, pb.Fault_KIND_NO_LEADER, connect.CodeUnavailable},
	{ErrBadRequest, pb.Fault_KIND_BAD_REQUEST, connect.CodeInvalidArgument},
	{evtlog.ErrBadWindow, pb.Fault_KIND_BAD_REQUEST, connect.CodeInvalidArgument},
}

// remoteError is an error of the other side: its text, and the class to branch on.
type remoteError struct {
	text  string
	class error
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.class }

// FromWire turns an error of a call back into the typed one of the other side.
// Errors of the network and of contexts stay what they are.
func FromWire(err error) error {
	var ce *connect.Error
	if !errors.As(err, &ce) {
		return err
	}
	for _, d := range ce.Details() {
		if v, valueErr := d.Value(); valueErr == nil {
			if f, ok := v.(*pb.Fault); ok {
				return fromFault(f)
			}
		}
	}
	return err
}

func fromFault(f *pb.Fault) error {
	stream := StreamFromWire(f.GetStream())
	prev, prevErr := IDFromWire(f.GetPrev())
	watermark, wErr := IDFromWire(f.GetWatermark())
	if err := errors.Join(prevErr, wErr); err != nil {
		return fmt.Errorf("replica: unreadable answer: %w", err)
	}
	switch f.GetKind() {
	case pb.Fault_KIND_CONFLICT:
		return &archive.ConflictError{Stream: stream, Prev: prev, Watermark: watermark}
	case pb.Fault_KIND_TOO_LARGE:
		return &TooLargeError{Stream: stream, Size: f.GetSize(), Limit: f.GetLimit()}
	case pb.Fault_KIND_NOT_LEADER:
		return &NotLeaderError{LeaderID: f.GetLeaderId(), LeaderAddress: f.GetLeaderAddress()}
	case pb.Fault_KIND_UNCERTAIN:
		return &UncertainError{Stream: stream, Prev: prev, Last: watermark, Err: errors.New(f.GetMessage())}
	case pb.Fault_KIND_FOREIGN_CLUSTER:
		return &ForeignClusterError{Ours: f.GetOurs(), Theirs: f.GetTheirs()}
	}
	for _, row := range plainFaults {
		if row.kind == f.GetKind() {
			return &remoteError{text: f.GetMessage(), class: row.err}
		}
	}
	return errors.New(f.GetMessage())
}
