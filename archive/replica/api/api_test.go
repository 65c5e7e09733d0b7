package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/archive"
	"github.com/evtlog/evtlog/evtid"
)

var stream = evtlog.StreamName{Queue: "cm", Name: "feed"}

// What a caller inside the process can branch on, one behind the wire can too.
func TestErrorsCrossTheWire(t *testing.T) {
	id := evtid.Max
	for _, err := range []error{
		&archive.ConflictError{Stream: stream, Prev: id.Prev(), Watermark: id},
		&TooLargeError{Stream: stream, Size: 5, Limit: 4},
		&NotLeaderError{LeaderID: "a", LeaderAddress: "h:1,h:2"},
		&UncertainError{Stream: stream, Prev: id.Prev(), Last: id, Err: errors.New("lost")},
		&ForeignClusterError{Ours: "a/1", Theirs: "b/2"},
		fmt.Errorf("x: %w", archive.ErrRejected),
		fmt.Errorf("x: %w", archive.ErrBehind),
		fmt.Errorf("x: %w", archive.ErrCorrupt),
		fmt.Errorf("x: %w", ErrDenied),
		fmt.Errorf("x: %w", ErrMembership),
		fmt.Errorf("x: %w", ErrRemoved),
		fmt.Errorf("x: %w", ErrNotReady),
		fmt.Errorf("x: %w", ErrNoLeader),
		fmt.Errorf("x: %w", ErrBadRequest),
	} {
		got := FromWire(ToWire(err))
		for _, class := range []error{
			archive.ErrConflict, archive.ErrRejected, archive.ErrBehind, archive.ErrCorrupt, evtlog.ErrTooLarge,
			ErrNotLeader, ErrUncertain, ErrForeignCluster, ErrDenied, ErrMembership, ErrRemoved, ErrNotReady, ErrNoLeader, ErrBadRequest,
		} {
			if errors.Is(err, class) != errors.Is(got, class) {
				t.Errorf("%v became %v: differs in %v", err, got, class)
			}
		}
	}
	var c *archive.ConflictError
	if err := FromWire(ToWire(&archive.ConflictError{Stream: stream, Watermark: id})); !errors.As(err, &c) || c.Watermark != id || c.Stream != stream {
		t.Errorf("%v", err)
	}
	if err := ToWire(nil); err != nil {
		t.Errorf("nil became %v", err)
	}
	if err := FromWire(context.Canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("a context's error became %v", err)
	}
}

func TestRecordsCrossTheWire(t *testing.T) {
	in := []evtlog.Record{
		{ID: evtid.Max, Source: evtlog.Archived, Fields: []evtlog.Field{evtlog.F("a", "\xff\x00"), evtlog.F("a", "")}},
		{ID: evtid.Max.Prev(), Source: evtlog.Archived, Unbranded: true},
	}
	out, err := RecordsFromWire(RecordsToWire(in))
	if err != nil || fmt.Sprintf("%#v", out) != fmt.Sprintf("%#v", in) || !out[1].Unbranded {
		t.Errorf("%#v, %v", out, err)
	}
	bad := RecordsToWire(in)
	bad[1].Id = "nonsense"
	if _, err := RecordsFromWire(bad); !errors.Is(err, ErrBadRequest) {
		t.Errorf("a record without an id: %v", err)
	}
	if _, err := CheckStream(StreamToWire(evtlog.StreamName{Queue: "a b", Name: "x"})); !errors.Is(err, ErrBadRequest) {
		t.Errorf("a bad name: %v", err)
	}
}

func TestAddress(t *testing.T) {
	a, err := ParseAddress("node-1.example.org:7460,10.0.0.1:7461")
	if err != nil || a.String() != "node-1.example.org:7460,10.0.0.1:7461" {
		t.Errorf("%v, %v", a, err)
	}
	for _, s := range []string{"", "a:1", "a:1,b", "0.0.0.0:1,b:2", "a:1,[::]:2", ":1,b:2", "a:0,b:2"} {
		if _, err := ParseAddress(s); !errors.Is(err, ErrBadRequest) {
			t.Errorf("%q: %v", s, err)
		}
	}
	for listen, want := range map[string]bool{"127.0.0.1:1": true, "[::1]:1": true, "localhost:1": true, "0.0.0.0:1": false, ":1": false, "10.0.0.1:1": false, "x": false} {
		if IsLoopback(listen) != want {
			t.Errorf("IsLoopback(%q) = %t", listen, !want)
		}
	}
}

func TestIdentity(t *testing.T) {
	full := Identity{"c", "1"}
	for other, ok := range map[Identity]bool{full: true, {"c", ""}: true, {}: true, {"d", "1"}: false, {"c", "2"}: false, {"", "2"}: false} {
		if err := full.Matches(other); (err == nil) != ok || err != nil && !errors.Is(err, ErrForeignCluster) {
			t.Errorf("%v with %v: %v", full, other, err)
		}
	}
}

func TestToken(t *testing.T) {
	h := func(v string) http.Header { return http.Header{"Authorization": []string{v}} }
	for _, c := range []struct {
		token string
		h     http.Header
		ok    bool
	}{{"", nil, true}, {"s", h("Bearer s"), true}, {"s", h("Bearer x"), false}, {"s", h("s"), false}, {"s", nil, false}} {
		err := CheckToken(c.token, c.h)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrDenied) {
			t.Errorf("%q, %v: %v", c.token, c.h, err)
		}
	}
}
