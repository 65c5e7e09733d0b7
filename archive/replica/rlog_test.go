package replica

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"

	"github.com/hashicorp/raft"
)

func TestNothingToSnapshotIsNoError(t *testing.T) {
	for err, want := range map[error]bool{raft.ErrNothingNewToSnapshot: false, errors.New("disk"): true} {
		var out bytes.Buffer
		raftLogger(slog.New(slog.NewTextHandler(&out, nil))).Error("failed to take snapshot", "error", err)
		if got := out.Len() > 0; got != want {
			t.Errorf("%v: a line was written: %v, want %v: %s", err, got, want, &out)
		}
	}
}
