package publisher_test

import (
	"testing"

	"github.com/evtlog/evtlog/actors/publisher"
	"github.com/evtlog/evtlog/internal/redistest"
)

// An append allocates nothing of its own: its request is recycled, its fields are
// copied into storage that is kept. A few are left to the pools and the runtime.
func TestAppendAllocations(t *testing.T) {
	b := running(t, redistest.Start(t), publisher.Config{})
	fields, ctx := benchFields(), t.Context()
	got := testing.AllocsPerRun(500, func() {
		if _, err := b.Append(ctx, fields[0], fields[1], fields[2]); err != nil {
			t.Error(err)
		}
	})
	if got > 3 {
		t.Errorf("%v allocations per append, want at most 3", got)
	}
}
