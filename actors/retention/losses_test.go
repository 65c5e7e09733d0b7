package retention

import (
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/actors/internal/fakelog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/redislog"
)

func TestLosses(t *testing.T) {
	id := fakelog.ID
	got := losses(evtlog.StreamName{Queue: "q", Name: "s"}, []redislog.Skipped{
		{Group: "late", Range: redislog.SkippedRange{After: id(2), To: id(9)}},
		{Group: "busy", Pending: []evtid.ID{id(7), id(3), id(5)}},
		{Group: "both", Range: redislog.SkippedRange{To: id(9)}, Pending: []evtid.ID{id(1)}},
		{Group: "none"},
	})
	want := []struct {
		group     string
		after, to evtid.ID
	}{
		{"late", id(2), id(9)},
		{"busy", id(3).Prev(), id(7)},
		{"both", evtid.ID{}, id(9)},
		{"both", id(1).Prev(), id(1)},
	}
	if len(got) != len(want) {
		t.Fatalf("%d events, want %d: %v", len(got), len(want), got)
	}
	for i, w := range want {
		g := got[i]
		if g.Group != w.group || g.After != w.after || g.To != w.to || g.Stream.Name != "s" || g.Reason == "" {
			t.Errorf("event %d: %+v, want %+v", i, g, w)
		}
	}
}
