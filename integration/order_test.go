package integration

import (
	"testing"

	"github.com/evtlog/evtlog"
	"github.com/evtlog/evtlog/internal/redistest"
	"github.com/evtlog/evtlog/runtime"
)

// TestOrderTheorem appends 200,000 records from 64 callers: the order of the
// stream is the order of the ids, every receipt is there once, and each caller's
// own receipts ascend.
func TestOrderTheorem(t *testing.T) {
	const callers, each = 64, 200_000 / 64
	srv := redistest.Start(t)
	_, log := oneStream(t, srv, runtime.Stream{})
	got := newReceipts()
	appendLoop(testContext(t), t, log, callers, each, got, nil)
	if got.len() != callers*each {
		t.Fatalf("%d receipts for %d appends", got.len(), callers*each)
	}
	records := collect(t, log, evtlog.Window{})
	got.check(t, records, false)
	if len(records) != callers*each {
		t.Errorf("%d records are readable after %d appends", len(records), callers*each)
	}
}
