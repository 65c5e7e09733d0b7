package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/evtid"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/redislog"
	"github.com/evtlog/evtlog/runtime"
)

// TestTerminateDuringAHandler sends SIGTERM to a process whose handler is in the
// middle of two seconds of work that it does not break off. The process ends by
// itself, what it handled is acknowledged, and its successor is given the rest
// and nothing of that.
func TestTerminateDuringAHandler(t *testing.T) {
	const records, slow = 10, 4
	srv := redistest.Start(t)
	_, log := oneStream(t, srv, runtime.Stream{})
	live := client(t, srv)
	var ids []evtid.ID
	for i := range records {
		fields := []evtlog.Field{evtlog.F("v", fmt.Sprint(i))}
		if i == slow {
			fields = append(fields, evtlog.F(fieldWork, "2s"), evtlog.F(fieldDeaf, "1"))
		}
		id, err := log.Append(testContext(t), fields...)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	h := newHistory(time.Second, "g")
	begun := make(chan struct{})
	cfg := memberConfig{URL: srv.URL(), Name: "m", Node: 2, Groups: []string{"g"}, MinIdle: time.Second, Block: 100 * time.Millisecond}
	first := startMember(t, cfg, func(p *memberProcess, words []string) {
		h.hear(p, words)
		if words[0] == sayBegin {
			close(begun)
		}
	})
	select {
	case <-begun:
	case <-first.ended:
		t.Fatalf("the member ended: %v", first.err)
	case <-time.After(60 * time.Second):
		t.Fatal("the slow handler did not begin")
	}
	first.terminate()
	if n := h.handledBy("g"); n != slow+1 {
		t.Errorf("%d records were handled until the end of the process, want %d", n, slow+1)
	}
	if n := pendingCount(t, live); n != records-slow-1 {
		t.Errorf("%d entries are pending after the stop, want the %d that were not handled", n, records-slow-1)
	}

	second := startMember(t, cfg, h.hear)
	eventually(t, 60*time.Second, "the successor to handle the rest", func() bool {
		return h.handledBy("g") == records && pendingCount(t, live) == 0
	})
	second.terminate()
	f := h.check(t, "g", ids, false)
	if f.again != 0 {
		t.Errorf("%d records were handed out again", f.again)
	}
}

func pendingCount(t *testing.T, live *redislog.Log) int64 {
	t.Helper()
	n, _, _, err := live.PendingSummary(testContext(t), "g")
	if err != nil {
		t.Fatal(err)
	}
	return n
}
